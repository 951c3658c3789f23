"""A cause is what one patch mends whatever the model; the ranking says what mending each one changes."""

from __future__ import annotations

from pipeline.ranking.causes import Blocked, Cause, cause_of, rank

GELU = Cause("unsupported_dtype", "aten.gelu.default", "float32")
POW = Cause("unsupported_op", "aten.pow.Tensor_Scalar", "3")
GATED = Cause("gated", "", "")


def failure(kind: str, op: str, **more: object) -> dict[str, object]:
    return {"kind": kind, "op": op, "message": "", "dtypes": [], "scalars": [], **more}


def test_the_same_refusal_in_two_models_is_one_cause() -> None:
    first = failure("unsupported_dtype", "aten.gelu.default", dtypes=["float32"], source="a.py:1", module="a")
    second = failure("unsupported_dtype", "aten.gelu.default", dtypes=["float32"], source="b.py:2", module="b")
    assert cause_of(first) == cause_of(second) == GELU


def test_another_constant_or_another_condition_is_another_cause() -> None:
    cube, square = (failure("unsupported_op", "aten.pow.Tensor_Scalar", scalars=[n]) for n in (3, 2))
    assert cause_of(cube) == POW != cause_of(square)
    layout, length = (failure("wrong_values", "aten.x", scalars=[c, 64]) for c in ("layout", "length"))
    assert (cause_of(layout).condition, cause_of(length).condition) == ("layout", "length")


def test_a_model_counts_as_then_passing_only_when_all_its_causes_are_mended() -> None:
    both = Blocked("a/both", 100, frozenset({GELU, POW}))
    only = Blocked("b/only", 7, frozenset({POW}))
    first, second = rank([both, only])
    assert first.cause == POW
    assert (first.models, first.downloads, first.alone_models, first.alone_downloads) == (2, 107, 1, 7)
    assert (second.cause, second.models, second.alone_models, second.alone_downloads) == (GELU, 1, 0, 0)
