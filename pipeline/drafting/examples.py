"""Accepted patches of language models as examples for the next draft, those of the most similar diagnoses first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.types import Diagnosis, Example, diagnosis_from_dict
from pipeline.database.facts import is_demo
from pipeline.database.unit_of_work import reading
from pipeline.drafting import repository
from pipeline.review.models import CandidateRow, PatchRow

MOST = 2
LEAST = 0.25
"""Similarity below which a patch says nothing about a cause."""

WEIGHTS = {"op": 0.4, "kind": 0.2, "class": 0.2, "dtype": 0.1, "pattern": 0.1}


class StoredExamples:
    """`agents.types.FindsExamples` on the database; scripted patches are examples in a demonstration only."""

    def __init__(self, hidden: frozenset[str] = frozenset()) -> None:
        self._hidden = hidden

    def __call__(self, diagnoses: Sequence[Diagnosis]) -> list[Example]:
        """The accepted patches whose causes are most like these."""
        with reading() as session:
            rows = repository.released_patches(session, is_demo(session))
            known = [(patch, _causes(session, candidate)) for patch, candidate in rows]
        return rank(diagnoses, [(p, causes) for p, causes in known if p.pattern not in self._hidden])


def rank(diagnoses: Sequence[Diagnosis], known: Sequence[tuple[PatchRow, list[Diagnosis]]]) -> list[Example]:
    """The best examples among patches with the diagnoses they were drafted for; equal code counts once."""
    scored: dict[str, tuple[float, Example]] = {}
    for patch, causes in known:
        code = patch.data.get("source")
        pairs = [(similarity(a, b), b) for a in diagnoses for b in causes]
        if not code or not pairs:
            continue
        score, cause = max(pairs, key=lambda pair: pair[0])
        if score >= LEAST and score > scored.get(code, (0.0, None))[0]:
            scored[code] = score, Example(f"{cause.failure.kind.value} of {cause.failure.op}", code)
    best = sorted(scored.values(), key=lambda pair: -pair[0])
    return [example for _, example in best[:MOST]]


def similarity(left: Diagnosis, right: Diagnosis) -> float:
    """0 to 1: shared operation (its packet counts half), kind, module class, dtypes and named patterns."""
    one, two = left.failure, right.failure
    parts = {
        "op": 1.0 if one.op == two.op else 0.5 * (packet(one.op) == packet(two.op)),
        "kind": float(one.kind == two.kind),
        "class": float(_class(left) == _class(right) is not None),
        "dtype": float(bool(one.dtypes) and one.dtypes == two.dtypes),
        "pattern": float(bool({u.pattern for u in left.patterns} & {u.pattern for u in right.patterns})),
    }
    return sum(WEIGHTS[name] * value for name, value in parts.items())


def packet(op: str) -> str:
    """`aten.pow` of `aten.pow.Tensor_Scalar`."""
    return ".".join(op.split(".")[:2])


def _class(diagnosis: Diagnosis) -> str | None:
    from agents.drafters.targets import module_class_of

    return module_class_of(diagnosis)


def _causes(session: Any, candidate: CandidateRow) -> list[Diagnosis]:
    if candidate.draft_run_id is None:
        return []
    return [diagnosis_from_dict(row.data) for row in repository.diagnoses_behind(session, candidate.draft_run_id)]
