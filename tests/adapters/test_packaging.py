"""The package is light to import, imports only itself relatively, and works under its public name."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import adapters

ROOT = Path(adapters.__file__).parent
FILES = sorted(p for p in ROOT.rglob("*.py") if "build" not in p.relative_to(ROOT).parts)
ALLOWED = set(sys.stdlib_module_names) | {"torch", "transformers", "safetensors", "cryptography"}
ONLY_IN = {"sentence_transformers": "integrations/sentence_transformers.py"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_are_relative_or_of_the_allowed_libraries(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            roots = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            roots = {str(node.module).split(".")[0]}
        else:
            continue
        foreign = {r for r in roots - ALLOWED if ONLY_IN.get(r) != str(path.relative_to(ROOT))}
        assert not foreign, f"{path.name}:{node.lineno}"


def test_importing_loads_nothing_heavy() -> None:
    code = "import adapters, sys; print([m for m in ('torch', 'transformers', 'safetensors') if m in sys.modules])"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"


def test_public_name_is_the_same_code() -> None:
    code = "import spyre_adapters; print(spyre_adapters.__file__)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert Path(child.stdout.strip()).resolve() == (ROOT / "__init__.py").resolve()


def test_digests_are_the_same_under_both_names() -> None:
    code = (
        "from {0}.patches.registry import ORDER, PATTERNS; from {0}.describe import model_on_meta; "
        "from transformers import AlbertConfig; "
        "model = model_on_meta(AlbertConfig(hidden_size=64, num_attention_heads=2, embedding_size=32)); "
        "patches = [PATTERNS[p]() for p in ('P30', 'P40', 'P54', 'P61', 'P63', 'P80', 'P12')]; "
        "print([(p.digest(model), p.target_digest(model)) for p in patches])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True)
        for name in ("adapters", "spyre_adapters")
    ]
    assert runs[0].stdout == runs[1].stdout
    assert len(ast.literal_eval(runs[0].stdout)) == 7


def test_the_distribution_names_every_subpackage() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {p.parent.relative_to(ROOT).as_posix() for p in FILES if p.name == "__init__.py"} - {"."}
    assert settings["package-dir"] == {"spyre_adapters": "."} | {f"spyre_adapters.{f}": f for f in folders}
    assert set(settings["packages"]) == set(settings["package-dir"])
