"""Where every row of a catalogue stands: what capability forecasts for its group, and what its execution has shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.catalogue.entry import CatalogueEntry, ConfigMapping
from pipeline.sweeps.groups import group_key
from pipeline.work.models import Outcome

NOT_EXECUTED = "not executed"
Forecasts = Mapping[str, Mapping[str, Any]]
"""By group key, `pipeline.execution.predict.Forecast.to_dict()`."""
Told = Mapping[str, Mapping[str, Any]]
"""By model, a row of a sweep's report."""


@dataclass(frozen=True)
class Standing:
    """One row. `supported` is None where capability was not asked; `outcome` is that of execution at the sweep tier.

    `reason` and `kind` say why it does not pass, without the model's name; `causes` name what fails on the device,
    `lacks` what keeps the nearest adapter from matching. `causal` is whether the class that stands for it masks what
    comes after a token.
    """

    entry: CatalogueEntry
    group: str | None
    supported: bool | None
    outcome: str
    adapter: str | None = None
    kind: str | None = None
    reason: str = ""
    causes: tuple[str, ...] = ()
    lacks: str = ""
    causal: bool = False

    @property
    def passing(self) -> bool:
        """True if the gate's verdict on the row, or on the one that speaks for its group, is `passed`."""
        return self.outcome == Outcome.PASSED

    @property
    def executed(self) -> bool:
        """True if the gate has given a verdict."""
        return self.outcome in (Outcome.PASSED, Outcome.FAILED)

    @property
    def plain(self) -> bool:
        """True if the stock class is the model's own; all others are "mapping unverified"."""
        return self.entry.mapping is ConfigMapping.NATIVE

    @property
    def family(self) -> str:
        """The model type of the class that stands for it, or that it would need."""
        config = self.entry.config or {}
        return str(config.get("model_type") or self.entry.model_type or "unknown")

    @property
    def explained(self) -> bool:
        """True if there is a verdict, or a reason why there is none."""
        return self.executed or (self.supported is False and bool(self.reason))


def standings(entries: Sequence[CatalogueEntry], forecasts: Forecasts, told: Told) -> list[Standing]:
    """One standing per row, in the rows' order. Groups without a forecast and rows without a verdict say so."""
    return [_standing(entry, forecasts, told.get(entry.model_id, {})) for entry in entries]


def _standing(entry: CatalogueEntry, forecasts: Forecasts, row: Mapping[str, Any]) -> Standing:
    if entry.dropped:
        return Standing(
            entry, None, False, NOT_EXECUTED, kind=entry.dropped_kind, reason=_unnamed(entry.dropped_reason)
        )
    key = group_key(entry)
    found = forecasts.get(key or "", {})
    outcome = _executed(row)
    failing = False if row.get("outcome") == Outcome.FAILED else None  # at capability, with or without an adapter
    supported = True if outcome in (Outcome.PASSED, Outcome.FAILED) else found.get("supported", failing)
    failed = row if row.get("outcome") in (Outcome.FAILED, Outcome.INFRA) else found if not supported else {}
    return Standing(
        entry,
        key,
        supported,
        outcome,
        adapter=found.get("adapter") or _name(row.get("adapter")),
        kind=failed.get("kind"),
        reason=_unnamed(failed.get("reason")) or ("" if supported else "capability was not asked yet"),
        causes=tuple(found.get("causes") or ()),
        lacks=str(found.get("lacks") or ""),
        causal=bool(found.get("causal")),
    )


def _name(label: Any) -> str | None:
    """The name that an adapter's label begins with."""
    return str(label).split()[0] if label else None


def _executed(row: Mapping[str, Any]) -> str:
    """The outcome of a row that ran on the device; a report's row that only failed before has no depth and weights."""
    outcome = str(row.get("outcome") or "")
    ran = row.get("worst_token_cosine") is not None or outcome == Outcome.PASSED
    return outcome if ran else NOT_EXECUTED


def _unnamed(reason: object) -> str:
    """A sentence without the name it begins with: that of the row, or of the one that speaks for its group."""
    return re.sub(r"^'[^']*': ", "", str(reason or ""))


Which = Callable[[Standing], bool]
TALLIED: dict[str, Which] = {
    "rows": lambda standing: True,
    "supported": lambda standing: standing.supported is True,
    "executed": lambda standing: standing.executed,
    "passing": lambda standing: standing.passing,
    "passing_plain": lambda standing: standing.passing and standing.plain,
}
"""What is counted of any set of rows, each by number and by downloads."""


def tally(rows: Iterable[Standing]) -> dict[str, int]:
    """The counts of `TALLIED`, and of each the downloads, as `NAME_downloads` (`downloads` for all rows)."""
    counted = list(rows)
    numbers = {name: sum(map(which, counted)) for name, which in TALLIED.items()}
    summed = {
        "downloads" if name == "rows" else f"{name}_downloads": sum(s.entry.downloads for s in counted if which(s))
        for name, which in TALLIED.items()
    }
    return numbers | summed


def by(rows: Iterable[Standing], key: Callable[[Standing], str]) -> dict[str, list[Standing]]:
    """The rows by `key`, the most downloaded first."""
    found: dict[str, list[Standing]] = {}
    for standing in rows:
        found.setdefault(key(standing), []).append(standing)
    return dict(sorted(found.items(), key=lambda item: (-sum(s.entry.downloads for s in item[1]), item[0])))
