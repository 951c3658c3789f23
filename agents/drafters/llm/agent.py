"""The agent: one linear message list, one loop. Limits are checked before each call and each step is saved before the
next begins; a malformed answer or a refused candidate goes back to the model as the next message."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.drafters.llm.messages import Answer, Charge, ToolCall, read_calls, reply_to
from agents.drafters.llm.settings import Limits
from agents.drafters.llm.text import MAX_STORED, cut, render
from agents.drafters.llm.tools import ENTRY, Result, Workbench, require_submissions
from agents.errors import AgentError, CandidateRefused, EndpointProblem, LimitReached, MalformedAnswer
from agents.types import TrajectoryStore


class Model(Protocol):
    """What answers: `agents.drafters.llm.model.ChatModel`."""

    name: str

    def ask(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], seconds: float) -> Answer:
        """One answer to the conversation so far."""
        ...


@dataclass
class Spent:
    """What a draft used. An unknown cost stays unknown (None) for the whole draft; limits count what was charged."""

    turns: int = 0
    tokens: int = 0
    charged_usd: float = 0.0
    cost_usd: float | None = 0.0

    def add(self, charge: Charge) -> None:
        """Count one turn, answered or not, with all its tries."""
        self.turns += 1
        self.tokens += charge.charged_tokens
        self.charged_usd += charge.charged_usd
        cost = charge.cost_usd
        self.cost_usd = None if self.cost_usd is None or cost is None else self.cost_usd + cost


@dataclass
class Agent:
    """One draft of one model for one module class. `run` returns how it ended."""

    model: Model
    bench: Workbench
    record: TrajectoryStore
    limits: Limits
    clock: Callable[[], float] = time.monotonic
    messages: list[dict[str, Any]] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    trajectory: str | None = None
    _saved: int = 0
    _started: float = 0.0

    def run(self, task: str) -> Result:
        """Work until a submission is accepted or the model gives up.

        Raises LimitReached, BudgetExhausted, EndpointProblem or SandboxUnavailable; the last step saved says which.
        """
        self._started = self.clock()
        tools = self.bench.tools()
        system = render("system", tools=tools, entry=ENTRY, submissions=self.limits.submissions)
        self.messages += [{"role": "system", "content": system}, {"role": "user", "content": task}]
        self._save("start", model=self.model.name)
        try:
            result = self._loop([tool.schema() for tool in tools])
        except AgentError as error:
            self._save("end", outcome=error.code, reason=str(error))
            raise
        self._save("end", outcome=str(result.end), reason=result.text)
        return result

    def _loop(self, schemas: list[dict[str, Any]]) -> Result:
        while True:
            seconds = self._check_limits()
            answer = self._ask(schemas, seconds)
            self.spent.add(answer.charge)
            self.messages.append(answer.message)
            self._save("answer", tokens=answer.usage.total, cost_usd=answer.charge.cost_usd)
            result = self._act(answer)
            if result is not None and result.end is not None:
                return result

    def _ask(self, schemas: list[dict[str, Any]], seconds: float) -> Answer:
        try:
            return self.model.ask(self.messages, schemas, seconds)
        except EndpointProblem as error:
            if error.charge is not None:
                self.spent.add(error.charge)
            raise

    def _check_limits(self) -> float:
        seconds = self.limits.seconds - (self.clock() - self._started)
        require_submissions(self.bench)
        for name, used, limit in (
            ("turns", self.spent.turns, self.limits.turns),
            ("tokens", self.spent.tokens, self.limits.tokens),
            ("USD", self.spent.charged_usd, self.limits.cost_usd),
        ):
            if used >= limit:
                raise LimitReached(f"the draft used its {limit} {name}")
        if seconds <= 0:
            raise LimitReached(f"the draft used its {self.limits.seconds:.0f} seconds")
        return seconds

    def _act(self, answer: Answer) -> Result | None:
        try:
            calls = read_calls(answer)
        except MalformedAnswer as error:
            self._answer_all(answer, self._malformed(error))
            return None
        for call in calls:
            result = self._use(call)
            self.messages.append(reply_to(call, result.text))
            self._save("tool", tool=call.name[:60], target=self.bench.target.get("module_class"), facts=result.facts)
            if result.end is not None or self.bench.submissions_left <= 0:
                return result
        return None

    def _use(self, call: ToolCall) -> Result:
        try:
            return self.bench.use(call)
        except MalformedAnswer as error:
            return Result(self._malformed(error), facts={"malformed": str(error)})
        except CandidateRefused as error:
            left = self.bench.submissions_left if call.name == "submit" else None
            return Result(render("refused", reason=str(error), left=left), facts={"refused": str(error)})

    def _malformed(self, error: MalformedAnswer) -> str:
        return render("malformed", reason=str(error), names=", ".join(t.name for t in self.bench.tools()))

    def _answer_all(self, answer: Answer, text: str) -> None:
        """Every call of an answer needs its reply, or the endpoint refuses the conversation."""
        ids = [call["id"] for call in answer.message.get("tool_calls") or []]
        self.messages += [{"role": "tool", "tool_call_id": i, "content": text} for i in ids] or [reply_to(None, text)]
        self._save("malformed")

    def _save(self, kind: str, **facts: Any) -> None:
        fresh = [_stored(message) for message in self.messages[self._saved :]]
        self._saved = len(self.messages)
        self.trajectory = self.record({"kind": kind, "turn": self.spent.turns, "messages": fresh, **facts})


def _stored(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    return {**message, "content": cut(content, MAX_STORED)} if isinstance(content, str) else message
