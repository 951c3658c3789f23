"""Drafted code that is wrong by a little, each with its honest twin, on tiny models; captured in one child.

Run as a script without the device: `twins.py OUT.json` writes {"FAMILY": stock document, "NAME": patched document}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("input_ids", "attention_mask")
SHAPE = (4, 24)
SMALL = {"vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "pad_token_id": 0}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {
        **SMALL, "model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 80,
    },
    "modernbert": {
        **SMALL, "model_type": "modernbert", "num_hidden_layers": 2, "num_attention_heads": 2, "local_attention": 16,
        "max_position_embeddings": 80, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
    },
    "qwen3": {
        **SMALL, "model_type": "qwen3", "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 32, "max_position_embeddings": 80, "bos_token_id": 1, "eos_token_id": 2,
    },
}  # fmt: skip


class Twins(NamedTuple):
    """A family, the honest code and the wrong code, and where the mistake must be found."""

    family: str
    honest: str
    wrong: str
    place: str


def each(kind: str, body: str) -> str:
    """`apply` that runs `body` for every module `m` of a class name."""
    lines = "\n".join(f"            {line}" for line in body.strip().splitlines())
    return f"def apply(model):\n    for m in model.modules():\n        if type(m).__name__ == {kind!r}:\n{lines}\n"


NORM = """
def forward(x, m=m):
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt((d * d).mean(-1, keepdim=True) + EPS) * m.weight + m.bias
m.forward = forward
"""
ONE_PASS = """
def forward(x, m=m):
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return (x - mean) * torch.rsqrt(variance + m.eps) * m.weight + m.bias
m.forward = forward
"""
RMS = """
def forward(x, m=m):
    return m.weight * (x * torch.rsqrt((x * x).sum(-1, keepdim=True) / SIZE + EPS))
m.forward = forward
"""
GLU = """
n = m.Wo.weight.shape[1]
m.one, m.other = torch.nn.Parameter(m.Wi.weight[:n].clone()), torch.nn.Parameter(m.Wi.weight[n:].clone())
def forward(x, m=m):
    a, b = torch.nn.functional.linear(x, m.one), torch.nn.functional.linear(x, m.other)
    return m.Wo(HALVES)
m.forward = forward
"""
SCALE = """
FOLD
m.scaling = 1.0
"""
FOLD = (
    "m.query.weight = torch.nn.Parameter(m.query.weight * m.scaling)\n"
    "m.query.bias = torch.nn.Parameter(m.query.bias * m.scaling)"
)
GELU = "m.act = lambda x: FORM"
ERF = "0.5 * x * (1 + torch.erf(x * 0.7071067811865476))"
TANH = "torch.nn.functional.gelu(x, approximate='tanh')"
WINDOW = "def apply(model):\n    model.config.local_attention = model.config.local_attention + WIDER\n"
PADDED_Q = """
def forward(x, m=m):
    x = torch.nn.functional.pad(x, (0, 64 - x.shape[-1]))
    y = x * torch.rsqrt((x * x).sum(-1, keepdim=True) / SIZE + m.variance_epsilon)
    return m.weight * y[..., :32]
m.forward = forward
"""
RESCALE = """
def apply(model):
    c = 1024.0
    model.embed_tokens.weight = torch.nn.Parameter(model.embed_tokens.weight / c)
    for layer in model.layers:
        for m in (layer.self_attn.o_proj, layer.mlp.down_proj):
            m.weight = torch.nn.Parameter(m.weight / c)
        for m in (layer.input_layernorm, layer.post_attention_layernorm):
            m.variance_epsilon = m.variance_epsilon EPS
    model.norm.variance_epsilon = model.norm.variance_epsilon EPS
"""

TABLE = """
def apply(model):
    m = model.embeddings.word_embeddings
    rows = list(m.weight.split([97, 1, 2]))
    rows[1] = rows[1] * FACTOR
    m.weight = torch.nn.Parameter(torch.cat(rows))
"""
TABLE_IN_PLACE = """
def apply(model):
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[97].mul_(FACTOR)
"""

LAST = "def apply(model):\n    m = model.encoder.layer[-1].output.LayerNorm\n    m.eps = EPS\n"


def bare(kind: str, text: str, **words: str) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return each(kind, text) if kind else text


def padded_norms(size: str) -> str:
    loop = "for m in (m.q_norm, m.k_norm):\n" + PADDED_Q.replace("SIZE", size).replace("\n", "\n    ")
    return each("Qwen3Attention", loop)


TWINS: dict[str, Twins] = {
    "layer norm without eps": Twins(
        "bert", bare("LayerNorm", NORM, EPS="m.eps"), bare("LayerNorm", NORM, EPS="0.0"), "embeddings"
    ),
    "variance in one pass": Twins(
        "bert", bare("LayerNorm", NORM, EPS="m.eps"), bare("LayerNorm", ONE_PASS), "block 0"
    ),
    "eps dropped in the last norm only": Twins(
        "bert", bare("", LAST, EPS="m.eps"), bare("", LAST, EPS="0.0"), "block 1"
    ),
    "tanh gelu for erf gelu": Twins(
        "bert", bare("GELUActivation", GELU, FORM=ERF), bare("GELUActivation", GELU, FORM=TANH), "block 0"
    ),
    "scale dropped": Twins(
        "bert", bare("BertSelfAttention", SCALE, FOLD=FOLD), bare("BertSelfAttention", SCALE, FOLD="pass"), "block 0"
    ),
    "so large a number that 16 bits lose the rest": Twins(
        "bert",
        bare("GELUActivation", GELU, FORM="torch.nn.functional.gelu((x * 4.0) * 0.25)"),
        bare("GELUActivation", GELU, FORM="torch.nn.functional.gelu((x + 256.0) - 256.0)"), "block 0",
    ),
    "window off by one": Twins(
        "modernbert", bare("", WINDOW, WIDER="0"), bare("", WINDOW, WIDER="2"), "block"
    ),
    "halves of the gated unit swapped": Twins(
        "modernbert",
        bare("ModernBertMLP", GLU, HALVES="m.act(a) * b"), bare("ModernBertMLP", GLU, HALVES="m.act(b) * a"), "block 0",
    ),
    "rms norm without eps": Twins(
        "qwen3",
        bare("Qwen3RMSNorm", RMS, SIZE="x.shape[-1]", EPS="m.variance_epsilon"),
        bare("Qwen3RMSNorm", RMS, SIZE="x.shape[-1]", EPS="0.0"), "block 0",
    ),
    "mean over the padded size": Twins("qwen3", padded_norms("32"), padded_norms("64"), "block 0"),
    "one row of the token table changed": Twins(
        "bert", bare("", TABLE, FACTOR="1.0"), bare("", TABLE, FACTOR="1.001"), "embeddings"
    ),
    "one row of the token table changed in place": Twins(
        "bert", bare("", TABLE_IN_PLACE, FACTOR="1.0"), bare("", TABLE_IN_PLACE, FACTOR="1.001"), "embeddings"
    ),
    "residual stream rescaled, eps forgotten": Twins(
        "qwen3", bare("", RESCALE, EPS="/ c**2"), bare("", RESCALE, EPS="* 1.0"), "block 0"
    ),
}  # fmt: skip


def released_patches() -> list[dict[str, Any]]:
    """The patches the factory released for BERT with heads of 32."""
    from adapters.releases.lookup import bundled_manifests

    parts = [adapter.for_family(family) for adapter in bundled_manifests() for family in adapter.families]
    (found,) = (p for p in parts if p.predicate["block"].endswith(".BertLayer") and p.predicate["head_dim"] == 32)
    return list(found.patches)


def capture_all() -> dict[str, Any]:
    """Stock by family, then "NAME" wrong and "NAME, honest" patched."""
    from agents.capture.case import Case
    from agents.capture.model import capture_patched, capture_stock

    case = Case(*SHAPE, "float32", NAMES)
    found = {family: capture_stock(config, [case])[0] for family, config in CONFIGS.items()}
    released = Case(*SHAPE, "float16", NAMES)
    found["released"] = capture_patched(CONFIGS["bert"], released_patches(), [released])[0]
    for name, twins in TWINS.items():
        for label, source in ((name, twins.wrong), (f"{name}, honest", twins.honest)):
            patch = {"pattern": "code", "parameters": {"source": source}}
            found[label] = capture_patched(CONFIGS[twins.family], [patch], [case])[0]
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(capture_all()))
