"""`capability()` finds every cause at once, at full size, without weights, with its line of source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.exc import InternalTorchDynamoError
from torch._dynamo.exc import Unsupported as DynamoUnsupported
from torch._inductor.exc import InductorError
from transformers import AlbertConfig, AlbertModel, BertConfig, BertModel, XmodConfig, XmodModel

from sim_backend import capability
from sim_backend.errors import CompilerFault, SpyreProfileError, Unsupported
from sim_backend.profiles import load_profile
from sim_backend.report import CapabilityReport, OpFailure

MINILM = {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536, "num_hidden_layers": 6}
TINY = {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512, "num_hidden_layers": 2}


@pytest.fixture(autouse=True, scope="module")
def inductor_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Generated modules go to a folder of this test run."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
    yield
    patch.undo()


def bert(**options: Any) -> BertModel:
    with torch.device("meta"):
        return BertModel(BertConfig(**{**MINILM, "vocab_size": 1000, **options})).eval()


def tokens(length: int = 64, padding: int = 0) -> dict[str, torch.Tensor]:
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, length - padding :] = 0
    ids = torch.ones(2, length, dtype=torch.long)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}


def report(model: torch.nn.Module, inputs: dict[str, torch.Tensor], **options: Any) -> CapabilityReport:
    return capability(model, inputs, options.pop("profile", "profile-2026-08"), **options)


def found(failures: tuple[OpFailure, ...], **facts: Any) -> list[OpFailure]:
    return [f for f in failures if all(getattr(f, k) == v for k, v in facts.items())]


@pytest.fixture(scope="module")
def stock_fp16() -> CapabilityReport:
    return report(bert(), tokens(24, padding=4), dtype=torch.float16)


@pytest.fixture(scope="module")
def stock_fp32() -> CapabilityReport:
    return report(bert(), tokens(24, padding=4), dtype=torch.float32)


def test_fp32_names_the_products_and_gelu(stock_fp32: CapabilityReport) -> None:
    products = found(stock_fp32.failures, op="aten.addmm.default", place="block")
    assert len(products) == 6  # query, key, value, output, up, down
    assert {(f.kind, f.count, f.layers) for f in products} == {("unsupported_dtype", 6, 6)}
    assert all("batchmatmul on DataFormats.IEEE_FP32" in f.message for f in products)
    (gelu,) = found(stock_fp32.failures, op="aten.gelu.default")
    assert gelu.module == "encoder.layer.*.intermediate.intermediate_act_fn"
    assert gelu.source.startswith("activations.py:")


def test_fp16_names_the_views_that_split_the_stick(stock_fp16: CapabilityReport) -> None:
    views = found(stock_fp16.failures, kind="layout")
    assert [f.op for f in views] == ["aten.view.default"] * 4
    assert len({f.source for f in views}) == 4  # query, key, value, and the merge of heads
    assert all(f.source.startswith("modeling_bert.py:") for f in views)
    assert views[0].message.endswith("Unexpected stick expression 32*d2 + d3: expected Mod(var, 64)")
    assert {f.module for f in views} == {"encoder.layer.*.attention.self"}


def test_fp16_names_the_bool_mask_and_the_mask_builders(stock_fp16: CapabilityReport) -> None:
    assert any("bool attention mask" in f.message for f in stock_fp16.failures)
    assert any(f.source.startswith("masking_utils.py:") and f.place == "outside" for f in stock_fp16.failures)


def test_fp16_does_not_name_what_only_fp32_meets(stock_fp16: CapabilityReport) -> None:
    assert not found(stock_fp16.failures, op="aten.gelu.default")
    assert not found(stock_fp16.failures, op="aten.addmm.default")


def test_silent_defects_are_predicted(stock_fp16: CapabilityReport) -> None:
    predicted = {f.predicted: f for f in stock_fp16.predicted}
    assert set(predicted) == {"E-17", "E-18", "E-22"}
    assert predicted["E-17"].op == "aten._scaled_dot_product_fused_attention_overrideable.default"
    assert predicted["E-18"].source.startswith("modeling_bert.py:")
    assert {f.kind for f in stock_fp16.predicted} == {"wrong_values"}


def test_nothing_of_it_is_predicted_where_the_defects_are_off() -> None:
    profile = load_profile("profile-2026-08", {"errata": {"E-17": None, "E-18": None, "E-22": None}})
    assert not report(bert(num_hidden_layers=1), tokens(24), profile=profile, dtype=torch.float16).predicted


def test_a_length_of_whole_sticks_does_not_meet_e22() -> None:
    result = report(bert(num_hidden_layers=1), tokens(64), dtype=torch.float16)
    assert "E-22" not in {f.predicted for f in result.predicted}


def test_without_padding_there_is_no_mask_to_refuse() -> None:
    """transformers drops the mask when nothing is masked: the branch depends on the inputs' values."""
    result = report(bert(**TINY), tokens(64), dtype=torch.float16)
    assert not [f for f in result.failures if f.place == "block"]


def test_heads_of_64_have_no_failure_in_the_block() -> None:
    result = report(bert(**TINY), tokens(64), dtype=torch.float16)
    assert not found(result.failures, kind="layout")


def test_fallbacks_are_no_failures(stock_fp16: CapabilityReport) -> None:
    assert found(stock_fp16.fallbacks, op="aten.arange.default")
    assert not found(stock_fp16.failures, op="aten.arange.default")


@pytest.mark.parametrize(
    ("profile", "failing", "predicted"),
    [("profile-2026-04", True, False), ("profile-2026-08", False, True), ("profile-2026-09", False, False)],
)
def test_e08_of_gelu_new_differs_by_profile(profile: str, failing: bool, predicted: bool) -> None:
    with torch.device("meta"):
        config = {**TINY, "hidden_act": "gelu_new", "embedding_size": 128, "vocab_size": 1000}
        model = AlbertModel(AlbertConfig(**config)).eval()
    result = report(model, tokens(64), profile=profile, dtype=torch.float16)
    power = [f for f in result.failures if f.op == "aten.pow.Tensor_Scalar"]
    assert bool(power) is failing
    assert bool(found(result.predicted, predicted="E-08")) is predicted
    for cause in [*power, *found(result.predicted, predicted="E-08")]:
        assert cause.source.startswith("activations.py:")
        assert cause.scalars == (3.0,)
        assert (cause.count, cause.layers) == (2, 2)


def test_the_ideal_device_supports_everything() -> None:
    result = report(bert(), tokens(24, padding=4), profile="profile-ideal")
    assert result.supported
    assert not result.predicted
    assert not result.fallbacks


class Pooled(torch.nn.Module):
    """A model with mean pooling and L2 normalisation inside, as sentence-transformers has."""

    def __init__(self) -> None:
        super().__init__()
        self.model = bert(**TINY)

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / torch.clamp(mask.sum(1), min=1e-9)
        return torch.nn.functional.normalize(mean, dim=-1)


def test_e67_pooling_inside_the_model_meets_the_missing_clamp_min() -> None:
    (clamp,) = found(report(Pooled(), tokens(64), dtype=torch.float16).failures, op="aten.clamp_min.default")
    assert clamp.place == "outside"
    assert "Could not run 'aten::clamp_min' with arguments from the 'spyre' backend" in clamp.message


def test_e67_is_gone_in_september() -> None:
    result = report(Pooled(), tokens(64), profile="latest", dtype=torch.float16)
    assert not found(result.failures, op="aten.clamp_min.default")
    assert result.profile == "profile-2026-09"


def test_a_fingerprint_is_that_of_the_operators() -> None:
    first = report(bert(**TINY), tokens(64), dtype=torch.float16)
    again = report(bert(**TINY), tokens(64), dtype=torch.float16)
    wider = report(bert(**{**TINY, "hidden_size": 192, "num_attention_heads": 3}), tokens(64), dtype=torch.float16)
    deeper = report(bert(**{**TINY, "num_hidden_layers": 3}), tokens(64), dtype=torch.float16)
    relu = report(bert(**{**TINY, "hidden_act": "relu"}), tokens(64), dtype=torch.float16)
    assert first.fingerprint == again.fingerprint
    assert len({r.fingerprint for r in (first, wider, deeper, relu)}) == 4


def test_a_fingerprint_does_not_depend_on_the_profile() -> None:
    prints = {
        report(bert(**TINY), tokens(64), profile=p, dtype=torch.float16).fingerprint
        for p in ("latest", "profile-2026-04")
    }
    assert len(prints) == 1


def test_the_model_is_unchanged_and_no_device_memory_is_used() -> None:
    from sim_backend.device import ext

    model = BertModel(BertConfig(**TINY, vocab_size=1000)).eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    forward = model.encoder.layer[0].forward
    report(model, tokens(64), dtype=torch.float16)  # Inductor makes its example tensors once per process
    used = ext.memory_stats()
    report(model, tokens(64), dtype=torch.float16)
    assert model.encoder.layer[0].forward == forward
    assert all(torch.equal(v, before[k]) and v.dtype == torch.float32 for k, v in model.state_dict().items())
    assert ext.memory_stats() == used


def test_a_model_far_beyond_this_machine_is_judged_on_meta() -> None:
    config = {"hidden_size": 8192, "num_attention_heads": 128, "intermediate_size": 32768, "num_hidden_layers": 40}
    model = bert(**config)
    assert sum(p.numel() for p in model.parameters()) > 30e9
    result = report(model, tokens(64), dtype=torch.float16)
    assert {f.predicted for f in result.predicted} == {"E-17", "E-18"}
    assert found(result.predicted, predicted="E-17")[0].layers == 40


def test_blocks_can_be_named() -> None:
    model = bert(**TINY)
    by_path = report(model, tokens(64), dtype=torch.float16, blocks=["encoder.layer.0", "encoder.layer.1"])
    by_module = report(model, tokens(64), dtype=torch.float16, blocks=list(model.encoder.layer))
    assert by_path == by_module == report(model, tokens(64), dtype=torch.float16)


def test_a_block_that_is_not_in_the_model_is_refused() -> None:
    with pytest.raises(ValueError, match="not a module of BertModel: 'nowhere'"):
        report(bert(**TINY), tokens(64), blocks=["nowhere"])


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(SpyreProfileError, match="unknown profile"):
        report(bert(**TINY), tokens(64), profile="profile-1999")


class Breaking(torch.nn.Module):
    """Blocks whose second half depends on a value."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Halting() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Halting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return self.linear(x)


def test_a_graph_break_is_a_failure_and_the_walk_goes_on() -> None:
    (broken,) = report(Breaking(), {"x": torch.randn(4, 64)}, dtype=torch.float16).failures
    assert (broken.kind, broken.count, broken.layers) == ("graph_break", 2, 2)


class Numbered(torch.nn.Module):
    """A row of a table, named by a number that the block computes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Row()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[0](x)


class Row(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(4, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.table[torch.full((), 2, device=x.device, dtype=torch.int64)]


def test_a_row_named_by_a_number_on_the_device_ends_no_report() -> None:
    (broken,) = report(Numbered(), {"x": torch.randn(4, 64)}, dtype=torch.float16).failures
    assert broken.kind == "graph_break"


def test_rows_picked_by_a_mask_are_a_dynamic_shape() -> None:
    """XMOD runs the rows of each language through the language's own adapter."""
    languages = {"languages": ["en_XX", "de_DE"], "default_language": "en_XX"}
    with torch.device("meta"):
        model = XmodModel(XmodConfig(**TINY, **languages, vocab_size=1000)).eval()
    failures = report(model, tokens(64), dtype=torch.float16).failures
    (picked,) = found(failures, kind="dynamic_shape", place="block")
    assert (picked.module, picked.layers) == ("encoder.layer.*", 2)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InductorError(ValueError("a slip of ours"), None), None),
        (InductorError(AssertionError(), None), None),
        (InternalTorchDynamoError("AttributeError: a slip of Dynamo's"), None),
        (InductorError(Unsupported("dtype torch.float64"), None), "unsupported_op"),
        (InductorError(NotImplementedError("Attention dropout not implemented for Spyre"), None), "unsupported_op"),
        (DynamoUnsupported("call to builtins.print", "a graph break"), "graph_break"),
    ],
)
def test_a_fault_of_the_compiler_is_no_finding_on_the_model(monkeypatch, error: Exception, kind: str | None) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    monkeypatch.setattr(torch, "compile", lambda *args, **kwargs: fail)
    if kind is None:
        with pytest.raises(CompilerFault):
            report(Breaking(), {"x": torch.randn(4, 64)}, dtype=torch.float16)
        return
    with pytest.MonkeyPatch.context() as inner:
        inner.setattr(torch._dynamo, "graph_break", lambda: None)
        (noted,) = report(Breaking(), {"x": torch.randn(4, 64)}, dtype=torch.float16).failures
    assert (noted.kind, noted.layers) == (kind, 2)


def test_a_real_fault_inside_the_compilation_surfaces_as_one(monkeypatch) -> None:
    def slip(*args: Any, **kwargs: Any) -> Any:
        raise KeyError("a slip of ours")

    monkeypatch.setattr("sim_backend.compiler.checks.check_node", slip)
    with pytest.raises(CompilerFault, match="a slip of ours"):
        report(bert(**TINY), tokens(64), dtype=torch.float16)


class Outside(torch.nn.Module):
    """No blocks: padding inside a stick (E-70) of a missing operation's result, and of a sum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        in_order = torch.sort(x)[0].view(2, 2, 128).transpose(0, 1)[0]
        padded = torch.nn.functional.pad(in_order, (10, 0))
        return padded + torch.nn.functional.pad((x + x)[:2], (10, 0))


def test_after_is_told_in_eager_parts_too() -> None:
    failures = report(Outside(), {"x": torch.zeros(4, 128)}, dtype=torch.float16, blocks=[]).failures
    padded = found(failures, op="aten.constant_pad_nd.default", kind="layout")
    assert [(p.place, p.erratum, p.after) for p in padded] == [("outside", "E-70", True), ("outside", "E-70", False)]


class Chained(torch.nn.Module):
    """Blocks that split the sticks of a missing operation's result, and those of a linear layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Splitting() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Splitting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(128, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        in_order = torch.sort(x)[0].view(4, 4, 32).transpose(0, 1).contiguous()
        linear = self.linear(x).view(4, 4, 32).transpose(0, 1).contiguous()
        return (in_order + linear).transpose(0, 1).reshape(4, 128)


def test_a_layout_that_is_only_assumed_fails_after_the_missing_operation() -> None:
    failures = report(Chained(), {"x": torch.zeros(4, 128)}, dtype=torch.float16).failures
    sort = found(failures, op="aten.sort.default")
    assert {(f.kind, f.after, f.layers) for f in sort} == {("unsupported_op", False, 2)}
    views = found(failures, op="aten.view.default", kind="layout")
    assert [v.after for v in views] == [True, False]  # of the sorted values; of the linear layer


def test_a_report_survives_json(stock_fp16: CapabilityReport) -> None:
    import json

    assert CapabilityReport.from_dict(json.loads(json.dumps(stock_fp16.to_dict()))) == stock_fp16
