"""The structural causes of the bench, as data: what a small stock model shows on a profile, and what cures it.

`shown` says that the capability report of the stock model holds the cause; those of an experiment it cannot hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.verification.selftest.subjects import DRAWN, NUMBER, WIDTH

STICK = 64
NEW, OLD = "profile-2026-08", "profile-2026-04"
Patches = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class Cause:
    """One cause of one subject, and the set that cures it: the pattern asked for is the last unless `asked` says so."""

    subject: str
    kind: str
    op: str
    patches: Patches
    module: str = ""
    place: str = "block"
    source: str = "modeling.py:1"
    message: str = "Spyre backend does not support: it"
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ("float16",)
    scalars: tuple[Any, ...] = ()
    profile: str = NEW
    dtype_run: str = "float16"
    shown: bool = True
    asked: str = ""

    @property
    def pattern(self) -> str:
        """The pattern asked for."""
        return self.asked or self.patches[-1][0]

    def resized(self, seed: int, config: Mapping[str, Any]) -> Cause | None:
        """The cause in the subject with the sizes of `seed`; None where its shapes do not follow from the width."""
        width, head_dim = sizes_of(config)
        drawn = replace(self, subject=f"{self.subject}{DRAWN}{seed}")
        if not self.shapes:
            return drawn
        if HEADS not in [parameters for _, parameters in self.patches]:
            return None
        heads = {"head_dim": head_dim, "padded_head_dim": -(-head_dim // STICK) * STICK}
        patches = tuple((name, heads if parameters == HEADS else parameters) for name, parameters in self.patches)
        return replace(drawn, patches=patches, shapes=((2, 40, width),))


def sizes_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """Width and width of a head."""
    width, heads = (next(config[n] for n in names if n in config) for names in (WIDTH, NUMBER))
    return width, config.get("head_dim", width // heads)


ATTENTION, FUSED = (f"aten.{n}.default" for n in (
    "scaled_dot_product_attention", "_scaled_dot_product_fused_attention_overrideable",
))  # fmt: skip
MASK: Patches = (("P40", {"fill": "finfo_min_half"}),)
WINDOWS: Patches = (("P45", {"fill": "finfo_min_half"}),)
HOST = {"placement": "host"}
HEADS = {"head_dim": 32, "padded_head_dim": 64}
BERT_ATTENTION = "encoder.layer.*.attention.self"
COMPARED: dict[str, Any] = {"place": "outside", "source": "masking_utils.py:87", "dtypes": ("int64",)}
ROTARY: dict[str, Any] = {"place": "outside", "module": "rotary_emb", "dtypes": ("float32", "float32")}


def _heads(subject: str, module: str, *patches: tuple[str, dict[str, Any]], width: int = 128) -> Cause:
    """A projection's result that cannot be seen as heads, because a head fills no stick."""
    asked = patches[0][0]
    return Cause(subject, "layout", "aten.view.default", patches, module, shapes=((2, 40, width),), asked=asked)


def _found(subject: str, op: str, cause: str, *patches: tuple[str, dict[str, Any]], module: str = "layers.*") -> Cause:
    """Wrong values that an experiment of the diagnosis narrowed to `cause`."""
    return Cause(subject, "wrong_values", op, patches, module, scalars=(cause,), shown=False)


def _outside(subject: str, kind: str, op: str, module: str, *patches: tuple[str, dict[str, Any]], **more: Any) -> Cause:
    """What is refused before the blocks."""
    return Cause(subject, kind, op, patches, module, "outside", **more)


CAUSES: tuple[Cause, ...] = (
    _heads("bert", BERT_ATTENTION, ("P20", HEADS)),
    _heads("roberta", BERT_ATTENTION, ("P20", HEADS)),
    _heads("distilbert", "transformer.layer.*.attention", ("P20", HEADS)),
    _heads("mpnet", "encoder.layer.*.attention.attn", ("P20", HEADS)),
    _heads("electra", BERT_ATTENTION, ("P20", HEADS)),
    _heads("qwen3", "layers.*.self_attn", ("P21", HEADS), ("P14", {})),
    _heads("modernbert", "layers.*.attn", ("P27", {}), width=384),
    _found("bert", ATTENTION, "layout", ("P54", {})),
    _found("roberta", ATTENTION, "layout", ("P54", {})),
    _found("bert", "block border", "border", ("P61", {})),
    _found("distilbert", "block border", "border", ("P61", {})),
    _found("bert", ATTENTION, "length", *MASK, ("P63", {"multiple": 64, "side": "right"})),
    _found("electra", ATTENTION, "length", *MASK, ("P63", {"multiple": 64, "side": "right"})),
    Cause("bert", "unsupported_dtype", "aten.ge.Scalar", MASK, **COMPARED),
    Cause("roberta", "unsupported_dtype", "aten.ge.Scalar", MASK, **COMPARED),
    Cause("distilbert", "unsupported_op", "aten.bitwise_and.Tensor", MASK, "", "outside", "masking_utils.py:54",
          dtypes=("bool", "bool"), profile=OLD),
    Cause("modernbert", "unsupported_dtype", "aten.le.Scalar", WINDOWS, **COMPARED),
    Cause("qwen3", "unsupported_op", "aten.le.Tensor", WINDOWS, profile=OLD, **COMPARED),
    Cause("gemma3", "unsupported_op", "aten.bitwise_and.Tensor", WINDOWS, profile=OLD, **COMPARED),
    Cause("qwen3", "layout", "aten.cat.default", (("P14", {}),), **ROTARY),
    Cause("granite", "layout", "aten.cat.default", (("P14", {}),), **ROTARY),
    Cause("gpt_neox", "cpu_fallback", "aten.cos.default", (("P14", {}),), **ROTARY),
    _outside("mpnet", "unsupported_dtype", "aten.log.default", "encoder", ("P47", HOST), dtypes=("float32",)),
    _outside("mpnet", "unsupported_dtype", "aten.abs.default", "encoder", ("P47", HOST), dtypes=("int64",)),
    _outside("roberta", "unsupported_op", "aten.gather.default", "embeddings", ("P30", HOST), ("P32", HOST)),
    _outside("bert", "unsupported_op", "aten.gather.default", "embeddings", ("P30", HOST)),
    _outside("distilbert", "unsupported_op", "aten.slice.Tensor", "embeddings", ("P30", HOST), profile=OLD),
    Cause("qwen3", "unsupported_op", "aten._to_copy.default", (("P10", {"scale": 1.0}),), "layers.*.input_layernorm",
          shapes=((2, 40, 128),), profile=OLD),
    Cause("t5", "unsupported_op", "aten._to_copy.default", (("P10", {"scale": 1.0}),),
          "encoder.block.*.layer.*.layer_norm", shapes=((2, 40, 128),), profile=OLD),
    Cause("bert", "wrong_values", "aten.native_layer_norm.default", (("P11", {}),),
          "encoder.layer.*.output.LayerNorm", scalars=(1e-12,)),
    Cause("roberta", "wrong_values", "aten.native_layer_norm.default", (("P11", {}),),
          "encoder.layer.*.output.LayerNorm", scalars=(1e-12,)),
    Cause("gemma3", "wrong_values", "aten.mul.Tensor", (("P60", {"names": ["q_norm", "k_norm"]}),),
          "layers.*.self_attn.k_norm", scalars=("layout",)),
    _found("bert", ATTENTION, "padding", ("P41", {}), module=BERT_ATTENTION),
    _found("qwen3", ATTENTION, "padding", *WINDOWS, ("P41", {}), module="layers.*.self_attn"),
    _found("bert", ATTENTION, "size", ("P42", {}), module=BERT_ATTENTION),
    _found("electra", ATTENTION, "value", ("P42", {}), module=BERT_ATTENTION),
    Cause("modernbert", "wrong_values", "aten.split.Tensor", (("P06", {}),), "layers.*.mlp", scalars=("value",),
          shown=False),
    Cause("granite", "layout", "aten.expand.default", (*WINDOWS, ("P55", {})), "layers.*.self_attn",
          source="sdpa_attention.py:30", shapes=((2, 2, 2, 40, 32),), shown=False),
    Cause("gpt2", "unsupported_op", "aten.addmm.default", (("P28", {}),), "h.*.attn.c_attn", shown=False),
    Cause("bert-odd", "shape_limit", "aten.addmm.default", (("P22", {"size": 200, "padded": 256}),),
          "encoder.layer.*.intermediate.dense", shapes=((200,),)),
    Cause("gptj", "unsupported_op", "aten.stack.default", (("P18", {}),), "h.*.attn", shapes=((2, 40, 4, 8, 1),)),
    Cause("esm", "unsupported_op", "aten.erf.default", (("P03", {}),), "encoder.layer.*.intermediate", shown=False),
    Cause("t5", "unsupported_dtype", "aten.abs.default", (("P48", HOST),),
          "encoder.block.*.layer.*.SelfAttention", dtypes=("int64",)),
    _outside("bert", "unsupported_dtype", "aten.clamp.default", "pooling", ("P80", HOST), shown=False),
    _outside("bert", "unsupported_dtype", "aten.linalg_vector_norm.default", "normalize", ("P80", HOST), ("P12", HOST),
             shown=False),
    _outside("bert", "unsupported_dtype", "aten.mm.default", "pooler.dense", ("P56", {"dtype": "float16"}),
             dtypes=("float32", "float32"), dtype_run="float32", shown=False),
    Cause("deberta", "unsupported_op", "aten.gather.default", (("P30", HOST), ("P49", {})),
          "encoder.layer.*.attention.self", dtypes=("float16", "int64"), shown=False),
    _outside("bloom", "unsupported_op", "aten.pow.Tensor_Tensor", "", ("P50", HOST), shown=False),
    Cause("gpt_neo", "unsupported_dtype", "aten.where.self", (("P96", {"fill": "finfo_min_half"}),),
          "h.*.attn.attention", dtypes=("bool",), shown=False),
    Cause("convbert", "unsupported_op", "aten.convolution.default", (("P51", {}),),
          "encoder.layer.*.attention.self.key_conv_attn_layer.depthwise", shown=False),
    Cause("t5", "non_finite", "aten.add.Tensor", (("P13", {"factor": 64.0}),), "encoder.block.*.layer.*", shown=False),
)  # fmt: skip

WITHOUT = {
    "P23": "wants a width that fills no stick, which no small model of the verifier's corpus has",
    "P46": "XMOD picks rows by a mask: how many, only values tell, and the stock model has no document to compare with",
    "P52": "Longformer asks a mask for a number before its blocks: the stock model has no document to compare with",
    "P57": "is asked for by the gate, of a candidate that is right and not exact enough; a task has none before it",
    "P58": "is asked for by the gate, as P57",
    "P66": "leaves out what stock has in float16 only: a task's stock model is captured in fp32",
    "P97": "wants attention over blocks, which is no model of the verifier's corpus",
    "P98": "wants the patches of an image: capture takes texts",
    "P99": "stands beside P63 where embeddings refuse what it pads; the longest text of the tasks is no such length",
}
"""Patterns of the rules without a task, and why."""
