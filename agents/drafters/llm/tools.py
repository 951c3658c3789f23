"""The agent's tools: read source, read diagnosis, run reproducer, test candidate, submit.

Code goes from here to the sandbox and nowhere else; what comes back is a document, which trusted code validates. A test
run tells the agent pass or fail, kind, operation and error size, and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agents.drafters.llm.messages import ToolCall
from agents.drafters.llm.settings import Limits
from agents.drafters.llm.text import as_data, render
from agents.drafters.outcome import DraftEnd
from agents.drafters.targets import NoSource, read_class_source
from agents.errors import CandidateRefused, LimitReached, MalformedAnswer
from agents.types import Candidate, CandidateTester, Exactness, SandboxRunner

ENTRY = "forward"
"""The function that drafted code defines."""

MAX_CODE = 8_000
MAX_EXPLANATION = 4_000

TEXT: dict[str, Any] = {"type": "string"}


class Tool(NamedTuple):
    """One tool as the model sees it: JSON types by argument, and which must be given."""

    name: str
    description: str
    arguments: dict[str, dict[str, Any]]
    required: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        """The tool in the OpenAI format."""
        parameters = {
            "type": "object",
            "properties": self.arguments,
            "required": list(self.required),
            "additionalProperties": False,
        }
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


READ_SOURCE = Tool(
    "read_source",
    "the stock source of the module, or of another class of transformers by its dotted name",
    {"name": TEXT},
    (),
)
READ_DIAGNOSIS = Tool("read_diagnosis", "what fails, where, with which shapes and constants", {}, ())
RUN_REPRODUCER = Tool("run_reproducer", "run the minimal reproducer of the failure on the device", {}, ())
TEST_CANDIDATE = Tool("test_candidate", "capture and test code without submitting it", {"code": TEXT}, ("code",))
SUBMIT = Tool(
    "submit",
    "submit code as the patch, or say with `outcome` that none is needed or possible",
    {
        "code": TEXT,
        "explanation": {**TEXT, "description": "why it is the same mathematics"},
        "exactness": {**TEXT, "enum": [e.value for e in Exactness]},
        "bound": {"type": "number", "description": "largest relative error, if exactness is bounded"},
        "outcome": {**TEXT, "enum": ["patch", "cannot_be_patched", "no_patch_needed"]},
    },
    ("explanation",),
)
TOOLS = (READ_SOURCE, READ_DIAGNOSIS, RUN_REPRODUCER, TEST_CANDIDATE, SUBMIT)

PYTHON_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "number": (int, float)}


class Claim(NamedTuple):
    """What the model claims about a submission. A claim is shown to the reviewer as such; the gate measures."""

    exactness: Exactness
    bound: float | None
    explanation: str


@dataclass
class Result:
    """What one call came to: text for the model, and how the draft ended if it ended."""

    text: str
    end: DraftEnd | None = None
    candidate: Candidate | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Workbench:
    """The tools for one module class. `build` makes a candidate of a document; it raises CandidateRefused."""

    target: dict[str, Any]
    diagnosis: str
    capture: SandboxRunner
    validate: Callable[[dict[str, Any]], None]
    build: Callable[[dict[str, Any], Claim], Candidate]
    test: CandidateTester | None
    limits: Limits
    reproduce: Callable[[], dict[str, Any]] | None = None
    submissions: int = 0
    tests: int = 0

    def tools(self) -> list[Tool]:
        """The tools there are: the reproducer and test runs only where the factory offers them."""
        absent = {RUN_REPRODUCER.name: self.reproduce is None, TEST_CANDIDATE.name: self.test is None}
        return [tool for tool in TOOLS if not absent.get(tool.name, False)]

    def use(self, call: ToolCall) -> Result:
        """Do what the call asks. Raises MalformedAnswer, CandidateRefused, SandboxUnavailable or LimitReached."""
        tool = next((t for t in self.tools() if t.name == call.name), None)
        if tool is None:
            raise MalformedAnswer(f"there is no tool {call.name[:60]!r}")
        check_arguments(tool, call.arguments)
        result: Result = getattr(self, f"_{tool.name}")(**call.arguments)
        return result

    @property
    def submissions_left(self) -> int:
        """Final submissions that remain."""
        return self.limits.submissions - self.submissions

    def _read_source(self, name: str | None = None) -> Result:
        wanted = name or self.target["module_class"]
        try:
            return Result(as_data(read_class_source(wanted), wanted))
        except NoSource as error:
            raise MalformedAnswer(str(error)) from error

    def _read_diagnosis(self) -> Result:
        return Result(as_data(self.diagnosis, "diagnosis"))

    def _run_reproducer(self) -> Result:
        assert self.reproduce is not None
        outcome = only_sizes(self.reproduce())
        return Result(as_data(str(outcome), "reproducer"), facts=outcome)

    def _test_candidate(self, code: str) -> Result:
        if self.tests >= self.limits.tests:
            raise CandidateRefused(f"all {self.limits.tests} test runs are used; submit")
        self.tests += 1
        claim = Claim(Exactness.EXACT, None, "")
        return self._try(self._build(code, claim))

    def _submit(self, explanation: str, code: str = "", outcome: str = "patch", **claims: Any) -> Result:
        if outcome != DraftEnd.PATCH:
            return Result(as_data(explanation, "model"), DraftEnd(outcome))
        if not code.strip():
            raise MalformedAnswer("`code` is missing")
        claim = read_claim(explanation, **claims)
        self.submissions += 1
        candidate = self._build(code, claim)
        result = self._try(candidate)
        if not result.facts["passed"]:
            raise CandidateRefused(result.text)
        return Result("Accepted for verification.", DraftEnd.PATCH, candidate, result.facts)

    def _build(self, code: str, claim: Claim) -> Candidate:
        if len(code) > MAX_CODE:
            raise CandidateRefused(f"the code has {len(code)} characters, at most {MAX_CODE} are allowed")
        document = self.capture(code, self.target)
        self.validate(document)
        return self.build(document, claim)

    def _try(self, candidate: Candidate) -> Result:
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


def check_arguments(tool: Tool, arguments: dict[str, Any]) -> None:
    """Raises MalformedAnswer unless the arguments are those of the tool, with their types and choices."""
    unknown = sorted(set(arguments) - set(tool.arguments))
    missing = [name for name in tool.required if name not in arguments]
    if unknown or missing:
        raise MalformedAnswer(f"{tool.name}: unknown arguments {unknown}, missing arguments {missing}")
    for name, value in arguments.items():
        rule = tool.arguments[name]
        if not isinstance(value, PYTHON_TYPES[rule["type"]]) or isinstance(value, bool):
            raise MalformedAnswer(f"{tool.name}: {name} must be a {rule['type']}")
        if value not in rule.get("enum", (value,)):
            raise MalformedAnswer(f"{tool.name}: {name} must be one of {rule['enum']}")


def require_submissions(bench: Workbench) -> None:
    """Raises LimitReached when no final submission is left."""
    if bench.submissions_left <= 0:
        raise LimitReached(f"all {bench.limits.submissions} submissions were refused")
