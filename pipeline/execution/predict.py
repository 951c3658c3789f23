"""What capability alone says of a catalogue row: would it be supported, and if not, why. Nothing is executed.

The same inspection, adapter and capability report as in a sweep's first two stages, without runs, rows or children:
only stock classes on fake tensors and the library's own patches are used. It is a forecast, never a verdict.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agents.types import Failure
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.diagnosis.service import failures_of
from pipeline.errors import CheckpointProblem
from pipeline.execution.capture import capture, stock_reports, summary
from pipeline.execution.check import matching_manifest
from pipeline.execution.inspect import inspect_subject
from pipeline.execution.subject import Subject, subject_from_spec

CAUSES = 6
"""Operations kept of a report that has failures, the most frequent first."""


@dataclass(frozen=True)
class Forecast:
    """`supported` is None where we failed; `kind` and `reason` say why it is not True. `causes` are "kind op".

    `causal`: the stock class masks what comes after a token. `lacks`: what keeps the nearest adapter from matching.
    """

    supported: bool | None
    family: str | None = None
    adapter: str | None = None
    digest: str | None = None
    kind: str | None = None
    reason: str = ""
    causes: tuple[str, ...] = ()
    causal: bool = False
    lacks: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "causes": list(self.causes)}


def family_of_entry(entry: CatalogueEntry, profile: str, data: Path) -> dict[str, Any]:
    """OUT of the inspection of a row on synthetic weights. Raises CheckpointProblem."""
    return inspect_subject(_spec(entry, profile, data))


def forecast(entry: CatalogueEntry, profile: str, data: Path, manifest: dict[str, Any] | None = None) -> Forecast:
    """What the first two stages say of the row with `manifest`, or the bundled adapter of its family."""
    try:
        found = family_of_entry(entry, profile, data)
        chosen = manifest or matching_manifest(found["family"], profile)
        captured = _captured(entry, profile, data, found, chosen)
    except CheckpointProblem as problem:
        return Forecast(False, kind=problem.kind, reason=str(problem))
    named = {"family": found["family"], "causal": bool(found["description"].get("causal"))}
    named |= {"adapter": chosen and chosen["name"], "digest": chosen and chosen["digest"]}
    if captured["outcome"] == "passed" and (chosen or not captured["predicted"]):
        return Forecast(True, **named)
    lacks = "" if chosen else nearest(found["description"], profile)
    kind, reason = _why(captured, chosen, lacks)
    return Forecast(False, **named, kind=kind, reason=reason, causes=_causes(captured["failures"]), lacks=lacks)


def nearest(description: Mapping[str, Any], profile: str) -> str:
    """What keeps the bundled adapter that fits a structure best from matching it: the words that differ."""
    from adapters.describe import differing
    from pipeline.releases.service import bundled_manifests

    served = [
        (manifest["name"], predicate)
        for manifest in bundled_manifests()
        if manifest["profile"] == profile
        for predicate in manifest["predicate"].get("any", [manifest["predicate"]])
    ]
    same = [(name, predicate) for name, predicate in served if predicate.get("block") == description.get("block")]
    if not same:
        return f"no adapter has blocks of class {str(description.get('block')).rpartition('.')[2]}"
    name, predicate = min(same, key=lambda pair: len(differing(pair[1], description)))
    said = ", ".join(
        f"{word} {description.get(word)}, not {predicate.get(word)}" for word in differing(predicate, description)
    )
    return f"{name} but for {said}"


def _captured(
    entry: CatalogueEntry, profile: str, data: Path, found: dict[str, Any], manifest: dict[str, Any] | None
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="spyre-forecast-") as work:
        spec = {**_spec(entry, profile, data), "workdir": work, "adapter": manifest, "family": found["family"]}
        subject = subject_from_spec({**spec, "checkpoint_dir": found["checkpoint_dir"]})
        refused = [] if manifest else _refused_in_fp16(subject)
        if not refused:
            return capture(subject)
    return {"outcome": "failed", "failures": [asdict(f) for f in refused], "reason": summary(refused), "predicted": []}


def _refused_in_fp16(subject: Subject) -> list[Failure]:
    """What fails of the stock model in fp16, the device's own width: one such failure is enough to need an adapter."""
    import torch

    return failures_of(stock_reports(subject, [torch.float16]))


def _spec(entry: CatalogueEntry, profile: str, data: Path) -> dict[str, Any]:
    listed = {"model": entry.model_id, "revision": entry.revision, "entry": entry.to_dict(), "config": entry.config}
    return {**listed, "profile": profile, "weights": "synthetic", "data_dir": str(data)}


def _why(captured: dict[str, Any], manifest: dict[str, Any] | None, lacks: str) -> tuple[str, str]:
    if not captured["failures"]:
        return "wrong_values", f"{lacks}; stock: a known defect is predicted: {captured['predicted'][0]['message']}"
    first = captured["failures"][0]
    with_what = f"adapter {manifest['name']}" if manifest else f"{lacks}; stock"
    return str(first["kind"]), f"{with_what}: {captured['reason']}"


def _causes(failures: list[dict[str, Any]]) -> tuple[str, ...]:
    counted = Counter(f"{failure['kind']} {failure['op']}" for failure in failures)
    return tuple(cause for cause, _ in counted.most_common(CAUSES))
