"""The agent: one linear message list, one loop. Limits are checked before each call and each step is saved before the
next begins; a malformed answer or a refused candidate goes back to the model as the next message."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from agents.drafters.llm.messages import Answer, Charge, ToolCall, read_calls, reply_to
from agents.drafters.llm.resume import Resumed
from agents.drafters.llm.settings import Limits
from agents.drafters.llm.text import MAX_STORED, cut, render
from agents.drafters.llm.tools import TOOLS
from agents.drafters.llm.workbench import Result, Workbench, require_submissions
from agents.errors import AgentError, CandidateRefused, EndpointProblem, LimitReached, MalformedAnswer
from agents.types import TrajectoryStore

Keep = Callable[[Answer], None]


class Model(Protocol):
    """What answers: `agents.drafters.llm.model.ChatModel`."""

    name: str

    def ask(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], seconds: float, keep: Keep | None = None
    ) -> Answer:
        """One answer to the conversation so far; `keep` stores it before its money is settled."""
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
    """One draft of one model for one target. `run` returns how it ended."""

    model: Model
    bench: Workbench
    record: TrajectoryStore
    limits: Limits
    clock: Callable[[], float] = time.monotonic
    facts: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    trajectory: str | None = None
    _saved: int = 0
    _started: float = 0.0
    _unusable: int = 0
    _context: int = 0

    def run(self, task: str) -> Result:
        """Work until a submission is accepted or the model gives up.

        Raises LimitReached, BudgetExhausted, EndpointProblem or SandboxUnavailable; the last step saved says which.
        """
        self._started = self.clock()
        self._resumed = Resumed(self.record.earlier)
        self.messages += opening(self.bench, self.limits, task)
        began = "resumed" if self._resumed.steps else "start"
        self._save(began, model=self.model.name, limits=asdict(self.limits), **self.facts)
        try:
            result = self._loop([tool.schema() for tool in TOOLS])
        except AgentError as error:
            self._save("end", outcome=error.code, reason=str(error), spent=asdict(self.spent))
            raise
        self._save("end", outcome=str(result.end), reason=result.text, spent=asdict(self.spent))
        return result

    def _loop(self, schemas: list[dict[str, Any]]) -> Result:
        while True:
            seconds = self._check_limits()
            answer = self._ask(schemas, seconds)
            result = self._act(answer)
            if result is not None and result.end is not None:
                return result

    def _ask(self, schemas: list[dict[str, Any]], seconds: float) -> Answer:
        known = self._resumed.next_answer(self.messages)
        if known is not None:
            self._keep(known, replayed=True)
            return known
        try:
            return self.model.ask(self.messages, schemas, seconds, self._keep)
        except EndpointProblem as error:
            if error.charge is not None:
                self.spent.add(error.charge)
            raise

    def _keep(self, answer: Answer, replayed: bool = False) -> None:
        self.spent.add(answer.charge)
        self._context = answer.usage.total or 0
        self.messages.append(answer.message)
        extra = {**({"extra": answer.extra} if answer.extra else {}), **({"replayed": True} if replayed else {})}
        facts = {"finish_reason": answer.finish_reason, "reservation": answer.reservation, **extra}
        charge, usage = asdict(answer.charge), asdict(answer.usage)
        self._save(
            "answer", tokens=answer.usage.total, cost_usd=answer.charge.cost_usd, charge=charge, usage=usage, **facts
        )

    def _check_limits(self) -> float:
        seconds = self.limits.seconds - (self.clock() - self._started)
        require_submissions(self.bench)
        for name, used, limit in (
            ("turns", self.spent.turns, self.limits.turns),
            ("tokens", self.spent.tokens, self.limits.tokens),
            ("USD", self.spent.charged_usd, self.limits.cost_usd),
            ("answers in a row that could not be used", self._unusable, self.limits.unusable),
        ):
            if used >= limit:
                raise LimitReached(f"the draft used its {limit} {name}")
        room = self.limits.context_tokens
        if room is not None and self._context + self.limits.answer_tokens > room:
            raise LimitReached(f"the conversation of {self._context} tokens fills the endpoint's context of {room}")
        if seconds <= 0:
            raise LimitReached(f"the draft used its {self.limits.seconds:.0f} seconds")
        return seconds

    def _act(self, answer: Answer) -> Result | None:
        try:
            calls = read_calls(answer)
        except MalformedAnswer as error:
            self._unusable += 1
            self._answer_all(answer, self._malformed(error))
            return None
        for call in calls:
            result = self.use(call)
            self.messages.append(reply_to(call, result.text))
            self._save("tool", tool=call.name[:60], target=self.bench.target, facts=result.facts)
            if result.end is not None or self.bench.submissions_left <= 0:
                return result
        return None

    def use(self, call: ToolCall) -> Result:
        """What a call comes to; what it did wrong is told to the model. Raises SandboxUnavailable or LimitReached."""
        try:
            result = self.bench.use(call)
            self._unusable = 0
            return result
        except MalformedAnswer as error:
            self._unusable += 1
            return Result(self._malformed(error), facts={"malformed": str(error)})
        except CandidateRefused as error:
            self._unusable = 0
            left = self.bench.submissions_left if call.name == "submit" else None
            return Result(render("refused", reason=str(error), left=left), facts={"refused": str(error)})

    def _malformed(self, error: MalformedAnswer) -> str:
        return render("malformed", reason=str(error), names=", ".join(t.name for t in TOOLS))

    def _answer_all(self, answer: Answer, text: str) -> None:
        """Every call of an answer needs its reply, or the endpoint refuses the conversation."""
        ids = [call["id"] for call in answer.message.get("tool_calls") or []]
        self.messages += [{"role": "tool", "tool_call_id": i, "content": text} for i in ids] or [reply_to(None, text)]
        self._save("malformed")

    def _save(self, kind: str, **facts: Any) -> None:
        fresh = [_stored(message) for message in self.messages[self._saved :]]
        self._saved = len(self.messages)
        self.trajectory = self.record({"kind": kind, "turn": self.spent.turns, "messages": fresh, **facts})


def opening(bench: Workbench, limits: Limits, task: str) -> list[dict[str, Any]]:
    """The two messages a conversation begins with."""
    system = render("system", tools=TOOLS, form=bench.form, submissions=limits.submissions, tests=limits.tests)
    return [{"role": "system", "content": system}, {"role": "user", "content": task}]


def _stored(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    return {**message, "content": cut(content, MAX_STORED)} if isinstance(content, str) else message
