"""`pipeline.catalogue.store.CatalogueStore` on the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.catalogue.store import StoredCatalogue
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.sweeps import repository
from pipeline.sweeps.catalogue import entry_of, store_snapshot
from pipeline.sweeps.changes import count_changes


class DatabaseCatalogues:
    """Snapshots as rows; the same content is kept once."""

    def record_snapshot(
        self, source: str, digest: str, entries: Sequence[CatalogueEntry], taken_at: datetime
    ) -> StoredCatalogue:
        """Keep the rows as one snapshot, once per digest; all or none."""
        with unit_of_work() as session:
            fresh = repository.find_snapshot(session, digest) is None
            snapshot = store_snapshot(session, source, entries)
            changes = count_changes(session, snapshot.id)
            return StoredCatalogue(snapshot.id, snapshot.listed, snapshot.dropped, fresh, **changes)

    def latest_entries(self, top: int | None = None) -> list[CatalogueEntry] | None:
        """The first kept rows of the newest snapshot in sweep order; None if there is no snapshot."""
        with reading() as session:
            snapshot = repository.latest_snapshot(session)
            if snapshot is None:
                return None
            rows = repository.entries_of(session, snapshot.id, top)
            return [entry_of(row.checkpoint) for row in rows if row.checkpoint is not None]


def open_store() -> DatabaseCatalogues:
    """The store of the configured database."""
    return DatabaseCatalogues()
