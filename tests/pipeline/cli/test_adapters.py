"""`adapters show` says which families an adapter serves, and with which of its patches."""

from __future__ import annotations

import pytest

from pipeline.cli import adapters
from pipeline.releases.service import bundled_manifests


def test_an_adapter_for_several_families_names_each_with_its_patches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = next(m for m in bundled_manifests() if m.get("members"))
    monkeypatch.setattr(adapters, "_manifest", lambda number: manifest)
    adapters.show(1)
    printed = capsys.readouterr().out
    for member in manifest["members"]:
        patterns = [manifest["patches"][taken["patch"]]["pattern"] for taken in member["patches"]]
        assert f"{member['family']} takes {', '.join(patterns)}" in printed
