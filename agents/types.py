"""The words drafters share: failure, diagnosis, patch draft, candidate. A leaf module: it imports nothing of ours."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class FailureKind(StrEnum):
    """Why a checkpoint does not pass. Stored text: add members, never rename."""

    UNSUPPORTED_OP = "unsupported_op"
    UNSUPPORTED_DTYPE = "unsupported_dtype"
    LAYOUT = "layout"
    SHAPE_LIMIT = "shape_limit"
    MEMORY_LIMIT = "memory_limit"
    GRAPH_BREAK = "graph_break"
    DYNAMIC_SHAPE = "dynamic_shape"
    RUNTIME_ABORT = "runtime_abort"
    WRONG_VALUES = "wrong_values"
    NON_FINITE = "non_finite"
    CPU_FALLBACK = "cpu_fallback"
    CPU_REFERENCE = "cpu_reference"
    UNKNOWN_ARCHITECTURE = "unknown_architecture"
    REMOTE_CODE = "remote_code"
    GATED = "gated"
    QUANTISED = "quantised"
    NO_NATIVE_WEIGHTS = "no_native_weights"
    PICKLE_WEIGHTS = "pickle_weights"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    ADAPTER_MISFIT = "adapter_misfit"
    UNCLASSIFIED = "unclassified"


class Drafter(StrEnum):
    """What drafted a patch. Stored text."""

    RULES = "rules"
    LLM = "llm"
    HAND = "hand"


class Exactness(StrEnum):
    """`exact` is equal in real arithmetic; `bounded` stays within its stated bound. Stored text."""

    EXACT = "exact"
    BOUNDED = "bounded"


@dataclass(frozen=True)
class Failure:
    """One reason a checkpoint does not pass.

    `dtype_run` is the dtype the model ran in when it was met ("float32", "float16"); `place` is "block" or "outside".
    """

    kind: FailureKind
    op: str
    source: str
    module: str
    message: str
    place: str = "block"
    count: int = 1
    layers: int = 1
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    scalars: tuple[Any, ...] = ()
    dtype_run: str = ""
    after: bool = False


@dataclass(frozen=True)
class PatternUse:
    """A pattern (id of the pattern library, such as "P20") that could cure a failure, with its parameters (JSON)."""

    pattern: str
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Diagnosis:
    """A failure, the patterns that could apply, what was measured; `no_patch` says why none is needed or possible."""

    failure: Failure
    patterns: tuple[PatternUse, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    no_patch: str | None = None


@dataclass(frozen=True)
class PatchDraft:
    """One patch of a candidate: a pattern with parameters, who drafted it and how exact it claims to be.

    `parameters` holds everything that decides behaviour, drafted documents included (`adapters.document`).
    `model` names the language model (`scripted` for the demo endpoint) and `trajectory` its stored record.
    `source` is the code that a document was captured from, `advice` what a reviewing model said of it, `generalised`
    the rule it is a use of, or why there is none: all are shown and decide nothing.
    """

    pattern: str
    parameters: dict[str, Any]
    drafter: Drafter
    exactness: Exactness = Exactness.EXACT
    bound: float | None = None
    proof: tuple[str, ...] = ()
    cures: tuple[str, ...] = ()
    model: str | None = None
    trajectory: str | None = None
    source: str | None = None
    advice: dict[str, Any] | None = None
    generalised: dict[str, Any] | None = None


@dataclass(frozen=True)
class Candidate:
    """An ordered set of patches for the checkpoints of one family, with one digest over the set."""

    family: str
    profile: str
    dtype: str
    patches: tuple[PatchDraft, ...]

    @property
    def digest(self) -> str:
        """sha256 over what decides behaviour: family, profile, dtype, patterns and parameters in order."""
        core = [[p.pattern, p.parameters] for p in self.patches]
        return hashlib.sha256(canonical([self.family, self.profile, self.dtype, core])).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the digest; `candidate_from_dict` reads it back."""
        return {**asdict(self), "digest": self.digest}


def canonical(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8. The one form digests are taken over."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def candidate_from_dict(data: dict[str, Any]) -> Candidate:
    """The candidate written by `Candidate.to_dict`. Raises ValueError if the stored digest does not match."""
    patches = tuple(
        PatchDraft(
            **{
                **p,
                "drafter": Drafter(p["drafter"]),
                "exactness": Exactness(p["exactness"]),
                "proof": tuple(p["proof"]),
                "cures": tuple(p["cures"]),
            }
        )
        for p in data["patches"]
    )
    candidate = Candidate(data["family"], data["profile"], data["dtype"], patches)
    if candidate.digest != data.get("digest", candidate.digest):
        raise ValueError(f"candidate digest {data['digest']!r} does not match its content {candidate.digest!r}")
    return candidate


def diagnosis_from_dict(data: dict[str, Any]) -> Diagnosis:
    """The diagnosis whose `dataclasses.asdict` is `data`."""
    f = data["failure"]
    failure = Failure(
        **{
            **f,
            "kind": FailureKind(f["kind"]),
            "shapes": tuple(tuple(s) for s in f["shapes"]),
            "dtypes": tuple(f["dtypes"]),
            "scalars": tuple(f["scalars"]),
        }
    )
    uses = tuple(PatternUse(**u) for u in data["patterns"])
    return Diagnosis(failure, uses, data["evidence"], data["no_patch"])


class SandboxRunner(Protocol):
    """Captures drafted code to a document in the sandbox. Raises `agents.errors.CandidateRefused` with the reason."""

    def __call__(self, code: str, target: dict[str, Any]) -> dict[str, Any]: ...


class CandidateTester(Protocol):
    """The drafter's own test run: other seeds than the gate's. Returns {"passed", "kind", "op", "error"} only."""

    def __call__(self, candidate: Candidate, /) -> dict[str, Any]: ...


class TrajectoryStore(Protocol):
    """Saves every step of a draft before the next begins; returns the record's id.

    `earlier` holds the steps of a draft of the same place that was cut off and is to go on.
    """

    @property
    def earlier(self) -> Sequence[dict[str, Any]]: ...

    def __call__(self, step: dict[str, Any]) -> str: ...


@dataclass(frozen=True)
class Example:
    """An accepted patch of a language model that cured a similar cause."""

    cause: str
    code: str


class FindsExamples(Protocol):
    """The accepted patches most like what the diagnoses need, best first."""

    def __call__(self, diagnoses: Sequence[Diagnosis]) -> Sequence[Example]: ...


@dataclass(frozen=True)
class DraftContext:
    """What a drafter may use. `rejected` maps digests that were refused to the reason; they are never drafted again.

    `submissions_used` counts the final submissions of earlier drafts of the same diagnosis, by module class.
    Where `capture` is None, `no_capture` says why and what to do. `trajectories` opens the record of one conversation
    by its place in the draft, which is the same when a draft is repeated. `config` is the model's config.json,
    kept with each conversation so that it can be run again. `model_class` is the dotted name of the
    stock model's class; with it a coding agent may draft for causes beyond element-wise modules (`pattern: code`).
    `inexact` are those of `rejected` that are right but for the size of their error. `added` are causes that the gate
    found behind that: what was refused without their patches, and is not `inexact`, is not drafted with them either.
    """

    family: str
    profile: str
    dtype: str
    rejected: dict[str, str] = field(default_factory=dict)
    inexact: frozenset[str] = frozenset()
    added: tuple[Diagnosis, ...] = ()
    hidden_patterns: frozenset[str] = frozenset()
    submissions_used: dict[str, int] = field(default_factory=dict)
    capture: SandboxRunner | None = None
    no_capture: str = ""
    test: CandidateTester | None = None
    trajectories: Callable[[str], TrajectoryStore] | None = None
    examples: FindsExamples | None = None
    reproduce: Callable[[Sequence[Diagnosis]], dict[str, Any]] | None = None
    model_class: str | None = None
    config: dict[str, Any] | None = None
    budget: Any = None


class DraftsCandidates(Protocol):
    """The one protocol of all drafters."""

    def draft(self, diagnoses: list[Diagnosis], context: DraftContext) -> Iterable[Candidate]: ...
