"""Where catalogues are kept, as a protocol: the database implements it, the command line and the service use it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from pipeline.catalogue.entry import CatalogueEntry


class StoredCatalogue(NamedTuple):
    """What was kept: the snapshot's number, how many rows it has and how many of them are dropped.

    `fresh` is False if the same content was there already (same digest): nothing was written then. `entered`, `left`
    and `moved` count models against the listing of the same source before it.
    """

    snapshot_id: int
    listed: int
    dropped: int
    fresh: bool
    entered: int = 0
    left: int = 0
    moved: int = 0


class CatalogueStore(Protocol):
    """Keeps whole catalogues: all rows or none. Both calls are safe to repeat."""

    def record_snapshot(
        self, source: str, digest: str, entries: Sequence[CatalogueEntry], taken_at: datetime
    ) -> StoredCatalogue:
        """Keeps the rows as one snapshot, once per digest. Raises EnvironmentProblem if it cannot write."""
        ...

    def latest_entries(self, top: int | None = None) -> list[CatalogueEntry] | None:
        """The first rows of the newest snapshot in sweep order, None if there is no snapshot."""
        ...
