"""The bundled starter catalogue: real checkpoints with their real configurations, so that no Hub is needed to begin.

`starter.json` is an object with `format`, `about` and `entries`, one compact `CatalogueEntry` per line. Its facts were
taken by `starter_build.py`; revisions are not among them, so its checkpoints are not pinned (`revision` is None).
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files

from pipeline.catalogue.entry import CatalogueEntry, entry_from_dict

FORMAT = "spyre-factory-catalogue-1"


@lru_cache(maxsize=1)
def _all() -> tuple[CatalogueEntry, ...]:
    document = json.loads(files(__package__).joinpath("starter.json").read_text(encoding="utf-8"))
    if document["format"] != FORMAT:
        raise ValueError(f"starter.json has format {document['format']!r}, expected {FORMAT!r}")
    entries = [entry_from_dict(row) for row in document["entries"]]
    return tuple(sorted(entries, key=lambda e: e.order))


def load_starter(top: int | None = None) -> list[CatalogueEntry]:
    """The first `top` starter entries in sweep order: small models first, MiniLM at the head."""
    return list(_all()[:top])


def find_starter(model_id: str) -> CatalogueEntry | None:
    """The starter entry of a model id, or None."""
    return next((e for e in _all() if e.model_id == model_id), None)
