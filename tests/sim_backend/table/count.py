"""How many cells of the operator table the tests hold to, by profile and form; what is owed has its reason there."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import yaml
from table.run import CELLS, FORMS, cells


def counts() -> list[dict[str, Any]]:
    """{"profile", "form", "counted", "held", "excepted", "unknown"}: cells without "?" are counted (facts 3.2)."""
    table = yaml.safe_load(CELLS.read_text(encoding="utf-8"))
    return [_column(profile, form) for profile in table["columns"] for form in FORMS]


def _column(profile: str, form: str) -> dict[str, Any]:
    ours = sorted((c for c in cells(profile) if c.form == form), key=lambda c: c.row)
    rows = [list(group) for _, group in groupby(ours, key=lambda c: c.row)]
    known = [row for row in rows if not all(c.unknown for c in row)]
    excepted = sum(any(c.owed and not c.unknown for c in row) for row in known)
    return {
        "profile": profile, "form": form, "counted": len(known), "held": len(known) - excepted, "excepted": excepted,
        "unknown": len(rows) - len(known),
    }  # fmt: skip
