"""The report of an adapted model: plain data, and as text a table that a person can read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Report(dict[str, Any]):
    """What `Handle.report()` gives: a dict for machines; `print(report)` shows one row per patch.

    Columns: the site (where in the model), what is replaced, by what, the formula, how exact, who drafted it, and the
    evidence of the adapter.
    """

    def __str__(self) -> str:
        return "\n".join([_head(self), *_table([HEADINGS, *(_row(p, self["evidence"]) for p in self["patches"])])])


HEADINGS = ("SITE", "REPLACED", "BY", "FORMULA", "EXACTNESS", "DRAFTER", "EVIDENCE")


def _head(report: Report) -> str:
    adapter = report["adapter"]
    name = (
        f"{adapter['name']} {adapter['version']} ({adapter['origin']}), {adapter['profile']}"
        if adapter
        else "no adapter"
    )
    state = "active" if report["active"] else "undone"
    kinds = f"{report['blocks']} blocks of {report['block_kinds']} kind(s), form {report['form']}"
    host = ", ".join(report["host"]) or "nothing"
    return f"{name}: {state} on {report['device']} in {report['dtype']}; {kinds}; on the CPU: {host}"


def _row(patch: dict[str, Any], evidence: Iterable[str]) -> tuple[str, ...]:
    bound = "" if patch["bound"] is None else f" <= {patch['bound']:g}"
    return (
        _sites(patch["targets"]),
        ", ".join(name.rpartition(".")[2] for name in patch["replaced"]),
        f"{patch['pattern']} {patch['by'].rpartition('.')[2]}{_parameters(patch['parameters'])}",
        patch["mathematics"],
        patch["exactness"] + bound,
        patch["drafter"] or "not recorded",
        ", ".join(digest[:12] for digest in evidence) or "none",
    )


def _sites(targets: list[str]) -> str:
    """The first place and how many more there are; the model itself has no path."""
    first = targets[0] or "the model"
    return first if len(targets) == 1 else f"{first} and {len(targets) - 1} more"


def _parameters(parameters: dict[str, Any]) -> str:
    plain = {k: v for k, v in parameters.items() if isinstance(v, str | int | float)}
    return f"({', '.join(f'{k}={v}' for k, v in plain.items())})" if plain else ""


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
