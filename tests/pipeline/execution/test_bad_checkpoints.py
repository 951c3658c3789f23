"""A checkpoint that cannot be judged is one sentence with its failure kind, from stage and command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.execution.child import run_stage
from pipeline.execution.folders import packaged_folder

BERT = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 1, "vocab_size": 99,
        "intermediate_size": 64}  # fmt: skip


def broken_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": ')


def no_config(folder: Path) -> None:
    (folder / "README.md").write_text("nothing")


def unknown_type(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "nobody_knows"}')


def remote_code(folder: Path) -> None:
    config = {"model_type": "nobody_knows", "auto_map": {"AutoModel": "modeling_x.X"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modeling_x.py").write_text("raise SystemExit('executed')")


def truncated_weights(folder: Path) -> None:
    whole = (packaged_folder("sentence-transformers/all-MiniLM-L6-v2") / "model.safetensors").read_bytes()
    (folder / "config.json").write_text(json.dumps(BERT))
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


def pickled_weights(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(BERT))
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")


def gguf_only(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(BERT))
    (folder / "model.gguf").write_bytes(b"GGUF")


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "broken config": (broken_config, "malformed"),
    "no config": (no_config, "malformed"),
    "unknown type": (unknown_type, "unknown_architecture"),
    "remote code": (remote_code, "remote_code"),
    "truncated weights": (truncated_weights, "malformed"),
    "pickled weights": (pickled_weights, "pickle_weights"),
    "GGUF only": (gguf_only, "no_native_weights"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_inspect_stage_names_the_kind_in_one_sentence(case: str, tmp_path: Path) -> None:
    make, kind = CASES[case]
    make(tmp_path)
    out = run_stage("inspect", {"model": "org/x", "checkpoint_dir": str(tmp_path), "weights": "hub"})
    assert (out["outcome"], out["failures"][0]["kind"]) == ("failed", kind)
    assert "\n" not in out["reason"]
    assert "Traceback" not in out["reason"]


def test_the_command_prints_one_json_document_and_exits_with_2(tmp_path: Path) -> None:
    broken_config(tmp_path)
    code = "from pipeline.cli.main import main; main()"
    argv = [sys.executable, "-c", code, "check", str(tmp_path), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert json.loads(done.stdout)["kind"] == "malformed"
