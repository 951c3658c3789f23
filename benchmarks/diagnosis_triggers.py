"""Which faults trigger in which model: `python -m benchmarks.diagnosis_triggers [MODEL …]` prints them.

Asked of the simulator's capability report, which runs nothing: one process per model.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from benchmarks.diagnosis_families import FAMILIES, build
from benchmarks.diagnosis_faults import LIMITS, Fault, add_rules, known_faults, profile_of, random_faults
from benchmarks.diagnosis_modules import CONSTRUCTED

SEED = 1
DRAWN = 90
"""Random faults that are asked for, each in one model: enough for 30 that trigger."""
VARIANTS = ("ragged", "single")
"""Kinds of input that faults trigger on: what a ragged batch does not meet, one token alone does."""
UNSEEN = frozenset({"border", "drift"})
"""Conditions of faults that no operation shows: only a run tells whether they trigger."""


def models() -> list[str]:
    """The families, then the constructed models."""
    return [*FAMILIES, *CONSTRUCTED]


def faults_for(model: str) -> list[Fault]:
    """The faults that are tried in a model: all known ones in a family and its share of the random ones."""
    known = list(known_faults())
    if model in CONSTRUCTED:
        return [f for f in known if f.name == CONSTRUCTED[model].fault]
    families = list(FAMILIES)
    drawn = [f for n, f in zip(range(DRAWN), random_faults(SEED), strict=False) if families[n % len(families)] == model]
    return [*known, *drawn]


def triggered(model: str) -> dict[str, Any]:
    """`met`: the faults that trigger in the model, in their order; `seconds` of the processor."""
    from pipeline.execution.embedder import StockEmbedder

    started = time.process_time()
    faults = faults_for(model)
    add_rules(faults)
    embedder = StockEmbedder(build(model), "mean", False)
    met = set(faults_met(embedder, faults))
    by_value = {CONSTRUCTED[model].fault} if model in CONSTRUCTED and CONSTRUCTED[model].by_value else set()
    names = [f.name for f in faults if f.name in met | by_value]
    return {"met": names, "seconds": round(time.process_time() - started, 1)}


def faults_met(embedder: Any, faults: Sequence[Fault]) -> Iterator[str]:
    """Names of the faults whose rules apply to a call of the model, on some kind of input.

    One report holds all faults that are silent, one all that are refused, for a ragged input or one token alone: they
    are told apart by what it says of each.
    """
    import torch

    import sim_backend

    seen = [f for f in faults if not UNSEEN & f.conditions]
    loud = [f for f in seen if not f.conditions and f.name not in LIMITS]
    silent, limits = [f for f in seen if f.conditions], [[f] for f in seen if f.name in LIMITS]
    groups = {"ragged": [silent, loud, *limits], "single": [silent, loud]}
    inputs = inputs_of(embedder.model)
    for variant in VARIANTS:
        for group in filter(None, groups[variant]):
            report = sim_backend.capability(embedder, inputs[variant], profile_of(group), dtype=torch.float16).to_dict()
            found = [*report["failures"], *report["predicted"]]
            yield from (f.name for f in group if any(_is_of(entry, f) for entry in found))


def _is_of(entry: dict[str, Any], fault: Fault) -> bool:
    if fault.random is not None:
        return fault.random.key in entry["message"]
    return fault.name in LIMITS or fault.name in (entry["predicted"], entry["erratum"])


def inputs_of(model: Any) -> dict[str, dict[str, Any]]:
    """The kinds of input that the diagnosis tries."""
    from adapters.limits import longest_input
    from pipeline.execution.diagnose_run import input_variants, rare_variants

    return {**input_variants(model.config, longest_input(model)), **rare_variants(model)}


def truth_of(reports: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """What the simulator knows: every operation that is refused or known to come out wrong, each once."""
    found = {(f["op"], f["kind"], f["place"]) for r in reports for group in ("failures", "predicted") for f in r[group]}
    return [{"op": op, "kind": kind, "place": place} for op, kind, place in sorted(found) if kind != "cpu_fallback"]


def main(names: Sequence[str]) -> None:
    """Print what triggers in the named models, or in all."""
    for model in names or models():
        sys.stdout.write(f"{model} {json.dumps(triggered(model))}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
