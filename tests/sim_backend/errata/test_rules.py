"""One mechanism for defects: the same rule in eager calls, compiled graphs, audits and capability reports."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from sim_backend import capability
from sim_backend.compiler import runtime
from sim_backend.errata import table
from sim_backend.errata.eager import apply
from sim_backend.errata.rule import Abort, Call, Effect, Evaluation, Raise, Refuse, Rule, Unimplemented
from sim_backend.profiles import Profile

X = (torch.arange(512).reshape(8, 64) % 100 + 1).half()  # exact on the device
PROFILE = "profile-2026-04"


def unequal(x: torch.Tensor) -> torch.Tensor:
    """x where it is not 0, else -x."""
    return torch.where(torch.ne(x, 0.0), x, -x)


class Block(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return unequal(x) + 1


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.layer:
            x = block(x)
        return x


def ne_rule(effect: Effect) -> Rule:
    return Rule("E-41", frozenset(["aten.ne"]), lambda profile, call: "on every call", effect)


@pytest.fixture
def with_effect(use: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Effect], Profile]:
    """E-41 with another effect: what a rule can do, on an operation that is at hand."""

    def choose(effect: Effect) -> Profile:
        monkeypatch.setattr(table, "RULES", (ne_rule(effect),))
        table.rules_for.cache_clear()
        profile: Profile = use(PROFILE, {"errata": {"E-41": {"wrong_share": 1.0}}})
        return profile

    yield choose  # type: ignore[misc]
    table.rules_for.cache_clear()


@pytest.mark.fact("E-41")
def test_a_wrong_result_replaces_the_right_one_in_a_graph(use: Any, run: Callable[..., Any]) -> None:
    use(PROFILE)
    assert (run(unequal, X) != X).float().mean().item() == pytest.approx(0.816, abs=0.02)


@pytest.mark.fact("E-08")
def test_a_wrong_result_replaces_the_right_one_in_eager_calls(use: Any) -> None:
    x = torch.tensor([-2.0, 0.5, 3.0]).half().to("spyre")
    expected = torch.tensor([16.0, 0.0625, 81.0])
    out = torch.empty_like(x)
    torch.pow(x, 3, out=out)
    torch.testing.assert_close(torch.pow(x, 3).cpu().float(), expected)
    torch.testing.assert_close(out.cpu().float(), expected)
    torch.testing.assert_close(x.pow_(3).cpu().float(), expected)
    torch.testing.assert_close(x.cpu().float(), expected)


@pytest.mark.fact("E-41")
@pytest.mark.parametrize("profile", ["profile-2026-08", "profile-2026-09", "profile-ideal"])
def test_a_rule_is_off_where_its_erratum_is(profile: str, use: Any, run: Callable[..., Any]) -> None:
    use(profile)
    assert torch.equal(run(unequal, X), X.float())


@pytest.mark.fact("E-41")
def test_the_audit_keeps_what_was_asked_of_a_bundle(use: Any, run: Callable[..., Any]) -> None:
    use(PROFILE)
    run(unequal, X)
    (kernel,) = runtime.AUDITS[-1]["kernels"]
    expected = {"id": "E-41", "applies": True, "op": "aten.ne.Scalar", "detail": "aten.ne.Scalar is mostly False"}
    assert expected in kernel["errata"]
    assert runtime.AUDITS[-1]["triggers"][0][0] == "E-41"


@pytest.mark.fact("E-08")
def test_the_audit_keeps_what_did_not_trigger(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-08")
    run(lambda x: x**2, X)
    (kernel,) = runtime.AUDITS[-1]["kernels"]
    assert {"id": "E-08", "applies": False, "op": "aten.pow.Tensor_Scalar", "detail": ""} in kernel["errata"]


def test_a_cache_hit_replays_what_was_asked(use: Any, run: Callable[..., Any]) -> None:
    use(PROFILE)
    run(unequal, X)
    first = runtime.AUDITS[-1]
    runtime.AUDITS.clear()
    torch._dynamo.reset()
    torch._inductor.codecache.PyCodeCache.cache_clear()
    assert (run(unequal, X) != X).float().mean().item() == pytest.approx(0.816, abs=0.02)
    assert runtime.AUDITS[-1] == first


def test_a_prediction_names_its_erratum(use: Any) -> None:
    report = capability(Model(), {"x": X}, PROFILE)
    assert [(f.predicted, f.op, f.layers) for f in report.predicted] == [("E-41", "aten.ne.Scalar", 2)]


def test_a_refusal_names_its_erratum(with_effect: Callable[[Effect], Profile]) -> None:
    profile = with_effect(Refuse("layout", "ne of anything"))
    (failure,) = capability(Model(), {"x": X}, profile).failures
    assert (failure.erratum, failure.kind) == ("E-41", "layout")
    assert failure.message == "Spyre backend does not support: ne of anything"


def test_a_refusal_raises_unsupported_in_a_graph(
    with_effect: Callable[[Effect], Profile], run: Callable[..., Any]
) -> None:
    with_effect(Refuse("layout"))
    with pytest.raises(InductorError, match="Spyre backend does not support: on every call"):
        run(unequal, X)


@pytest.mark.fact("3.7")
def test_an_abort_is_that_of_the_backend_compiler(
    with_effect: Callable[[Effect], Profile], run: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with_effect(Abort("could not identify K symbol"))
    pattern = r"CalledProcessError: Command '\['dxp_standalone', '--bundle', '-d', .*died with <Signals.SIGABRT: 6>"
    with pytest.raises(InductorError, match=pattern):
        run(unequal, X)
    assert "could not identify K symbol" in capfd.readouterr().err


def test_an_abort_is_a_failure_of_its_own_kind(with_effect: Callable[[Effect], Profile]) -> None:
    profile = with_effect(Abort("could not identify K symbol"))
    (failure,) = capability(Model(), {"x": X}, profile).failures
    assert (failure.kind, failure.erratum) == ("runtime_abort", "E-41")
    assert "died with <Signals.SIGABRT: 6>" in failure.message
    assert "could not identify K symbol" in failure.message


def test_an_abort_comes_up_in_an_eager_call(with_effect: Callable[[Effect], Profile]) -> None:
    with_effect(Abort("Illegal ddl"))
    with pytest.raises(subprocess.CalledProcessError, match=r"died with <Signals\.SIGABRT: 6>"):
        apply("aten.ne.Scalar", (X, 0.0), {}, lambda: X)


def test_an_exception_is_the_one_the_rule_names(
    with_effect: Callable[[Effect], Profile], run: Callable[..., Any]
) -> None:
    with_effect(Raise(NotImplementedError, "not here"))
    with pytest.raises(InductorError, match="NotImplementedError: not here"):
        run(unequal, X)


def test_an_unimplemented_operation_raises_in_an_eager_call(with_effect: Callable[[Effect], Profile]) -> None:
    with_effect(Unimplemented("ne"))
    with pytest.raises(RuntimeError, match="Invoked sdsc_fused_ne_0 which contains unimplemented operation ne"):
        apply("aten.ne.Scalar", (X, 0.0), {}, lambda: X)


def test_a_rule_sees_the_strides_and_the_source_of_its_operands(
    use: Any, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Call] = []

    def look(profile: Profile, call: Call) -> None:
        seen.append(call)

    monkeypatch.setattr(table, "RULES", (Rule("E-41", frozenset(["aten.ne"]), look, Refuse("layout")),))
    table.rules_for.cache_clear()
    use(PROFILE, {"errata": {"E-41": {"wrong_share": 0.5}}})
    run(lambda x: torch.where(torch.ne(x.T, 0.0), x.T, torch.where(torch.ne(x.T * 2, 1.0), -x.T, x.T)), X)
    table.rules_for.cache_clear()
    outside, inside = (call.operands[0] for call in seen)
    assert (outside.shape, outside.stride, outside.offset, outside.extent) == ((64, 8), (1, 64), 0, 512)
    assert (outside.graph_input, inside.graph_input) == (True, False)
    assert seen[0].fused
    assert not outside.is_contiguous


def test_functions_are_found_by_name() -> None:
    for rule in table.RULES:
        function = getattr(rule.effect, "function", None)
        assert function is None or table.function_named(table.name_of(function)) is function


def test_an_evaluation_is_plain_data() -> None:
    assert Evaluation("E-41", False, "aten.ne.Scalar").to_dict()["applies"] is False
