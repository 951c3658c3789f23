"""The device starts with the default profile before any test chooses another for the compiler; Dynamo starts empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sim_backend.device import start
from sim_backend.profiles import Profile, load_profile, process


@pytest.fixture(autouse=True, scope="session")
def inductor_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Generated modules go to a folder of this test run."""
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("inductor")
    patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
    yield folder
    patch.undo()


@pytest.fixture(autouse=True, scope="session")
def device() -> None:
    """The eager path takes its profile when the device starts: not the one a test has chosen by then.

    Inductor is imported before the first `pytest.warns`, which would show the import's warning under another module.
    """
    import torch._inductor.compile_fx  # noqa: F401

    start()


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    """Nothing compiled by another test is met."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Profile]:
    """Choose the profile the compiler sees for this test; a process has only one otherwise."""

    def choose(name: str = "profile-2026-08", overrides: dict[str, Any] | None = None) -> Profile:
        profile = load_profile(name, overrides)
        monkeypatch.setattr(process._process, "chosen", profile)
        torch._dynamo.reset()
        return profile

    choose()
    return choose


@pytest.fixture
def run() -> Callable[..., Any]:
    """Compile a function for the device, run it on host tensors copied there, and bring the result back as fp32."""

    def compiled(function: Callable[..., Any], *host: torch.Tensor) -> torch.Tensor:
        device = [t.to("spyre") for t in host]
        result = torch.compile(function, fullgraph=True, dynamic=False)(*device).cpu()
        return result.float() if result.is_floating_point() else result

    return compiled
