"""`import torch` finds the device, builds nothing, never fails, and leaves the name to a real backend."""

from __future__ import annotations

from pathlib import Path

from sim_backend import autoload


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


def test_without_autoload_torch_has_no_such_device(run_python) -> None:
    out = run_python(
        """
        import torch, sim_backend.report
        print(hasattr(torch, "spyre"), torch._C._get_privateuse1_backend_name(), torch.accelerator.is_available())
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert out.split() == ["False", "privateuseone", "False"]


def test_without_autoload_choosing_a_profile_registers_the_device(run_python) -> None:
    out = run_python(
        """
        import torch, sim_backend
        sim_backend.use_profile("profile-2026-08")
        print(torch.ones(2).to("spyre").device)
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert out.strip() == "spyre:0"


def test_it_steps_aside_for_an_installed_torch_spyre(run_python, tmp_path: Path) -> None:
    metadata = tmp_path / "torch_spyre-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_spyre\nVersion: 1.0\n")
    out = run_python("import torch; print(hasattr(torch, 'spyre'))", PYTHONPATH=str(tmp_path))
    assert out.strip() == "False"


def test_it_steps_aside_for_another_backend_of_privateuse1(run_python) -> None:
    out = run_python(
        """
        import torch
        torch.utils.rename_privateuse1_backend("other")
        from sim_backend.autoload import register
        print(register(), torch._C._get_privateuse1_backend_name(), hasattr(torch, "spyre"))
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert out.split() == ["False", "other", "False"]


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
