"""The child that makes bundles for the API: whole or not at all, and a refusal is its last line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.releases import export_child
from pipeline.releases.bundles import exportable
from pipeline.releases.models import AdapterState
from pipeline.releases.repository import list_adapters
from pipeline.releases.service import bundled_manifests, sync_bundled

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def test_a_bundle_is_written_and_a_withdrawn_adapter_is_refused(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with unit_of_work() as session:
        sync_bundled(session, bundled_manifests())
        number = list_adapters(session)[0].id
    file = tmp_path / "bundle.json"
    assert export_child.main([str(number), str(file)]) == 0
    assert json.loads(file.read_text())
    assert list(tmp_path.glob(".*")) == [], "no part is left beside it"
    with unit_of_work() as session:
        exportable(session, number).state = AdapterState.WITHDRAWN
    assert export_child.main([str(number), str(tmp_path / "second.json")]) == 1
    assert "withdrawn" in capsys.readouterr().err
    assert not (tmp_path / "second.json").exists()
