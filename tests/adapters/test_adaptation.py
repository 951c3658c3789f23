"""`adapt` changes one instance, gives host tensors for host tensors, and takes everything back bit for bit."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import adapters
from adapters import adapt
from adapters.errors import AlreadyAdapted, ModelNotReady, PatchDoesNotApply, SpyreNoAdapterError
from adapters.placement import cropped
from adapters.runner import recompiling_is_limited

FAMILIES = ["bert", "albert", "roberta", "mpnet", "distilbert", "electra"]
P20 = {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}}
PATCHES: list[dict[str, Any]] = [
    {"pattern": "P56", "parameters": {"dtype": "float16"}},
    P20,
    {"pattern": "P63"},
    {"pattern": "P40"},
    {"pattern": "P54"},
    {"pattern": "P61"},
]
CPU: dict[str, Any] = {"device": "cpu", "compile": False, "dtype": torch.float32}


def patches_for(family: str) -> list[dict[str, Any]]:
    return [p for p in PATCHES if not (family == "mpnet" and p["pattern"] == "P54")]


def snapshot(model: nn.Module) -> dict[str, Any]:
    """Everything that could change, as objects: attributes, Parameters, buffers, children, hooks, class."""
    kept = {}
    for path, module in model.named_modules():
        for group in ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks"):
            kept[f"{path}.{group}"] = [(k, id(v)) for k, v in getattr(module, group).items()]
        plain = {k: v for k, v in module.__dict__.items() if not isinstance(v, dict)}
        kept[f"{path}.attributes"] = {k: v if isinstance(v, int | float) else id(v) for k, v in plain.items()}
        kept[f"{path}.class"] = type(module)
    return kept


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_undo_gives_back_every_object(family: str, dtype: torch.dtype, make_model: Callable[[str], nn.Module]) -> None:
    model = make_model(family)
    values = {name: p.clone() for name, p in model.named_parameters()}
    before = snapshot(model)
    handle = adapt(model, patches=patches_for(family), device="cpu", compile=False, dtype=dtype)
    assert snapshot(model) != before
    handle.undo()
    assert snapshot(model) == before
    assert all(torch.equal(p, values[name]) for name, p in model.named_parameters())
    handle.undo()
    assert snapshot(model) == before


def test_stock_output_is_bit_equal_after_undo(
    make_model: Callable[[str], nn.Module], inputs: dict[str, torch.Tensor]
) -> None:
    model = make_model("bert")
    with torch.no_grad():
        before = model(**inputs)
        with adapt(model, patches=PATCHES, **CPU):
            model(**inputs)
        after = model(**inputs)
    assert torch.equal(before.last_hidden_state, after.last_hidden_state)
    assert torch.equal(before.pooler_output, after.pooler_output)


def test_a_failing_patch_leaves_the_model_stock(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    before = snapshot(model)
    wrong = {"pattern": "P20", "parameters": {"head_dim": 64, "padded_head_dim": 128}}
    with pytest.raises(PatchDoesNotApply):
        adapt(model, patches=[*PATCHES, wrong, wrong], **CPU)
    assert snapshot(model) == before


def test_a_patch_that_fails_while_others_are_on_is_unwound(
    make_model: Callable[[str], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    from adapters.patches.borders import CloneAtBorder

    def fail(self: Any, model: nn.Module, context: Any) -> None:
        raise PatchDoesNotApply("no")

    model = make_model("bert")
    before = snapshot(model)
    monkeypatch.setattr(CloneAtBorder, "apply", fail)
    with pytest.raises(PatchDoesNotApply):
        adapt(model, patches=PATCHES, **CPU)
    assert snapshot(model) == before


def test_adapting_twice_is_refused(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    with adapt(model, patches=PATCHES, **CPU), pytest.raises(AlreadyAdapted):
        adapt(model, patches=PATCHES, **CPU)


def test_a_model_in_training_mode_or_elsewhere_is_refused(make_model: Callable[[str], nn.Module]) -> None:
    with pytest.raises(ModelNotReady, match="eval"):
        adapt(make_model("bert").train(), patches=PATCHES, **CPU)
    with pytest.raises(ModelNotReady, match="not on the CPU"):
        adapt(make_model("bert").to("meta"), patches=PATCHES, **CPU)


def test_a_model_on_meta_keeps_device_parts_there_and_host_parts_apart(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert").to("meta")
    before = snapshot(model)
    with adapt(model, patches=PATCHES, device="spyre", compile=False):
        weight = model.encoder.layer[0].attention.self.query.weight
        assert (weight.device.type, weight.dtype, tuple(weight.shape)) == ("meta", torch.float16, (128, 64))
        assert model.pooler.dense.weight.device.type == "cpu"
        copy.deepcopy(model)
    assert snapshot(model) == before


def test_no_adapter_is_an_error_with_a_remedy(make_model: Callable[[str], nn.Module]) -> None:
    model: Any = make_model("electra")
    model.config.hidden_act = "one that no adapter is for"
    with pytest.raises(SpyreNoAdapterError, match="request one"):
        adapt(model, **CPU)


def test_result_is_on_the_host_in_fp32_at_the_caller_s_length(
    make_model: Callable[[str], nn.Module], inputs: dict[str, torch.Tensor]
) -> None:
    model = make_model("bert")
    with adapt(model, patches=PATCHES, device="cpu", compile=False):
        assert model.encoder.layer[0].attention.self.query.weight.dtype == torch.float16
        out = model(**inputs)
        alone = model.forward(inputs["input_ids"], inputs["attention_mask"])
    assert out.last_hidden_state.shape == (3, 9, 64)
    assert (out.last_hidden_state.dtype, out.last_hidden_state.device.type) == (torch.float32, "cpu")
    assert not out.last_hidden_state.requires_grad
    assert torch.equal(out.last_hidden_state, alone.last_hidden_state)


def test_the_pooler_stays_on_the_host_in_fp32(
    make_model: Callable[[str], nn.Module], inputs: dict[str, torch.Tensor]
) -> None:
    model = make_model("bert")
    weight = model.pooler.dense.weight
    with torch.no_grad():
        stock = model(**inputs).pooler_output
        with adapt(model, patches=PATCHES, device="cpu", compile=False) as handle:
            assert model.pooler.dense.weight is weight
            out = model(**inputs).pooler_output
    assert handle.report()["host"] == ["pooler"]
    assert torch.allclose(out, stock, atol=0.05)


def test_missing_mask_means_every_token_is_real(
    make_model: Callable[[str], nn.Module], inputs: dict[str, torch.Tensor]
) -> None:
    model, ids = make_model("bert"), inputs["input_ids"]
    with adapt(model, patches=PATCHES, **CPU):
        bare = model(ids).last_hidden_state
        full = model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert torch.equal(bare, full)


def test_hidden_states_of_every_layer_are_cropped_and_on_the_host(
    make_model: Callable[[str], nn.Module], inputs: dict[str, torch.Tensor]
) -> None:
    model = make_model("bert")
    with torch.no_grad():
        stock = model(**inputs, output_hidden_states=True).hidden_states
    with adapt(model, patches=PATCHES, **CPU):
        states = model(**inputs, output_hidden_states=True).hidden_states
    real = inputs["attention_mask"].bool()
    assert len(states) == len(stock) == 3
    assert all(torch.allclose(a[real], b[real], atol=1e-4) for a, b in zip(states, stock, strict=True))


def test_a_sibling_made_by_the_same_class_is_untouched(
    make_model: Callable[[str], nn.Module], inputs: dict[str, torch.Tensor]
) -> None:
    model, sibling = make_model("bert"), make_model("bert")
    before = snapshot(sibling)
    with torch.no_grad():
        expected = copy.deepcopy(sibling)(**inputs).last_hidden_state
        with adapt(model, patches=PATCHES, device="cpu", compile=False):
            assert torch.equal(sibling(**inputs).last_hidden_state, expected)
    assert snapshot(sibling) == before


def test_report_is_plain_data(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("albert")
    with adapt(model, patches=[{**P20, "drafter": "rules"}], **CPU) as handle:
        report = json.loads(json.dumps(handle.report()))
    assert (report["adapter"], report["device"], report["dtype"], report["form"]) == (None, "cpu", "float32", "eager")
    assert (report["blocks"], report["block_kinds"], report["active"]) == (1, 1, True)
    patch = report["patches"][0]
    assert (patch["pattern"], patch["drafter"], patch["exactness"]) == ("P20", "rules", "exact")
    assert patch["targets"] == ["encoder.albert_layer_groups.0.albert_layers.0.attention"]
    assert handle.report()["active"] is False


@pytest.mark.parametrize(("family", "graphs"), [("bert", 1), ("albert", 1), ("mpnet", 1)])
def test_identical_blocks_compile_once_in_one_graph(
    family: str,
    graphs: int,
    make_model: Callable[[str], nn.Module],
    inputs: dict[str, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[torch.fx.GraphModule] = []
    compile_stock = torch.compile

    def backend(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> torch.fx.GraphModule:
        compiled.append(graph)
        return graph

    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", lambda f, **k: compile_stock(f, **k, backend=backend))
    model = make_model(family)
    with adapt(model, patches=patches_for(family), device="cpu", dtype=torch.float32) as handle:
        first = model(**inputs).last_hidden_state
        with torch.inference_mode():
            again = model(**inputs).last_hidden_state
        assert handle.report()["form"] == "block"
    assert len(compiled) == graphs
    assert torch.equal(first, again)


def test_hitting_the_recompile_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr("adapters.runner.RECOMPILE_LIMIT", 2)
    compiled = torch.compile(lambda x: x + 1, fullgraph=True, dynamic=False, backend="eager")
    with recompiling_is_limited():
        for length in (2, 3):
            compiled(torch.ones(length))
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            compiled(torch.ones(4))


def test_only_token_vectors_are_cropped() -> None:
    from adapters.patches.base import HostCall

    call = HostCall(length=3, added=1)
    assert cropped(torch.ones(2, 4, 5), call).shape == (2, 3, 5)
    assert cropped(torch.ones(2, 4), call).shape == (2, 4)
    assert cropped(torch.arange(8.0).view(1, 4, 2), HostCall(3, 1, left=True))[0, 0].tolist() == [2.0, 3.0]


def test_real_minilm_patched_on_the_cpu_equals_stock(minilm_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(minilm_path).eval()
    texts = ["hello", "The quick brown fox jumps over the lazy dog.", "", "word " * 70]
    batch = AutoTokenizer.from_pretrained(minilm_path)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        stock = model(**batch).last_hidden_state
    with adapt(model, patches=PATCHES, **CPU):
        patched = model(**batch).last_hidden_state
    real = batch["attention_mask"].bool()
    assert float(nn.functional.cosine_similarity(patched, stock, dim=-1)[real].min()) > 0.999999
    assert math.isclose(float(patched[real].norm()), float(stock[real].norm()), rel_tol=1e-5)


def test_every_public_name_is_there() -> None:
    for name in adapters.__all__:
        assert getattr(adapters, name) is not None
    with pytest.raises(AttributeError):
        adapters.nothing  # noqa: B018
