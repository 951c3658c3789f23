"""A catalogue report as tables, and tables as Markdown, HTML and CSV. One list of tables serves all three."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A heading, what it shows in one sentence, the names of its columns and its rows."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


COLUMNS = ("rows", "downloads", "supported", "of downloads", "executed", "passing", "of downloads", "plain")


def tables_of(report: Mapping[str, Any]) -> list[Table]:
    """Every section of `catalogue_report` as a table."""
    whole = report["totals"]["downloads"]
    return [
        Table("Funnel", "What is left after each step.", ("step", "rows", "downloads"), _funnel(report, whole)),
        _tallies("By family", "The model type of the stock class that stands for the row.", report["by_family"], whole),
        _tallies("By adapter", "Rows that are supported, by what makes them so.", report["by_adapter"], whole),
        _tallies("By confidence of the configuration", "As the catalogue says it.", report["by_confidence"], whole),
        _tallies(
            "By mapping",
            "Only `native` is a plain row. The others are mapping unverified: their own code was never run.",
            report["by_mapping"],
            whole,
        ),
        _masks(report, whole),
        _tallies(
            "Gated",
            "Weights that the owner must grant; counted as supported.",
            [{"name": "gated", **report["gated"]}],
            whole,
        ),
        Table(
            "By reason",
            "Why rows are not supported, or failed.",
            ("reason", "rows", "downloads"),
            tuple((r["reason"], r["rows"], _percent(r["downloads"], whole)) for r in report["by_reason"]),
        ),
        _fixes("Next best fixes by downloads", report["next_fixes"], whole),
        _fixes("Next best fixes by rows", report["next_fixes_by_rows"], whole),
        Table(
            "Calibration",
            "The published families' adapters only; the excess is the leniency of the simulator, of synthetic weights "
            "and of stock classes.",
            ("figure", "value"),
            tuple(report["calibration"].items()),
        ),
        Table("Time", "Seconds of the sweep's stages.", ("stage", "runs", "seconds", "share"), _costs(report)),
    ]


def _funnel(report: Mapping[str, Any], whole: int) -> tuple[tuple[Any, ...], ...]:
    return tuple((step, n["rows"], _percent(n["downloads"], whole)) for step, n in report["funnel"].items())


def _masks(report: Mapping[str, Any], whole: int) -> Table:
    rows = [{"name": name, **counted} for name, counted in report["masks"].items()]
    text = "Rows that a stock class stands for whose causal mask the model's own code lifts, or may lift."
    return _tallies("Causal masks that are kept", text, rows, whole)


def _tallies(title: str, text: str, found: Sequence[Mapping[str, Any]], whole: int) -> Table:
    rows = tuple(
        (
            row["name"],
            row["rows"],
            _percent(row["downloads"], whole),
            row["supported"],
            _percent(row["supported_downloads"], whole),
            row["executed"],
            row["passing"],
            _percent(row["passing_downloads"], whole),
            row["passing_plain"],
        )
        for row in found
    )
    return Table(title, text, ("", *COLUMNS), rows)


def _fixes(title: str, fixes: Sequence[Mapping[str, Any]], whole: int) -> Table:
    text = "Families with the most missing, and what keeps the nearest adapter from serving them."
    rows = tuple((*list(fix.values())[:-1], _percent(fix["downloads"], whole)) for fix in fixes)
    return Table(title, text, ("family", "what is missing", "groups", "rows", "downloads"), rows)


def _costs(report: Mapping[str, Any]) -> tuple[tuple[Any, ...], ...]:
    costs = report["costs"]
    whole = sum(cost["seconds"] for cost in costs.values()) or 1
    return tuple(
        (stage, cost["runs"], round(cost["seconds"], 1), _percent(cost["seconds"], whole))
        for stage, cost in costs.items()
    )


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def as_markdown(tables: Sequence[Table], level: int = 2) -> str:
    """One section per table; a table without rows says so."""
    return "\n".join(_section(table, "#" * level) for table in tables)


def _section(table: Table, mark: str) -> str:
    lines = [f"{mark} {table.title}", "", table.text, ""]
    if not table.rows:
        return "\n".join([*lines, "Nothing yet.", ""])
    lines += [_line(table.columns), "|" + "---|" * len(table.columns)]
    return "\n".join([*lines, *map(_line, table.rows), ""])


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(_cell(cell).replace("|", "\\|") for cell in cells) + " |"


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


STYLE = (
    "body{font:15px sans-serif;margin:2em}td,th{padding:2px 10px;text-align:left}tr:nth-child(even){background:#f4f4f4}"
)


def as_html(tables: Sequence[Table], title: str) -> str:
    """One page that needs nothing else; every text is escaped."""
    body = "".join(_html_table(table) for table in tables)
    style = f"<style>{STYLE}</style>"
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title>{style}'
    return f"<!doctype html><html lang=en><head>{head}</head><body><h1>{html.escape(title)}</h1>{body}</body></html>\n"


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(_cell(c))}</td>" for c in row) + "</tr>" for row in table.rows)
    text = f"<h2>{html.escape(table.title)}</h2><p>{html.escape(table.text)}</p>"
    return f"{text}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def as_csv(tables: Sequence[Table]) -> str:
    """One line per cell: table, row, column, value."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("table", "row", "column", "value"))
    for table in tables:
        for row in table.rows:
            for column, value in zip(table.columns[1:], row[1:], strict=True):
                writer.writerow((table.title, row[0], column, value))
    return out.getvalue()
