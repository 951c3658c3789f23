"""The parts of an inspection: safetensors headers, sizes, digests, chains, native classes, file names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.catalogue.entry import WeightsForm
from pipeline.inspection import native
from pipeline.inspection.chain import ChainError, read_chain
from pipeline.inspection.digest import config_digest, graph_fields
from pipeline.inspection.files import is_safe_name, is_wanted, weights_form
from pipeline.inspection.native import native_class
from pipeline.inspection.safetensors_header import HeaderError, read_header
from pipeline.inspection.sizes import estimate_parameters, size_fault, text_sizes
from pipeline.inspection.weights import weight_files


def _file(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    return path


def _raw(header: Any, data: int) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def test_a_good_header_is_counted(tmp_path: Path, safetensors_bytes: Callable[..., bytes]) -> None:
    data = safetensors_bytes({"a": ("F16", [3, 2]), "b": ("F32", [4]), "c": ("I64", [5]), "empty": ("F32", [0, 7])})
    header = read_header(_file(tmp_path, data))
    assert (header.parameters, header.dtype, header.quantised) == (10, "float16", False)
    assert header.names == {"a", "b", "c", "empty"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "truncated"),
        (b"1234", "truncated"),
        ((2**63).to_bytes(8, "little") + b"{}", "truncated"),
        ((100).to_bytes(8, "little") + b"{}", "truncated"),
        (_raw(b"{oops", 0), "not JSON"),
        (_raw([1], 0), "not a table"),
        (_raw({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, 7), "truncated"),
        (_raw({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, 9), "more than its header"),
        (_raw({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, 4), "do not fit"),
        (_raw({"a": {"dtype": "X9", "shape": [2], "data_offsets": [0, 8]}}, 8), "do not fit"),
        (_raw({"a": {"dtype": "F32", "shape": [-2, -1], "data_offsets": [0, 8]}}, 8), "do not fit"),
        (_raw({"a": {"dtype": "F32", "shape": [10**30], "data_offsets": [0, 8]}}, 8), "do not fit"),
        (_raw({"a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}, 8), "gap"),
        (_raw({k: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]} for k in "ab"}, 4), "overlap"),
    ],
)
def test_a_header_that_does_not_fit_its_file_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        read_header(_file(tmp_path, data))


def test_an_index_must_name_shards_that_are_there(tmp_path: Path, safetensors_bytes: Callable[..., bytes]) -> None:
    index, shard = tmp_path / "model.safetensors.index.json", tmp_path / "model-00001-of-00001.safetensors"
    index.write_text(json.dumps({"weight_map": {"w": shard.name}}))
    with pytest.raises(HeaderError, match="is not there"):
        weight_files(tmp_path)
    shard.write_bytes(safetensors_bytes({"w": ("F32", [2])}))
    assert weight_files(tmp_path) == [shard]


@pytest.mark.parametrize(
    "content", ["[", "{}", '{"weight_map": []}', '{"weight_map": {"w": "../../x"}}', '{"weight_map": {}}']
)
def test_a_faulty_index_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(HeaderError):
        weight_files(tmp_path)


def test_native_classes_are_those_transformers_registers() -> None:
    code = (
        "import json; from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES as m; "
        "from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES as c; "
        "print(json.dumps([dict(m), dict(c)]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    models, configs = json.loads(result.stdout.splitlines()[-1])
    ours = native.native_classes()
    assert set(configs) == set(ours.configs)
    plain = {k: v if isinstance(v, str) else v[0] for k, v in models.items()}
    differing = {k for k in plain if ours.models[k] != plain[k]}
    assert {ours.models[k] for k in differing} <= {
        "T5EncoderModel",
        "MT5EncoderModel",
        "UMT5EncoderModel",
        "T5GemmaEncoderModel",
    }


def test_native_class_of_a_type() -> None:
    assert [native_class(t) for t in ("bert", "t5", "nomic_bert", "new")] == [
        "BertModel",
        "T5EncoderModel",
        "NomicBertModel",
        None,
    ]


def test_sizes_are_read_under_every_name() -> None:
    distilbert = {"vocab_size": 9, "dim": 12, "n_layers": 3, "n_heads": 4, "hidden_dim": 20}
    sizes = text_sizes(distilbert)
    assert (sizes.hidden, sizes.layers, sizes.heads, sizes.head_dim, sizes.intermediate) == (12, 3, 4, 3, 20)
    nested = text_sizes({"text_config": {"hidden_size": 6, "num_attention_heads": 2, "head_dim": 8}})
    assert (nested.hidden, nested.head_dim) == (6, 8)


def test_sizes_that_say_nothing_are_no_fault() -> None:
    assert size_fault({"model_type": "x", "n_inner": None}) is None
    assert estimate_parameters({"model_type": "x"}) is None


def test_digest_ignores_what_cannot_reach_the_graph(config: dict[str, Any]) -> None:
    noise = {
        "_name_or_path": "b", "torch_dtype": "float16", "hidden_dropout_prob": 0.5, "transformers_version": "9",
        "id2label": {"0": "x"}, "use_cache": False, "architectures": ["BertForMaskedLM"],
    }  # fmt: skip
    assert config_digest({**config, **noise}) == config_digest(config)
    assert config_digest(dict(reversed(config.items()))) == config_digest(config)


@pytest.mark.parametrize(
    "change", [{"hidden_size": 16}, {"hidden_act": "relu"}, {"pad_token_id": 1}, {"never_seen": 1}]
)
def test_digest_changes_with_what_can(config: dict[str, Any], change: dict[str, Any]) -> None:
    assert config_digest({**config, **change}) != config_digest(config)


def test_digest_looks_into_nested_configs() -> None:
    assert graph_fields({"text_config": {"a": 1, "dtype": "float16"}}) == {"text_config": {"a": 1}}


def _read(files: dict[str, Any]) -> Callable[[str], Any]:
    return files.get


MODULES = [
    {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
    for i, (path, kind) in enumerate(
        [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_N", "Normalize")]
    )
]


def test_a_whole_chain_is_read() -> None:
    files = {
        "modules.json": MODULES,
        "1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True},
        "2_Dense/config.json": {
            "in_features": 8, "out_features": 4, "bias": False, "activation_function": "torch.nn.modules.Identity",
        },
        "sentence_bert_config.json": {"max_seq_length": 77},
    }  # fmt: skip
    chain = read_chain(_read(files), {})
    assert (chain.pooling, chain.normalize, chain.max_seq_length, chain.declared) == (("cls", "max"), True, 77, True)
    (dense,) = chain.dense
    assert (dense.path, dense.in_features, dense.out_features, dense.bias, dense.activation) == (
        "2_Dense",
        8,
        4,
        False,
        "Identity",
    )


def test_new_style_module_names_are_read() -> None:
    new = "sentence_transformers.sentence_transformer.modules"
    files = {
        "modules.json": [{**MODULES[0], "type": "sentence_transformers.base.modules.transformer.Transformer"},
                         {**MODULES[1], "type": f"{new}.pooling.Pooling"}],
        "1_Pooling/config.json": {"pooling_mode": "lasttoken"},
    }  # fmt: skip
    assert read_chain(_read(files), {}).pooling == ("lasttoken",)


def test_without_modules_pooling_is_mean_and_not_declared() -> None:
    files = {"tokenizer_config.json": {"model_max_length": 10**30}}
    chain = read_chain(_read(files), {"max_position_embeddings": 48})
    assert (chain.pooling, chain.declared, chain.max_seq_length) == (("mean",), False, 48)


@pytest.mark.parametrize(
    "files",
    [
        {"modules.json": {"a": 1}},
        {"modules.json": [{"path": ""}]},
        {"modules.json": MODULES},
        {"modules.json": MODULES, "1_Pooling/config.json": {}, "2_Dense/config.json": {"in_features": "8"}},
    ],
)
def test_a_faulty_chain_is_refused(files: dict[str, Any]) -> None:
    with pytest.raises(ChainError):
        read_chain(_read(files), {})


@pytest.mark.parametrize(
    ("names", "form"),
    [
        (["model.safetensors", "pytorch_model.bin"], WeightsForm.SAFETENSORS),
        (["model-00001-of-00002.safetensors"], WeightsForm.SAFETENSORS),
        (["0_Transformer/model.safetensors"], WeightsForm.SAFETENSORS),
        (["pytorch_model-00001-of-00002.bin", "tf_model.h5"], WeightsForm.PICKLE),
        (["adapter_model.safetensors"], WeightsForm.ADAPTER),
        (["x.Q4.gguf"], WeightsForm.GGUF),
        (["onnx/model.onnx"], WeightsForm.ONNX),
        (["flax_model.msgpack"], WeightsForm.OTHER),
        (["config.json", "training_args.bin", "README.md"], WeightsForm.NONE),
    ],
)
def test_the_form_of_weights_by_names(names: list[str], form: WeightsForm) -> None:
    assert weights_form(names) is form


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json", "2_Dense/model.safetensors"]
)
def test_files_a_child_needs_are_wanted(name: str) -> None:
    assert is_wanted(name)


@pytest.mark.parametrize(
    "name",
    [
        "pytorch_model.bin", "modeling.py", "2_Dense/pytorch_model.bin", "onnx/config.json", "../config.json",
        "/config.json", "1_Pooling/../config.json", "1_Pooling\\config.json", "a/b/config.json",
        "adapter_model.safetensors", "README.md", "",
    ],
)  # fmt: skip
def test_everything_else_is_not(name: str) -> None:
    assert not is_wanted(name)


def test_safe_names_stay_in_their_folder() -> None:
    assert is_safe_name("a/b.json")
    assert not any(is_safe_name(n) for n in ("", "..", "a/../../b", "/etc/passwd", "a//b", "a\nb", "./a"))
