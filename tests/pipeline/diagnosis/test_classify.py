"""Failure kinds are decided by exception type, then frame, then text."""

from __future__ import annotations

import pytest

from agents.types import FailureKind
from pipeline.diagnosis.classify import MATCHERS, MEASURED, Raised, classify, is_ours

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
        ("Unsupported", "/x/errata/refusal.py:3", "Spyre backend does not support: where3 on a bool attention mask"),
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
    (
        (
            "RecursionError",
            "/x/eager.py:9",
            "maximum recursion depth exceeded: aten.add.Tensor past accumulated_recompile_limit (256)",
        ),
        "dynamic_shape",
    ),
    (("RecursionError", "/x/a.py:1", "maximum recursion depth exceeded"), "unclassified"),
    (("GuardOnDataDependentSymNode", "/x/a.py:1", "u0"), "dynamic_shape"),
    (("Unsupported", "/x/lowering.py:3", "per-core span above 256 MB"), "shape_limit"),
    (("GatedRepoError", "/x/a.py:1", "401"), "gated"),
    (("UnpicklingError", "/x/torch/serialization.py:1", "invalid load key"), "pickle_weights"),
    (("SafetensorError", "/x/a.py:1", "header too large"), "malformed"),
    (("JSONDecodeError", "/x/json/decoder.py:1", "Expecting value"), "malformed"),
    (("TimeoutExpired", "/x/subprocess.py:1", "timed out"), "timeout"),
    (("ProcessExitedException", "/x/a.py:1", "SIGSEGV"), "crashed"),
    (("ImportError", "/x/transformers/quantizers/auto.py:1", "bitsandbytes is required"), "quantised"),
    (("ValueError", "/x/transformers/dynamic_module_utils.py:1", "set trust_remote_code=True"), "remote_code"),
    (("KeyError", "/x/transformers/models/auto/configuration_auto.py:1", "newtype"), "unknown_architecture"),
    (("KeyError", "/x/a.py:1", "stick"), "unclassified"),
]


@pytest.mark.parametrize(("raised", "kind"), CASES, ids=[c[1] + "-" + c[0][0] for c in CASES])
def test_known_errors_get_their_kind(raised: tuple[str, str, str], kind: str) -> None:
    assert classify(Raised(*raised)) == FailureKind(kind)


def test_type_outranks_text() -> None:
    text = "Unexpected stick expression 32*d2 + d3"
    assert classify(Raised("Unsupported", "", text)) is FailureKind.LAYOUT
    assert classify(Raised("ValueError", "", text)) is FailureKind.UNCLASSIFIED


def test_every_kind_is_either_matched_with_a_case_or_measured() -> None:
    matched = {m.kind for m in MATCHERS}
    assert matched.isdisjoint(MEASURED)
    assert matched | MEASURED | {FailureKind.UNCLASSIFIED} == set(FailureKind)
    assert {kind for _, kind in CASES} == matched | {FailureKind.UNCLASSIFIED}


@pytest.mark.parametrize(
    ("raised", "ours"),
    [
        (Raised("OSError", "/x/a.py:1", "[Errno 28] No space left on device"), True),
        (Raised("ConnectionError", "/x/a.py:1", "refused"), True),
        (Raised("ModuleNotFoundError", "/x/a.py:1", "No module named 'sim_backend'"), True),
        (Raised("ModuleNotFoundError", "/x/a.py:1", "No module named 'einops'"), False),
        (Raised("OSError", "/x/a.py:1", "no file named model.safetensors"), False),
        (Raised("PermissionError", "/x/torch/_inductor/codecache.py:1", "/tmp/a"), True),
        (Raised("PermissionError", "", "/tmp/a"), True),
        (Raised("PermissionError", "/x/transformers/models/bert/modeling_bert.py:1", "/etc/shadow"), False),
        (Raised("PermissionError", "drafted.py:3", "/etc/shadow"), False),
        (Raised("BrokenPipeError", "/x/modules/transformers_modules/a/model.py:1", "pipe"), False),
        (Raised("BrokenPipeError", "/x/pipeline/work/process.py:1", "pipe"), True),
        (Raised("RuntimeError", "/x/a.py:1", "No space left on device"), False),
    ],
)
def test_faults_of_the_installation_never_count_against_a_model(raised: Raised, ours: bool) -> None:
    assert is_ours(raised) is ours
