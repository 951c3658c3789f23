"""The second implementation of the `Device` protocol, with a stub in place of the package `torch_spyre`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.errors import EnvironmentProblem
from pipeline.execution.device import SimulatedSpyre, SpyreCard, open_device


def test_without_the_package_the_card_is_refused_in_one_sentence() -> None:
    with pytest.raises(EnvironmentProblem, match="torch_spyre, which is not installed"):
        open_device("hardware", "profile-2026-08")


def test_the_card_is_loaded_only_when_it_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch_spyre.py").write_text("started = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    device = open_device("hardware", "profile-2026-08")
    assert isinstance(device, SpyreCard)
    assert "torch_spyre" not in sys.modules
    device.start()
    assert sys.modules.pop("torch_spyre").started
    assert device.fallback_counts() == {}
    with pytest.raises(EnvironmentProblem, match="needs the simulator"):
        device.capability(None, {}, dtype=None, blocks=None)


def test_both_devices_have_what_the_protocol_asks_for() -> None:
    wanted = ("start", "fallback_counts", "capability", "name")
    for device in (SimulatedSpyre("profile-2026-08"), SpyreCard()):
        assert all(hasattr(device, name) for name in wanted)
