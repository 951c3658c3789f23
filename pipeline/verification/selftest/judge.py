"""Candidates through the functions of production, cheapest first, sharing sandbox starts. Stops at the first refusal.

Order: the source's rules, the equivalence of element-wise documents, capture, validation, structure over cases,
tensors left out, mathematical equivalence of the documents, and last the binding of code to its document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

from torch import Tensor

from adapters.errors import DocumentRefused as ElementwiseRefused
from agents.capture.case import Case
from agents.capture.errors import CaptureRefused
from agents.capture.model import capture_stock
from agents.capture.stock import stock_tensors
from agents.errors import CandidateRefused
from agents.sandbox.capture_model import capture_model_in_sandbox, run_model_in_sandbox
from pipeline.verification.equivalence.blocks import Subject
from pipeline.verification.equivalence.elementwise import claims_of, judge_document
from pipeline.verification.equivalence.judge import judge_patches, subject_of
from pipeline.verification.measurements import Equivalence, EquivalenceResult
from pipeline.verification.replay import (
    DocumentRefused,
    check_binding,
    check_case,
    check_code,
    left_out,
    same_structure,
    strange_uses_of_tokens,
    validate_model,
)
from pipeline.verification.selftest.entry import Patches, Stage
from pipeline.verification.selftest.starts import Answered, Task, answer_tasks
from pipeline.verification.selftest.subjects import SUBJECTS, stock_model

SHAPES = ((3, 24), (1, 40), (2, 136))
"""(batch, length) of the cases, no whole buckets; the first is compared and bound."""
SHORTER = 72
"""Stands for the last length where a model is too short for it."""
DTYPE = "float16"
RUNS = 12


class Judgement(NamedTuple):
    """Accepted, or where and why not."""

    accepted: bool
    stage: Stage | None = None
    reason: str = ""


class Refusal(Exception):
    """Ends the judgement of one candidate."""

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage, self.reason = stage, reason


class Stock(NamedTuple):
    """What is known of a subject: its model's tensors, its own documents, and how equivalence draws for it."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    document: dict[str, Any]
    drawn: Subject


@dataclass
class Candidate:
    """One candidate on its way: what it is, and what it has shown so far.

    `count` is how many of SHAPES are captured; `with_source=False` leaves out the rules on sources, so that what stands
    behind them is tried too.
    """

    subject: str
    patches: Patches
    count: int = len(SHAPES)
    with_source: bool = True
    documents: list[dict[str, Any]] = field(default_factory=list)
    verdict: Judgement | None = None

    @property
    def sources(self) -> list[str]:
        """Its drafted code."""
        return [p["parameters"]["source"] for p in self.patches if p["pattern"] == "code"]

    @property
    def dtype(self) -> str:
        """The dtype that runs: what P56 names."""
        named = [p["parameters"].get("dtype", DTYPE) for p in self.patches if p["pattern"] == "P56"]
        return named[-1] if named and named[-1] in ("float16", "bfloat16") else DTYPE

    @property
    def cases(self) -> list[Case]:
        """The cases of its capture."""
        config = SUBJECTS[self.subject]
        longest = config.get("max_position_embeddings", config.get("n_positions", SHAPES[-1][1]))
        return [Case(b, n if n <= longest else SHORTER, self.dtype) for b, n in SHAPES[: self.count]]


@cache
def stock_of(name: str, seed: int) -> Stock:
    """The subject, its stock document and its draws."""
    model = stock_model(name)
    config = SUBJECTS[name]
    (document,) = capture_stock(config, [Case(*SHAPES[0], "float32")])
    tensors = stock_tensors(model)
    validate_model(document, tensors, placed=False)
    return Stock(config, tensors, document, subject_of(model, seed))


def judge_all(candidates: Sequence[Candidate], seed: int) -> list[Judgement]:
    """One judgement per candidate, in order, from shared starts; `seed` is hidden. Raises SandboxUnavailable."""
    _before_capture(candidates, seed)
    open_ones = [c for c in candidates if c.verdict is None]
    for candidate, answered in zip(open_ones, _answers([_capture(c) for c in open_ones]), strict=True):
        _stage(candidate, partial(take_answer, answered=answered))
    _after_capture(candidates, seed)
    _bind([c for c in candidates if c.verdict is None and c.sources], seed)
    return [c.verdict or Judgement(True) for c in candidates]


def judge_alone(candidate: Candidate, seed: int) -> Judgement:
    """One candidate in sandbox starts of its own, by the very calls of production. Raises SandboxUnavailable."""
    _before_capture([candidate], seed)
    if candidate.verdict is None:
        _stage(candidate, capture_alone)
    _after_capture([candidate], seed)
    if candidate.verdict is None and candidate.sources:
        _stage(candidate, partial(bind_alone, seed=seed))
    return candidate.verdict or Judgement(True)


def _before_capture(candidates: Sequence[Candidate], seed: int) -> None:
    _each([c for c in candidates if c.with_source], check_source)
    _each(candidates, partial(check_elementwise, seed=seed))


def _after_capture(candidates: Sequence[Candidate], seed: int) -> None:
    _each(candidates, check_documents)
    _each(candidates, check_structure)
    _each(candidates, partial(check_reach, seed=seed))
    _each(candidates, partial(check_equal, seed=seed))


def _answers(tasks: Sequence[Task]) -> list[Answered]:
    """The answers from shared starts; where a task took its start down, the tasks are halved until it stands alone."""
    try:
        return answer_tasks(tasks)
    except CandidateRefused as refused:
        if len(tasks) == 1:
            return [Answered({"refused": str(refused)}, b"")]
    half = len(tasks) // 2
    return [*_answers(tasks[:half]), *_answers(tasks[half:])]


def _each(candidates: Sequence[Candidate], check: Callable[[Candidate], None]) -> None:
    for candidate in candidates:
        if candidate.verdict is None:
            _stage(candidate, check)


def _stage(candidate: Candidate, check: Callable[[Candidate], None]) -> None:
    try:
        check(candidate)
    except Refusal as refusal:
        candidate.verdict = Judgement(False, refusal.stage, refusal.reason)


def check_source(candidate: Candidate) -> None:
    """The rules on drafted code. Raises Refusal."""
    for source in candidate.sources:
        _refusing(Stage.SOURCE, check_code, source)


def check_elementwise(candidate: Candidate, seed: int) -> None:
    """Every element-wise document against the stock module it replaces. Raises Refusal."""
    for patch, claim in zip(candidate.patches, claims_of(candidate.patches), strict=True):
        if "document" in patch["parameters"]:
            stock = module_of(candidate.subject, patch["parameters"]["module_class"])
            result = _refusing(Stage.VALIDATION, judge_document, claim, stock, patch["parameters"]["document"], seed)
            if result.result not in EQUAL:
                raise Refusal(Stage.EQUIVALENCE, said(result))


def module_of(subject: str, kind: str) -> Any:
    """The first module of a class, named with its module, in a subject's stock model. Raises Refusal."""
    for module in stock_model(subject).modules():
        if f"{type(module).__module__}.{type(module).__qualname__}" == kind:
            return module
    raise Refusal(Stage.VALIDATION, f"the model has no {kind!r}")


def _capture(candidate: Candidate) -> Task:
    cases = [c.to_dict() for c in candidate.cases]
    patches = list(candidate.patches)
    return Task({"do": "capture", "config": SUBJECTS[candidate.subject], "patches": patches, "cases": cases})


def take_answer(candidate: Candidate, answered: Answered) -> None:
    """The documents that the code answered. Raises Refusal."""
    if "refused" in answered.answer:
        raise Refusal(Stage.CAPTURE, str(answered.answer["refused"])[:2000])
    documents = answered.answer.get("documents")
    if not isinstance(documents, list) or len(documents) != candidate.count:
        raise Refusal(Stage.VALIDATION, "the answer does not hold one document per case")
    candidate.documents = documents


def capture_alone(candidate: Candidate) -> None:
    """The documents from a start of its own. Raises Refusal."""
    config = SUBJECTS[candidate.subject]
    candidate.documents = _refusing(
        Stage.CAPTURE, capture_model_in_sandbox, config, list(candidate.patches), candidate.cases
    )


def bind_alone(candidate: Candidate, seed: int) -> None:
    """Code against its document in a start of its own. Raises Refusal."""
    config, document = SUBJECTS[candidate.subject], candidate.documents[0]
    _refusing(Stage.BINDING, check_binding, config, candidate.patches, document, run_model_in_sandbox, seed, RUNS)


def check_documents(candidate: Candidate) -> None:
    """Every document by every rule. Raises Refusal."""
    tensors = stock_tensors(stock_model(candidate.subject))
    for document, case in zip(candidate.documents, candidate.cases, strict=True):
        _refusing(Stage.VALIDATION, validate_model, document, tensors)
        _refusing(Stage.VALIDATION, check_case, document, case.batch, case.length, case.dtype)


def check_structure(candidate: Candidate) -> None:
    """One structure over all cases. Raises Refusal."""
    _refusing(Stage.STRUCTURE, same_structure, candidate.documents)


def check_reach(candidate: Candidate, seed: int) -> None:
    """Every tensor that counts for stock counts, and token ids are looked up only. Raises Refusal."""
    stock = _refusing(Stage.CAPTURE, stock_of, candidate.subject, seed).document
    if missing := left_out(stock, candidate.documents[0]):
        raise Refusal(Stage.REACHABILITY, f"left out: {', '.join(sorted(missing)[:3])}")
    if strange := strange_uses_of_tokens(stock, candidate.documents[0]):
        raise Refusal(Stage.REACHABILITY, f"token ids become {', '.join(sorted(strange))}")


def check_equal(candidate: Candidate, seed: int) -> None:
    """The same mathematics as stock, block by block and as a whole, in fp64. Raises Refusal."""
    stock, document = stock_of(candidate.subject, seed), candidate.documents[0]
    pairs = [(stock.document, document)]
    alone = (lambda _: document) if len(candidate.patches) == 1 else None  # the first patch is the whole set
    config = stock_model(candidate.subject).config
    answers = _refusing(Stage.EQUIVALENCE, judge_patches, candidate.patches, pairs, stock.drawn, config, alone)
    for answer in answers:
        if answer.result not in EQUAL:
            raise Refusal(Stage.EQUIVALENCE, said(answer))


EQUAL = (EquivalenceResult.EXACT, EquivalenceResult.BOUNDED)


def said(answer: Equivalence) -> str:
    """Result and what shows it."""
    return f"{str(answer.result).replace('_', ' ')}: {answer.patch}: {answer.detail} {answer.input_that_shows_it}"


class _Sent(Exception):
    """Carries the inputs of a binding out, so that many bindings can share one start."""

    def __init__(self, task: Task) -> None:
        super().__init__("inputs drawn")
        self.task = task


def _bind(candidates: Sequence[Candidate], seed: int) -> None:
    """Code against its document, bit for bit, on weights and inputs drawn now."""
    tasks = [_drawn(candidate, seed) for candidate in candidates]
    for candidate, answered in zip(candidates, _answers(tasks), strict=True):
        _stage(candidate, partial(check_bound, answered=answered, seed=seed))


def _drawn(candidate: Candidate, seed: int) -> Task:
    def send(config: Any, patches: Any, dtype: str, drawn_from: int, inputs: bytes, **_: Any) -> bytes:
        content = {"do": "run", "config": config, "patches": patches, "dtype": dtype, "seed": drawn_from}
        raise _Sent(Task(content, inputs))

    try:
        check_binding(SUBJECTS[candidate.subject], candidate.patches, candidate.documents[0], send, seed, RUNS)
    except _Sent as sent:
        return sent.task
    raise AssertionError("a binding runs the code")


def check_bound(candidate: Candidate, answered: Answered, seed: int) -> None:
    """What the code gave equals its document. Raises Refusal."""
    if "refused" in answered.answer:
        raise Refusal(Stage.BINDING, str(answered.answer["refused"])[:2000])
    config = SUBJECTS[candidate.subject]
    run = lambda *_, **__: answered.outputs  # noqa: E731 - what has been run already
    _refusing(Stage.BINDING, check_binding, config, candidate.patches, candidate.documents[0], run, seed, RUNS)


def _refusing(stage: Stage, check: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return check(*arguments)
    except (DocumentRefused, ElementwiseRefused, CandidateRefused, CaptureRefused) as error:
        raise Refusal(stage, str(error)) from error
