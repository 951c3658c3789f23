"""Patches of families beyond BERT's: alone and together the same mathematics as stock; undo gives back every object."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from adapters import adapt
from adapters.adaptation import check_targets
from adapters.errors import AdapterError, PatchConflict, PatchDoesNotApply, PatchTargetMoved, ShapeRefused
from adapters.patches.base import HostCall, PatchContext
from adapters.patches.full_windows import band
from adapters.patches.registry import in_order, patch_from
from adapters.releases.manifest import Manifest, record_digests
from tests.adapters.patches.families import CONFIGS, InDouble, built, family

EXACT = 1e-12


def P(pattern: str, **parameters: Any) -> dict[str, Any]:
    return {"pattern": pattern, "parameters": parameters}


P21 = P("P21", head_dim=16, padded_head_dim=24)
WIDER = P("P23", size=72, padded=128)
RUNS = [P("P63", multiple=16), P("P45")]
SETS: dict[str, list[dict[str, Any]]] = {
    "llama": [P21, P("P14")],
    "llama scaled": [P21, P("P14")],
    "mistral": [P21, P("P14")],
    "qwen2": [P21, P("P14")],
    "qwen3": [P21, P("P14")],
    "gemma": [P21, P("P14"), P("P58")],
    "gemma2": [P21, P("P14")],
    "gemma3_text": [P21, P("P14")],
    "embeddinggemma": [P21, P("P14")],
    "granite": [P21, P("P14")],
    "qwen2_vl_text": [P21, P("P14")],
    "qwen2_5_vl_text": [P21, P("P14")],
    "qwen3_vl_text": [P21, P("P14")],
    "modernbert": [P("P27"), P("P06"), P21, P("P14"), P("P57")],
    "nomic_bert": [P21, P("P14")],
    "gte": [P21, P("P14"), P("P57")],
    "eurobert": [P21, P("P14"), P("P58")],
    "jina_embeddings_v3": [P21, P("P14")],
    "phi": [P21, P("P14")],
    "phi3": [P("P27"), P("P06"), P21, P("P14")],
    "gpt_neox": [P("P27"), P21, P("P14")],
    "esm": [P("P03"), P21, P("P14")],
    "gpt2": [P("P28"), P("P27")],
    "gptj": [P("P18")],
    "roformer": [P("P18")],
    "t5": [P("P48"), P("P66"), P("P10"), P("P42")],
    "bloom": [P("P50")],
    "bloom of 12": [P("P50")],
    "ragged bert": [P("P22", size=100, padded=128), P("P20", head_dim=18, padded_head_dim=64), WIDER, P("P30")],
    "ragged roberta": [WIDER, P("P30")],
    "big_bird": [P("P97")],
    "flaubert": [P("P30"), P("P32"), P("P08")],
    "camembert": [P("P11"), P("P41")],
    "clip_text_model": [P("P42")],
    "electra": [P("P11")],
    "xmod": [P("P46")],
    "xmod with norms": [P("P46")],
    "deberta": [P("P30"), P("P49")],
    "deberta-v2": [P("P30"), P("P49")],
    "deberta-v2 conv": [P("P30"), P("P49"), P("P51")],
    "convbert": [P("P51")],
    "lfm2": [P("P14"), P("P51")],
    "lfm2 with biases": [P("P51")],
    "longformer": [P("P30"), P("P52")],
    "gpt_neo": [P("P96")],
}
OWN_MASKS = {"flaubert", "flaubert pre-norm", "deberta", "deberta-v2", "deberta-v2 conv", "longformer", "gpt_neo"}
"""Families whose patch makes their masks."""
READS_PADDING = {"convbert"}
"""Families whose texts read the caller's padding beside them: its rows must be those of stock too."""
ATTENTION = ["llama", "gemma", "gemma2", "gemma3_text", "modernbert", "esm", "gpt2", "gte", "bert"]
GROUPED = ["llama", "gemma", "gemma3_text", "qwen3"]
FEED_FORWARDS = ["llama", "phi", "t5", "bert", "gpt_neox", "gte"]
NORMS = ["llama", "gemma3_text", "qwen3", "t5", "granite"]

NEEDS = {"P21": ["P27"], "P23": ["P30"], "P08": ["P30", "P32"], "P49": ["P30"], "P52": ["P30"]}
ALONE = [(name, patch["pattern"]) for name, patches in SETS.items() for patch in patches]


def inputs_of(model: nn.Module, length: int = 21) -> dict[str, torch.Tensor]:
    """Three texts of `length`, a third of it and one token, padded on the right by the model's own id."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(5, 99, (3, length), generator=generator)
    mask = (torch.arange(length)[None] < torch.tensor([length, max(1, length // 3), 1])[:, None]).long()
    pad = getattr(model.config, "pad_token_id", None) or 0
    return {"input_ids": ids.masked_fill(mask == 0, pad), "attention_mask": mask}


def difference(name: str, patches: list[dict[str, Any]], length: int = 21, left: bool = False) -> float:
    """Largest difference at real tokens in fp64, relative to stock's largest value; everything comes back."""
    model = family(name).double()
    values = inputs_of(model, length)
    if left:
        values = {k: v.flip(1) for k, v in values.items()}
    before, tree = dict(model.named_parameters()), [(n, type(m)) for n, m in model.named_modules()]
    with torch.no_grad(), InDouble():
        stock = copy.deepcopy(model)(**values).last_hidden_state
        with adapt(model, patches=in_order(patches), device="cpu", compile=False, dtype="float64"):
            patched = model(**values).last_hidden_state
        after, same = dict(model.named_parameters()), [(n, type(m)) for n, m in model.named_modules()]
        again = model(**values).last_hidden_state
    assert torch.equal(again, stock)
    assert before.keys() == after.keys()
    assert all(before[n] is after[n] for n in before)
    assert tree == same
    assert not any("forward" in m.__dict__ for m in model.modules())
    real = values["attention_mask"].bool()
    return float((patched - stock)[real].abs().max() / stock[real].abs().max())


@pytest.mark.parametrize(("name", "pattern"), ALONE)
def test_each_patch_with_what_it_needs_is_exact(name: str, pattern: str) -> None:
    present = {p["pattern"]: p for p in SETS[name]}
    chosen = [present[p] for p in (*NEEDS.get(pattern, ()), pattern) if p in present]
    assert difference(name, chosen) < EXACT


@pytest.mark.parametrize("name", SETS)
def test_a_family_s_whole_set_is_exact_beyond_a_window(name: str) -> None:
    masks = RUNS[:1] if name in OWN_MASKS else [RUNS[0], P("P40")] if name in READS_PADDING else RUNS
    assert difference(name, [*SETS[name], *masks]) < EXACT
    assert difference(name, [*SETS[name], *masks], length=70) < EXACT


@pytest.mark.parametrize("pattern", ["P41", "P42"])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_written_out_is_exact(name: str, pattern: str) -> None:
    assert difference(name, [P(pattern)]) < EXACT
    assert difference(name, [P(pattern), *RUNS]) < EXACT


@pytest.mark.parametrize("name", GROUPED)
def test_grouped_keys_are_read_without_repeating_them(name: str) -> None:
    assert difference(name, [P("P55"), *RUNS]) < EXACT


@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_padded_feed_forward_parts_are_exact(name: str) -> None:
    assert difference(name, [P("P22", size=96, padded=128)]) < EXACT


@pytest.mark.parametrize("heads", [12, 16])
def test_the_slopes_of_alibi_are_those_that_stock_has_in_fp32(heads: int) -> None:
    """The root of 16 heads and that of the rest of 12 are no fp32 numbers: stock takes powers of rounded ones."""
    model = built("bloom", {**CONFIGS["bloom"], "hidden_size": 8 * heads, "n_head": heads})
    given = torch.ones(1, 9, dtype=torch.int64), heads, torch.float32
    stock = model.build_alibi_tensor(*given)
    with adapt(model, patches=[P("P50")], device="cpu", compile=False):
        assert torch.equal(model.build_alibi_tensor(*given)[:, :1], stock)


def test_languages_of_a_call_are_refused_and_another_language_is_another_answer() -> None:
    model = family("xmod")
    values = inputs_of(model)
    with torch.no_grad(), adapt(model, patches=[P("P46", language="en_XX")], device="cpu", compile=False):
        english = model(**values).last_hidden_state
        with pytest.raises(PatchDoesNotApply, match="lang_ids"):
            model(**values, lang_ids=torch.zeros(3, dtype=torch.int64))
    with torch.no_grad():
        stock = model(**values, lang_ids=torch.zeros(3, dtype=torch.int64)).last_hidden_state
        other = model(**values).last_hidden_state
    assert torch.allclose(english[0], stock[0], atol=1e-5)
    assert not torch.allclose(english[0], other[0], atol=1e-2)


@pytest.mark.parametrize("scale", [1.0, 64.0])
@pytest.mark.parametrize("name", NORMS)
def test_rms_norms_written_out_are_exact(name: str, scale: float) -> None:
    assert difference(name, [P("P10", scale=scale)]) < EXACT


@pytest.mark.parametrize("factor", [1.0, 1024.0])
@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "embeddinggemma", "t5"])
def test_a_divided_stream_of_residuals_gives_the_same_vectors(name: str, factor: float) -> None:
    assert difference(name, [P("P13", factor=factor)]) < EXACT
    assert difference(name, [P("P30"), P("P13", factor=factor), P("P10")]) < EXACT


def test_a_divided_stream_fits_where_stock_overflows_half_precision() -> None:
    model = family("t5")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(4000.0 if name.endswith(("shared.weight", "wo.weight", ".o.weight")) else 1.0)
        wide = model(**inputs_of(model)).last_hidden_state
        options: dict[str, Any] = {"device": "cpu", "compile": False, "dtype": torch.float16}
        with adapt(model, patches=[P("P10", scale=64.0)], **options):
            overflown = model(**inputs_of(model)).last_hidden_state
        with adapt(model, patches=in_order([P("P13", factor=1024.0), P("P10", scale=64.0)]), **options):
            narrow = model(**inputs_of(model)).last_hidden_state
    real = inputs_of(model)["attention_mask"].bool()
    cosines = [torch.cosine_similarity(x[real], wide[real], dim=-1).min() for x in (overflown, narrow)]
    assert float(cosines[0]) < 0.5
    assert float(cosines[1]) > 0.99


@pytest.mark.parametrize("name", ["bert", "modernbert", "gptj"])
def test_a_stream_whose_readers_are_not_all_norms_is_not_divided(name: str) -> None:
    with pytest.raises(PatchDoesNotApply, match="P13"):
        patch_from(P("P13")).match(family(name))


@pytest.mark.parametrize("name", ["gemma3_text", "qwen3"])
def test_norms_of_heads_read_copies_and_stay_the_norms_they_were(name: str) -> None:
    assert difference(name, [P("P60")]) < EXACT
    assert difference(name, [P21, P("P10"), P("P60"), P("P14")]) < EXACT


@pytest.mark.parametrize("name", ["qwen3", "modernbert"])
def test_positions_of_rotary_tables_are_counted_on_the_host(name: str) -> None:
    model, context = family(name), PatchContext(torch.device("meta"), torch.float16)
    undo = patch_from(P("P14")).apply(model, context)
    ids, own = torch.zeros(2, 5, dtype=torch.int64), torch.ones(1, 5, dtype=torch.int64)
    (_, stage), call = context.before[0], HostCall()
    assert stage({"input_ids": ids}, call)["position_ids"].tolist() == [[0, 1, 2, 3, 4]]
    assert stage({"inputs_embeds": torch.zeros(2, 3, 8)}, call)["position_ids"].shape == (1, 3)
    assert stage({"input_ids": ids, "position_ids": own}, call)["position_ids"] is own
    assert context.host_inputs == ["position_ids"]
    undo()
    assert (context.before, context.host_inputs, context.host_modules) == ([], [], [])


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3", "gemma2", "phi3", "gpt2", "gpt_neo"])
def test_texts_padded_on_the_left_keep_their_answer(name: str) -> None:
    left = [P("P63", multiple=16, side="left"), *(RUNS[1:] if name not in OWN_MASKS else [])]
    assert difference(name, [*SETS[name], *left], left=True) < EXACT


@pytest.mark.parametrize(
    ("patterns", "says"), [(["P49"], "needs P30"), (["P42", "P54"], "P54"), (["P40", "P45"], "P40")]
)
def test_sets_that_cannot_be_are_refused_before_anything_changes(patterns: list[str], says: str) -> None:
    model = family("deberta" if "P49" in patterns else "llama")
    with pytest.raises(PatchConflict, match=says):
        adapt(model, patches=[P(p) for p in patterns], device="cpu", compile=False)
    assert not any("forward" in m.__dict__ for m in model.modules())


@pytest.mark.parametrize(("name", "pattern"), [("llama", "P27"), ("bert", "P14"), ("llama", "P06")])
def test_a_pattern_does_not_match_what_it_is_not_for(name: str, pattern: str, make_model: Any) -> None:
    model = make_model("bert") if name == "bert" else family(name)
    with pytest.raises(AdapterError, match=pattern):
        patch_from(P(pattern)).match(model)


@pytest.mark.parametrize(("name", "pattern"), sorted({p: (n, p) for n, p in ALONE}.values()))
def test_a_moved_target_is_refused_and_the_same_one_is_not(name: str, pattern: str) -> None:
    data = next(p for p in SETS[name] if p["pattern"] == pattern)
    model = family(name)
    patch = patch_from(data)
    manifest = Manifest("m", "1", "f", "profile-2026-08", {"block": "x"}, tuple(record_digests(model, [data])))
    check_targets(model, manifest)
    moved: dict[type, type] = {}
    kinds = {type(target.module) for target in patch.match(model)}
    for module in model.modules():
        if type(module) in kinds:
            _move(module, moved)
    with pytest.raises((PatchTargetMoved, PatchDoesNotApply), match=pattern):
        check_targets(model, manifest)


def _move(module: nn.Module, moved: dict[type, type]) -> None:
    """Gives the instance a class whose source is another one, as after an upgrade of transformers."""
    stock = type(module)
    module.__class__ = moved.setdefault(stock, _upgraded(stock))


def _upgraded(stock: type) -> type:
    class Upgraded(stock):  # type: ignore[misc, valid-type]
        moved = True

    Upgraded.__module__, Upgraded.__qualname__ = __name__, "_upgraded.<locals>.Upgraded"
    Upgraded.__name__ = stock.__name__
    return Upgraded


def test_tokens_with_global_attention_are_refused_where_windows_are_full() -> None:
    model = family("longformer")
    values = inputs_of(model)
    with torch.no_grad(), adapt(model, patches=[P("P30"), P("P52")], device="cpu", compile=False):
        model(**values, global_attention_mask=torch.zeros_like(values["input_ids"]))
        with pytest.raises(PatchDoesNotApply, match="global"):
            model(**values, global_attention_mask=torch.ones_like(values["input_ids"]))


@pytest.mark.parametrize(("reach", "sees"), [(4, 9), (1, 3)])
def test_a_band_lets_each_row_see_its_reach_on_both_sides(reach: int, sees: int) -> None:
    allowed = band(torch.zeros(1, 30), reach) == 0
    assert allowed[0, 0, 15].sum() == sees
    assert allowed[0, 0, 0].sum() == reach + 1
    assert not band(torch.full((1, 30), -1.0), reach).eq(0).any()


@pytest.mark.parametrize("name", ["gpt_neo", "longformer"])
def test_texts_given_with_padding_on_the_left_keep_stock_s_answer(name: str) -> None:
    assert difference(name, [*SETS[name], *RUNS[:1]], left=True) < EXACT


def test_texts_beyond_what_full_attention_stands_for_are_refused_and_the_blocks_come_back() -> None:
    model = family("big_bird of blocks")
    modules = dict(model.named_modules())
    with torch.no_grad(), adapt(model, patches=[P("P97"), *RUNS], device="cpu", compile=False):
        assert model(**inputs_of(model, 36)).last_hidden_state.shape[1] == 36
        with pytest.raises(ShapeRefused, match="truncate to 36"):
            model(**inputs_of(model, 37))
    assert model.attention_type == "block_sparse"
    after = dict(model.named_modules())
    assert list(after) == list(modules)
    assert all(after[name] is modules[name] for name in modules)
