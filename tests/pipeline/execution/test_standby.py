"""What an execution imports for all of its processes is walked by no garbage collection while they work."""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pipeline.execution import standby
from pipeline.execution.standby import imported_for_good


def test_what_was_imported_is_frozen_while_the_block_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    collecting: list[bool] = []
    monkeypatch.setattr(standby, "import_all", lambda subject: collecting.append(gc.isenabled()))
    subject = cast(Any, SimpleNamespace(folder=tmp_path))
    with imported_for_good(subject):
        assert gc.isenabled()
        assert gc.get_freeze_count() > 1_000
    assert collecting == [False]
    assert gc.get_freeze_count() == 0


def test_a_failed_import_leaves_collection_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(subject: Any) -> None:
        raise ImportError("no such package")

    monkeypatch.setattr(standby, "import_all", fails)
    with pytest.raises(ImportError), imported_for_good(cast(Any, None)):
        raise AssertionError("the block must not run")
    assert gc.isenabled()
