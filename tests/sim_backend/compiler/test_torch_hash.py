"""Torch's hash in the cache keys is made once per installed torch, and anew for a torch that differs in any file."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._inductor import codecache

from sim_backend.compiler import torch_hash

COMPILES = """
import torch, sys
from torch._inductor import codecache
hashed = []
plain = codecache.build_code_hash
codecache.build_code_hash = lambda roots, prefix, hasher: (hashed.append(prefix), plain(roots, prefix, hasher))
x = torch.ones(2, 64).half().to("spyre")
torch.compile(lambda v: v + v, fullgraph=True, dynamic=False)(x)
print(codecache.torch_key().hex(), len(hashed) > 0)
"""


@pytest.fixture
def torch_like(tmp_path: Path) -> Path:
    """A small package tree."""
    source = Path(torch.__file__).parent / "_inductor" / "runtime"
    return Path(shutil.copytree(source, tmp_path / "torch"))


def test_the_second_process_reads_the_hash_of_the_first(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    outputs = [
        subprocess.run([sys.executable, "-c", COMPILES], env=environment, check=True, capture_output=True, text=True)
        for _ in range(2)
    ]
    (first, hashed), (second, hashed_again) = (done.stdout.split() for done in outputs)
    assert first == second == codecache.torch_key().hex()
    assert (hashed, hashed_again) == ("True", "False")


@pytest.mark.parametrize("change", ["content", "times", "new", "gone"])
def test_a_torch_that_differs_in_a_file_is_hashed_anew(torch_like: Path, change: str) -> None:
    before = torch_hash.stated(str(torch_like))
    file = torch_like / "hints.py"
    held = file.stat()
    if change == "content":  # of the same size, its time put back
        file.write_text(file.read_text().replace("import", "IMPORT"))
        os.utime(file, ns=(held.st_atime_ns, held.st_mtime_ns))
    elif change == "times":
        os.utime(file, ns=(held.st_atime_ns, held.st_mtime_ns + 1))
    elif change == "new":
        (torch_like / "other.py").touch()
    else:
        file.unlink()
    assert torch_hash.stated(str(torch_like)) != before


def test_every_file_that_torch_hashes_is_looked_at() -> None:
    root = Path(torch.__file__).parent
    looked_at = {line.split(" ")[0] for line in torch_hash._lines(str(root))}
    more = [root / "_inductor" / name for name in ("codegen/aoti_runtime/interface.cpp", "script.ld")]
    assert {*_modules([str(root)], ""), *(str(file) for file in more if file.exists())} <= looked_at


def _modules(roots: list[str], prefix: str) -> Iterator[str]:
    for found in pkgutil.iter_modules(roots, prefix):
        spec = found.module_finder.find_spec(found.name, None)  # type: ignore[call-arg]
        assert spec is not None
        yield str(spec.origin)
        if found.ispkg:
            yield from _modules(list(spec.submodule_search_locations or ()), f"{spec.name}.")


def test_a_damaged_file_is_no_hash(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"short")
    assert torch_hash.read(tmp_path / "kept") is None
    assert torch_hash.read(tmp_path / "missing") is None
