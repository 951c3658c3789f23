"""The catalogue of errata: for each id of facts section 6 its trigger, effect, profiles, parameters and where it is.

One YAML file per subject. The profiles switch errata on; this says what they are, and what is not modelled and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml

SUBJECTS = ("numerics", "shapes", "spans", "views", "reductions", "november", "runtime", "device")
IDS = frozenset(f"E-{n:02d}" for n in range(1, 74) if n != 62)  # facts section 6: E-62 is unused
KINDS = ("wrong", "nan", "raise", "abort", "crash", "hang", "drift")
_REQUIRED = frozenset(["title", "trigger", "effect", "kind", "profiles", "modelled"])
_OPTIONAL = frozenset(["reason", "where", "parameters"])


class CatalogueError(ValueError):
    """An entry of the catalogue is malformed; the message names it."""


@dataclass(frozen=True)
class Parameter:
    """A value that no source states: its default, why that one, and what depends on it."""

    default: Any
    reason: str
    sensitivity: str


@dataclass(frozen=True)
class Erratum:
    """One entry. `profiles` are those that show it; `reason` says why it is not, or only partly, modelled."""

    id: str
    subject: str
    title: str
    trigger: str
    effect: str
    kind: str
    profiles: tuple[str, ...]
    modelled: Literal["yes", "partly", "no"]
    reason: str = ""
    where: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@cache
def load_catalogue() -> Mapping[str, Erratum]:
    """Id -> entry over all subjects, in order of the ids. Raises CatalogueError for a malformed or doubled entry."""
    found: dict[str, Erratum] = {}
    for subject in SUBJECTS:
        for erratum in _subject(subject):
            if erratum.id in found:
                raise CatalogueError(f"{erratum.id} is in {found[erratum.id].subject} and in {subject}")
            found[erratum.id] = erratum
    return dict(sorted(found.items()))


def read_entry(subject: str, name: str, data: Any) -> Erratum:
    """The entry `name` of a subject from its YAML data. Raises CatalogueError."""
    if name not in IDS:
        raise CatalogueError(f"{subject}: {name!r} is no erratum of the facts page")
    keys = frozenset(data) if isinstance(data, dict) else frozenset()
    if missing := sorted(_REQUIRED - keys):
        raise CatalogueError(f"{name} has no {', '.join(missing)}")
    if extra := sorted(keys - _REQUIRED - _OPTIONAL):
        raise CatalogueError(f"{name} has {', '.join(extra)}, which no entry has")
    parameters = {key: _parameter(name, key, value) for key, value in data.get("parameters", {}).items()}
    modelled = {True: "yes", False: "no"}.get(data["modelled"], data["modelled"])  # YAML reads yes and no as bools
    fields = {k: v for k, v in data.items() if k not in ("parameters", "modelled", "profiles")}
    erratum = Erratum(
        name, subject, profiles=tuple(data["profiles"]), modelled=modelled, parameters=parameters, **fields
    )
    _check(erratum)
    return erratum


def _subject(subject: str) -> list[Erratum]:
    path = resources.files("sim_backend.errata.catalogue").joinpath(f"{subject}.yaml")
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [read_entry(subject, name, data) for name, data in (yaml.safe_load(text) or {}).items()]


def _parameter(erratum: str, name: str, data: Any) -> Parameter:
    if not isinstance(data, dict) or set(data) != {"default", "reason", "sensitivity"}:
        raise CatalogueError(f"{erratum}: the parameter {name!r} needs default, reason and sensitivity")
    return Parameter(data["default"], str(data["reason"]), str(data["sensitivity"]))


def _check(erratum: Erratum) -> None:
    if erratum.kind not in KINDS:
        raise CatalogueError(f"{erratum.id}: {erratum.kind!r} is no kind of {', '.join(KINDS)}")
    if erratum.modelled not in ("yes", "partly", "no"):
        raise CatalogueError(f"{erratum.id}: modelled is {erratum.modelled!r}, not yes, partly or no")
    if erratum.modelled != "yes" and not erratum.reason:
        raise CatalogueError(f"{erratum.id} is not modelled, or partly, without a reason")
    if erratum.modelled != "no" and not erratum.where:
        raise CatalogueError(f"{erratum.id} is modelled, but not said where")
