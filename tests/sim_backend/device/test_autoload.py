"""`import torch` finds the device, builds nothing, never fails, and leaves the name to a real backend."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sim_backend import autoload

pytestmark = pytest.mark.fact("5.1")

STUB = """
import torch
class Real:
    kind = "real"
def autoload():
    torch.utils.rename_privateuse1_backend("spyre")
    torch._register_device_module("spyre", Real)
"""


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A folder with a package `torch_spyre` that registers itself as the real one does."""
    metadata = tmp_path / "torch_spyre-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_spyre\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\ntorch_spyre = torch_spyre:autoload\n")
    (tmp_path / "torch_spyre.py").write_text(STUB)
    return tmp_path


def test_import_torch_registers_the_device_without_building_or_loading_anything(run_python, tmp_path: Path) -> None:
    out = run_python(
        """
        import sys, torch
        assert "spyre_ext" not in sys.modules and "yaml" not in sys.modules
        assert not any(m.startswith(("torch._inductor", "torch._dynamo")) for m in sys.modules)
        print(torch.spyre.is_available(), torch.spyre.is_initialized(), torch.spyre.device_count())
        """,
        SPYRE_SIM_CACHE_DIR=str(tmp_path / "empty"),
    )
    assert out.split() == ["True", "False", "1"]
    assert not (tmp_path / "empty").exists()


WITHOUT = """
import json, os, torch, sim_backend.report
name_of_backend = torch._C._get_privateuse1_backend_name
found = {"before": [hasattr(torch, "spyre"), name_of_backend(), torch.accelerator.is_available()]}
read, write = os.pipe()
if os.fork() == 0:
    torch.utils.rename_privateuse1_backend("other")
    from sim_backend.autoload import register
    other = [register(), name_of_backend(), hasattr(torch, "spyre")]
    os.write(write, json.dumps(other).encode())
    os._exit(0)
os.wait()
found["other"] = json.loads(os.read(read, 1000))
sim_backend.use_profile("profile-2026-08")
found["device"] = str(torch.ones(2).to("spyre").device)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def without(run_python) -> dict[str, Any]:
    """A process with TORCH_DEVICE_BACKEND_AUTOLOAD=0."""
    return json.loads(run_python(WITHOUT, TORCH_DEVICE_BACKEND_AUTOLOAD="0"))


def test_without_autoload_torch_has_no_such_device(without) -> None:
    assert without["before"] == [False, "privateuseone", False]


def test_without_autoload_choosing_a_profile_registers_the_device(without) -> None:
    assert without["device"] == "spyre:0"


def test_it_steps_aside_for_another_backend_of_privateuse1(without) -> None:
    assert without["other"] == [False, "other", False]


def test_it_steps_aside_for_an_installed_torch_spyre(run_python, stub: Path) -> None:
    out = run_python(
        """
        import torch, sim_backend
        from sim_backend.autoload import register
        from sim_backend.device import start
        print(torch.spyre.kind, register())
        try:
            start()
        except RuntimeError as error:
            print(error)
        """,
        PYTHONPATH=os.pathsep.join([str(stub), os.environ.get("PYTHONPATH", "")]),
    )
    text = "the simulated Spyre is not available: a real torch_spyre or another backend has the device"
    assert out.splitlines() == ["real False", text]


def test_an_importable_torch_spyre_without_metadata_counts_too(monkeypatch, tmp_path: Path) -> None:
    assert not autoload.real_device_installed()
    (tmp_path / "torch_spyre.py").write_text(STUB)
    monkeypatch.syspath_prepend(tmp_path)
    assert autoload.real_device_installed()


def test_register_is_idempotent() -> None:
    assert autoload.register() is True
    assert autoload.register() is True


def test_a_failure_is_a_warning_never_an_exception(monkeypatch) -> None:
    import warnings

    def broken() -> bool:
        raise OSError("metadata unreadable")

    monkeypatch.setattr(autoload, "_register", broken)
    with warnings.catch_warnings(record=True) as seen:
        assert autoload.register() is False
    # The warning is issued under a filter of its own: an "error" filter must not break `import torch`.
    assert [str(w.message) for w in seen] in ([], ["the simulated Spyre device is not available: metadata unreadable"])


def test_importing_sim_backend_loads_neither_torch_nor_a_library(run_python) -> None:
    out = run_python("import sys, sim_backend, sim_backend.errors, sim_backend.report; print('torch' in sys.modules)")
    assert out.strip() == "False"
