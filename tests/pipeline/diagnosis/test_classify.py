"""Failure kinds are decided by exception type, then frame, then text."""

from __future__ import annotations

import pytest

from agents.types import FailureKind
from pipeline.diagnosis.classify import Raised, classify

CASES = [
    (
        (
            "Unsupported",
            "/x/sim_backend/compiler/lowering.py:3",
            "Spyre backend does not support: gelufwd on DataFormats.IEEE_FP32",
        ),
        "unsupported_dtype",
    ),
    (
        (
            "Unsupported",
            "/x/layouts.py:3",
            "Spyre backend does not support: Unexpected stick expression 32*d2 + d3: expected Mod(var, 64)",
        ),
        "layout",
    ),
    (
        ("RuntimeError", "/x/kernel.py:9", "Invoked sdsc_fused_pow_0 which contains unimplemented operation pow"),
        "unsupported_op",
    ),
    (
        (
            "NotImplementedError",
            "/x/eager.py:9",
            "Could not run 'aten::clamp_min' with arguments from the 'spyre' backend",
        ),
        "unsupported_op",
    ),
    (("RuntimeError", "/x/a.py:1", "Failed to allocate 128 bytes on Spyre device."), "memory_limit"),
    (("Unsupported", "/x/torch/_dynamo/exc.py:9", "call_function print"), "graph_break"),
    (("FailOnRecompileLimitHit", "/x/torch/_dynamo/convert_frame.py:9", "limit"), "dynamic_shape"),
    (
        (
            "InductorError",
            "/x/a.py:1",
            "CalledProcessError: Command '['dxp_standalone']' died with <Signals.SIGABRT: 6>.",
        ),
        "runtime_abort",
    ),
    (("KeyError", "/x/a.py:1", "stick"), "unclassified"),
]


@pytest.mark.parametrize(("raised", "kind"), CASES, ids=[c[1] + "-" + c[0][0] for c in CASES])
def test_known_errors_get_their_kind(raised: tuple[str, str, str], kind: str) -> None:
    assert classify(Raised(*raised)) == FailureKind(kind)


def test_type_outranks_text() -> None:
    text = "Unexpected stick expression 32*d2 + d3"
    assert classify(Raised("Unsupported", "", text)) is FailureKind.LAYOUT
    assert classify(Raised("ValueError", "", text)) is FailureKind.UNCLASSIFIED
