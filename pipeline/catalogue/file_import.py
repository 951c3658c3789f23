"""Imports a catalogue from files: one JSON object per line (`.jsonl` or `.jsonl.gz`) and a table of configurations.

Format of a row: `rank`, `model_id`, `downloads`, `likes`, `model_type`, `architectures`, `parameters`, `library`,
`gated`, `custom_code`, optionally `revision`, `pipeline_tag`, `config_ref` (a key of the configuration file),
`config_confidence`, `reason`, `param_basis` and `near_config_ref`. Format of the configuration file: one JSON object
whose values hold `config` and optionally `pooling`, `normalize`, `max_seq_length`, `dense`, `note`.
A row without a configuration of its own stands on that of its near stock class; what else becomes of it is decided in
`pipeline.catalogue.decisions`.
Every error is a BadInput that names the file, the line and what to do; nothing of a faulty file is returned.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.catalogue.decisions import decide, is_bidirectional
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.errors import BadInput

MAX_LINE_BYTES = 1_000_000
"""A line longer than this is not a row of a catalogue."""

_REQUIRED: dict[str, type] = {"rank": int, "model_id": str, "downloads": int}
_OPTIONAL: dict[str, tuple[type, ...]] = {
    "likes": (int,),
    "model_type": (str,),
    "parameters": (int,),
    "library": (str,),
    "pipeline_tag": (str,),
    "revision": (str,),
    "config_confidence": (str,),
}
_PLAIN = ("revision", "pipeline_tag", "library", "model_type", "config_confidence", "parameters")
_FLAGS = ("gated", "custom_code")
_FACTS: dict[str, type] = {"pooling": str, "normalize": bool, "max_seq_length": int, "dense": str}

Configs = Mapping[str, Mapping[str, Any]]


def import_file(path: Path, configs: Path | None = None, *, top: int | None = None) -> list[CatalogueEntry]:
    """The rows of `path` in rank order, the first `top` of them. Raises BadInput; an empty file is an error too.

    `configs` defaults to `hub_configs.json` beside the file, if it is there; without configurations every row is kept
    and dropped rows say why.
    """
    beside = path.parent / "hub_configs.json"
    table = load_configs(configs or (beside if beside.is_file() else None))
    seen: dict[str, int] = {}
    entries = []
    for number, row in _rows(path):
        entry = _entry(row, table, f"{path.name}, line {number}")
        if entry.model_id in seen:
            first = seen[entry.model_id]
            raise BadInput(
                f"{path.name}, line {number}: {entry.model_id!r} is already on line {first}; remove one of them"
            )
        seen[entry.model_id] = number
        entries.append(entry)
    if not entries:
        raise BadInput(f"{str(path)!r} holds no rows; give a file with one JSON object per line")
    return sorted(entries, key=lambda e: e.rank)[:top]


def load_configs(path: Path | None) -> Configs:
    """The configuration table; empty without a file. Raises BadInput if the file is not such a table."""
    if path is None:
        return {}
    try:
        table = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be read ({error.strerror}); give the file of configurations") from error
    except ValueError as error:
        raise BadInput(f"{str(path)!r} is not JSON; give one object that maps config_ref to a configuration") from error
    faulty = _first_faulty(table)
    if faulty is not None:
        raise BadInput(f"{str(path)!r}: entry {faulty!r} has no table `config`; correct or remove it")
    return table


def _first_faulty(table: Any) -> str | None:
    if not isinstance(table, dict):
        return "(whole file)"
    return next((k for k, v in table.items() if not (isinstance(v, dict) and isinstance(v.get("config"), dict))), None)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
                if line.strip():
                    yield number, _parsed(line, f"{path.name}, line {number}")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{str(path)!r} is truncated or not gzip; download it again") from error
    except OSError as error:
        raise BadInput(
            f"{str(path)!r} cannot be read ({error.strerror or error}); give an existing catalogue file"
        ) from error


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise BadInput(f"{where}: longer than {MAX_LINE_BYTES:,} bytes; give one JSON object per line")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not valid JSON; correct or remove the line") from error
    if not isinstance(row, dict):
        raise BadInput(f"{where}: not a JSON object; give one object per line")
    return row


def _entry(row: dict[str, Any], table: Configs, where: str) -> CatalogueEntry:
    for key, kind in _REQUIRED.items():
        if type(row.get(key)) is not kind:
            raise BadInput(f"{where}: {key} is {row.get(key)!r:.60}; it must be a {kind.__name__}")
    if row["rank"] < 1 or row["downloads"] < 0 or not row["model_id"].strip():
        raise BadInput(f"{where}: rank counts from 1, downloads from 0, and model_id is not empty; correct the line")
    for key, kinds in _OPTIONAL.items():
        if row.get(key) is not None and type(row[key]) not in kinds:
            raise BadInput(f"{where}: {key} is {row[key]!r:.60}; it must be a {kinds[0].__name__} or null")
    return _built(row, _referred(row, "config_ref", table, where), _referred(row, "near_config_ref", table, where))


def _referred(row: dict[str, Any], key: str, table: Configs, where: str) -> Mapping[str, Any]:
    reference = row.get(key)
    if reference is None or not table:
        return {}
    if reference not in table:
        raise BadInput(f"{where}: {key} {reference!r:.80} is not in the configuration file; give the matching file")
    return table[reference]


def _built(row: dict[str, Any], own: Mapping[str, Any], near: Mapping[str, Any]) -> CatalogueEntry:
    found = own or near
    facts: dict[str, Any] = {key: value for key, kind in _FACTS.items() if type(value := found.get(key)) is kind}
    facts |= {key: row.get(key) for key in _PLAIN} | {key: bool(row.get(key)) for key in _FLAGS}
    decision = decide(row, bool(found))  # rows of one configuration share its object: what is derived from it is, too
    return CatalogueEntry(
        model_id=row["model_id"],
        rank=row["rank"],
        downloads=row["downloads"],
        likes=row.get("likes") or 0,
        architectures=tuple(row.get("architectures") or ()),
        config=found["config"] if found else None,
        near_config=near["config"] if near and not own else None,
        bidirectional=is_bidirectional(row, str(found.get("note") or "")),
        weights_form=decision.weights_form,
        dropped_kind=decision.kind,
        dropped_reason=decision.reason,
        **facts,
    )
