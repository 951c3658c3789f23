"""Code whose document is honest and whose runs are not is refused: the runs are compared with the replay."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from agents.capture.run import run_patched
from pipeline.verification.replay import DocumentRefused, check_binding, check_code

CHEATS = ("is exporting", "counter", "fake")


@pytest.fixture
def run_here() -> Any:
    """Stands in for the sandbox: the code of these tests is ours."""

    def run(config: Any, patches: Any, dtype: str, seed: int, inputs: bytes) -> bytes:
        threads = torch.get_num_threads()
        try:
            return save(run_patched(config, patches, dtype, seed, load(inputs)))
        finally:
            torch.set_num_threads(threads)

    return run


def test_honest_code_is_bound(documents: Any, families: ModuleType, run_here: Any) -> None:
    source = families.cheat_code(families.CHEATS["honest"])
    check_code(source)
    check_binding(families.BERT, families.code(source), documents["cheats"]["honest"], run_here, seed=5)


def test_documents_of_cheats_are_honest(documents: Any) -> None:
    """That is why the document alone proves nothing about the code that ships."""
    honest = documents["cheats"]["honest"]
    assert all(documents["cheats"][name] == honest for name in CHEATS)


@pytest.mark.parametrize("name", CHEATS)
def test_code_that_notices_capture_is_refused(name: str, documents: Any, families: ModuleType, run_here: Any) -> None:
    source = families.cheat_code(families.CHEATS[name])
    patches = families.code(source)
    with pytest.raises(DocumentRefused, match=r"of 12 runs are equal"):
        check_binding(families.BERT, patches, documents["cheats"][name], run_here, seed=5)
    with pytest.raises(DocumentRefused, match="code"):
        check_code(source)


def test_outputs_that_are_no_tensors_are_refused(documents: Any, families: ModuleType) -> None:
    source = families.cheat_code(families.CHEATS["honest"])
    with pytest.raises(DocumentRefused, match="no safetensors"):
        check_binding(
            families.BERT, families.code(source), documents["cheats"]["honest"], lambda *_: b"PASS", seed=5, runs=1
        )
