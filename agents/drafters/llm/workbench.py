"""What the agent's tools do.

Code goes from here to the sandbox and nowhere else; what comes back is a document, which trusted code validates. A test
run tells the agent pass or fail, kind, operation and error size, and nothing more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agents.drafters.llm.form import Form, check_module
from agents.drafters.llm.messages import ToolCall
from agents.drafters.llm.settings import Limits
from agents.drafters.llm.text import as_data, render
from agents.drafters.llm.tools import find_tool
from agents.drafters.outcome import DraftEnd
from agents.drafters.targets import NoSource, read_class_source
from agents.errors import CandidateRefused, LimitReached, MalformedAnswer, Overtaken
from agents.types import Candidate, CandidateTester, Exactness

MAX_CODE = 8_000
MAX_EXPLANATION = 4_000
MAX_QUERY = 200


class Claim(NamedTuple):
    """What the model claims about a submission. A claim is shown to the reviewer as such; the gate measures."""

    exactness: Exactness
    bound: float | None
    explanation: str


Build = Callable[[str, Claim], Candidate]
"""Makes the candidate of drafted code: captured, validated, with the rules' patches for the other causes."""


@dataclass
class Result:
    """What one call came to: text for the model, and how the draft ended if it ended."""

    text: str
    end: DraftEnd | None = None
    candidate: Candidate | None = None
    code: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


class Shared:
    """What parallel drafts of one target share: the final submissions, one test run at a time, and who was first."""

    def __init__(self, limits: Limits, submissions: int = 0) -> None:
        self.limits, self.submissions = limits, submissions
        self.one_at_a_time, self.won = threading.Lock(), threading.Event()
        self._lock = threading.Lock()

    @property
    def submissions_left(self) -> int:
        """Final submissions that remain."""
        return self.limits.submissions - self.submissions

    def take_submission(self) -> None:
        """Count one final submission. Raises LimitReached if there is none left."""
        with self._lock:
            if self.submissions_left <= 0:
                raise LimitReached(f"all {self.limits.submissions} submissions were refused")
            self.submissions += 1


@dataclass
class Workbench:
    """The tools for one target. `build` raises CandidateRefused; without `reproduce` there is no reproducer to run.

    `target` is the name of the class whose source is shown; `library` answers a search among known patterns.
    """

    target: str
    form: Form
    diagnosis: str
    build: Build
    test: CandidateTester | None
    limits: Limits
    reproduce: Callable[[], dict[str, Any]] | None = None
    library: Callable[[str], str] = lambda query: "There is no pattern library here."
    source: str | None = None
    shared: Shared | None = None
    submissions: int = 0
    tests: int = 0

    def __post_init__(self) -> None:
        self.shared = self.shared or Shared(self.limits, self.submissions)

    def use(self, call: ToolCall) -> Result:
        """Do what the call asks. Raises MalformedAnswer, CandidateRefused, SandboxUnavailable or LimitReached."""
        tool = find_tool(call.name, call.arguments)
        result: Result = getattr(self, f"_{tool.name}")(**call.arguments)
        return result

    @property
    def submissions_left(self) -> int:
        """Final submissions that remain, of all drafts of this target."""
        return self._shared.submissions_left

    @property
    def overtaken(self) -> bool:
        """True once another draft of this target has a patch."""
        return self._shared.won.is_set()

    @property
    def _shared(self) -> Shared:
        assert self.shared is not None
        return self.shared

    def _read_source(self, name: str | None = None) -> Result:
        if not name and self.source is not None:
            return Result(as_data(self.source, self.target))
        wanted = name or self.target
        try:
            return Result(as_data(read_class_source(wanted), wanted[:200]))
        except NoSource as error:
            raise MalformedAnswer(str(error)[:500]) from error

    def _show_diagnosis(self) -> Result:
        return Result(as_data(self.diagnosis, "diagnosis"))

    def _search_patterns(self, query: str) -> Result:
        return Result(as_data(self.library(query[:MAX_QUERY]), "pattern library"))

    def _run_reproducer(self) -> Result:
        if self.reproduce is None:
            return Result("There is no reproducer of this cause.", facts={"reproducer": False})
        with self._shared.one_at_a_time:
            outcome = self.reproduce()
        return Result(as_data(str(only_sizes(outcome)), "reproducer"), facts=only_sizes(outcome))

    def _test_patch(self, code: str) -> Result:
        if self.tests >= self.limits.tests:
            raise CandidateRefused(f"all {self.limits.tests} test runs are used; submit")
        self.tests += 1
        return self._try(code, Claim(Exactness.EXACT, None, ""))[1]

    def _submit(self, explanation: str, code: str = "", outcome: str = "patch", **claims: Any) -> Result:
        if outcome != DraftEnd.PATCH:
            return Result(as_data(explanation, "model"), DraftEnd(outcome))
        if not code.strip():
            raise MalformedAnswer("`code` is missing")
        claim = read_claim(explanation, **claims)
        self._shared.take_submission()
        self.submissions += 1
        candidate, result = self._try(code, claim)
        if not result.facts["passed"]:
            raise CandidateRefused(result.text)
        return Result("Accepted for verification.", DraftEnd.PATCH, candidate, code, result.facts)

    def _try(self, code: str, claim: Claim) -> tuple[Candidate, Result]:
        if len(code) > MAX_CODE:
            raise CandidateRefused(f"the code has {len(code)} characters, at most {MAX_CODE} are allowed")
        check_module(code, self.form)
        with self._shared.one_at_a_time:
            candidate = self.build(code, claim)
            return candidate, self._tested(candidate)

    def _tested(self, candidate: Candidate) -> Result:
        if self.test is None:
            return Result("Captured and valid; there is no test run here.", facts={"passed": True, "tested": False})
        facts = only_sizes(self.test(candidate))
        return Result(render("tested", **facts), facts={**facts, "tested": True})


def read_claim(explanation: str, exactness: str = Exactness.EXACT, bound: float | None = None) -> Claim:
    """What a submission claims. Raises MalformedAnswer for `bounded` without a positive bound."""
    if exactness == Exactness.EXACT:
        return Claim(Exactness.EXACT, None, explanation[:MAX_EXPLANATION])
    if bound is None or not 0 < bound < 1:
        raise MalformedAnswer("a bounded patch needs a `bound` between 0 and 1, its largest relative error")
    return Claim(Exactness.BOUNDED, float(bound), explanation[:MAX_EXPLANATION])


def only_sizes(outcome: dict[str, Any]) -> dict[str, Any]:
    """Pass or fail, kind, operation and error size to one digit: all that a test run may tell a drafter."""
    error = outcome.get("error")
    size = f"{float(error):.0e}" if isinstance(error, int | float) else None
    facts = {key: None if outcome.get(key) is None else str(outcome[key])[:80] for key in ("kind", "op")}
    return {"passed": outcome.get("passed") is True, **facts, "error": size}


def require_submissions(bench: Workbench) -> None:
    """Raises LimitReached when no final submission is left, Overtaken when another draft has a patch already."""
    if bench.overtaken:
        raise Overtaken("another draft of this target has a patch")
    if bench.submissions_left <= 0:
        raise LimitReached(f"all {bench.limits.submissions} submissions were refused")
