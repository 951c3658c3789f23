"""What capability alone says of every group of a catalogue: kept as it comes, so that a stopped scan goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.kept import Kept, digest_of
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.sweeps.groups import group_key

SOURCES = (
    "sim_backend",
    "adapters/*.py",
    "adapters/patches",
    "adapters/releases/*.py",
    "pipeline/execution/capture.py",
)
"""What decides a forecast beside the adapter, which is named in the answer's key."""


def speakers_of(entries: Sequence[CatalogueEntry]) -> dict[str, list[CatalogueEntry]]:
    """The rows that are taken, by group; the first of each speaks for it.

    Groups with the largest share of rows and downloads together come first: a scan that is stopped knows most.
    """
    groups: dict[str, list[CatalogueEntry]] = {}
    for entry in entries:
        key = None if entry.dropped else group_key(entry)
        if key is not None:
            groups.setdefault(key, []).append(entry)
    whole = max(sum(entry.downloads for entry in entries), 1)
    share = {
        key: len(rows) / len(entries) + sum(entry.downloads for entry in rows) / whole for key, rows in groups.items()
    }
    return dict(sorted(groups.items(), key=lambda item: -share[item[0]]))


class Forecasts:
    """Forecasts by group on one profile, in `folder`: families first, then one report per (group, adapter)."""

    def __init__(self, folder: Path, profile: str) -> None:
        version = digest_of(SOURCES)
        self.folder, self.profile, self.made = folder, profile, 0
        self._families = Kept(folder / "families.jsonl", f"{profile} {digest_of(('adapters/*.py',))}")
        self._reports = Kept(folder / "forecasts.jsonl", f"{profile} {version}")

    def of(self, key: str, entry: CatalogueEntry) -> dict[str, Any]:
        """The forecast of a group, made now if it is not kept."""
        family = self._families.answer(key, lambda: self._family(entry))
        answer: dict[str, Any] = self._reports.answer(self._name(key, family), lambda: self._forecast(entry))
        return answer

    def known(self, key: str) -> dict[str, Any]:
        """The kept forecast of a group; empty if there is none."""
        family = self._families.known(key)
        return (self._reports.known(self._name(key, family)) if family else None) or {}

    def _name(self, key: str, family: dict[str, Any]) -> str:
        from pipeline.execution.check import matching_manifest

        manifest = matching_manifest(family["family"], self.profile) if family["family"] else None
        return f"{key} {manifest['digest'] if manifest else 'stock'}"

    def _family(self, entry: CatalogueEntry) -> dict[str, Any]:
        from pipeline.execution.predict import family_of_entry

        try:
            return {"family": family_of_entry(entry, self.profile, self.folder)["family"]}
        except Exception:  # noqa: BLE001 - the forecast says what is wrong
            return {"family": None}

    def _forecast(self, entry: CatalogueEntry) -> dict[str, Any]:
        from pipeline.execution.predict import Forecast, forecast

        began = time.process_time()
        try:
            found = forecast(entry, self.profile, self.folder)
        except Exception as error:  # noqa: BLE001 - one group must not end the scan
            found = Forecast(None, kind="infra", reason=f"{type(error).__name__}: {str(error)[:200]}")
        self.made += 1
        spent = round(time.process_time() - began, 2)
        sys.stderr.write(f"{spent:>7} CPU-s  {found.supported}  {entry.model_id}  {found.reason[:90]}\n")
        return {**found.to_dict(), "cpu_seconds": spent}


def forecasts_of(
    entries: Sequence[CatalogueEntry], folder: Path, profile: str, *, make: bool = True
) -> dict[str, dict[str, Any]]:
    """The forecast of every group, by group. Without `make` only what is kept; the others' are empty."""
    forecasts = Forecasts(folder, profile)
    groups = speakers_of(entries)
    return {key: forecasts.of(key, rows[0]) if make else forecasts.known(key) for key, rows in groups.items()}
