"""The one door to the device: the simulator, or a real card where `torch_spyre` is installed.

Everything outside `sim_backend` goes through the `Device` protocol. Importing this module imports neither torch nor the
simulator; `open_device` does, and is called only in device children.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from pipeline.errors import EnvironmentProblem


class Device(Protocol):
    """What the pipeline needs of a device."""

    name: str

    def start(self) -> None:
        """Make `torch.device("spyre")` usable in this process."""

    def fallback_counts(self) -> dict[str, int]:
        """CPU fallbacks since the start, by op."""

    def capability(self, model: Any, inputs: dict[str, Any], *, dtype: Any, blocks: Sequence[Any] | None) -> Any:
        """The capability report of a model on this device."""


class SimulatedSpyre:
    """The simulator under one device profile."""

    def __init__(self, profile: str) -> None:
        self.name = f"simulated Spyre, {profile}"
        self._profile = profile

    def start(self) -> None:
        """Fix the profile of this process and load the device. Raises RuntimeError if another profile is in use."""
        import sim_backend
        from sim_backend.device import start

        sim_backend.use_profile(self._profile)
        start()

    def fallback_counts(self) -> dict[str, int]:
        """CPU fallbacks since the start, by op."""
        import torch

        return dict(torch.spyre.fallback_counts())  # type: ignore[attr-defined]

    def capability(self, model: Any, inputs: dict[str, Any], *, dtype: Any, blocks: Sequence[Any] | None) -> Any:
        """Every failing operation of `model` for `inputs` (host tensors), by the simulator on fake tensors."""
        from sim_backend.capabilities import capability
        from sim_backend.errors import CompilerFault

        try:
            return capability(model, inputs, dtype=dtype, blocks=blocks)
        except CompilerFault as fault:
            raise EnvironmentProblem(f"the simulator's compiler failed: {fault}") from fault


class SpyreCard:
    """A real card through `torch_spyre`; it has no capability report, failures show when programs run."""

    name = "Spyre card"

    def start(self) -> None:
        """Load `torch_spyre`, which registers the device."""
        import importlib

        importlib.import_module("torch_spyre")

    def fallback_counts(self) -> dict[str, int]:
        """The card's stack publishes no counter; fallbacks show as warnings."""
        return {}

    def capability(self, model: Any, inputs: dict[str, Any], *, dtype: Any, blocks: Sequence[Any] | None) -> Any:
        """Refused: only the simulator can list failures without running."""
        raise EnvironmentProblem("a capability report needs the simulator: leave out --device hardware")


def open_device(kind: str, profile: str) -> Device:
    """The device named "simulator" or "hardware". Raises EnvironmentProblem if hardware is asked for and not there."""
    if kind == "simulator":
        return SimulatedSpyre(profile)
    if find_spec("torch_spyre") is None:
        raise EnvironmentProblem("--device hardware needs the package torch_spyre, which is not installed here")
    return SpyreCard()
