"""The diagnosis child: all causes of one stock checkpoint on the device, silent ones included.

`python -m pipeline.execution.diagnose_run SPEC.json OUT.json`. SPEC: a stage SPEC with `weights_dir`, the folder the
weights are loaded from, `reproducers` (true: a script per cause) and `reproducers_s` (seconds of the processor they may
take, null for no limit). OUT: `diagnoses` (a list of `dataclasses.asdict(Diagnosis)`), `predicted`, `fingerprint`,
`curves` (error per layer, by kind of input), `unsearched` (where the device refuses what the search had to run),
`seconds`.

The causes that raise come from the capability report. The silent ones need a model that runs, so the patterns that
cure the first kind are applied on the CPU before the search takes its values.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from agents.types import Diagnosis
from pipeline.diagnosis.facts import model_facts
from pipeline.diagnosis.patterns import STICK
from pipeline.diagnosis.reproducer.script import Setting
from pipeline.diagnosis.service import (
    diagnose_findings,
    diagnose_reports,
    predictions_of,
)
from pipeline.diagnosis.wrong_values.search import Search, silent_causes
from pipeline.execution import reproduce
from pipeline.execution.capture import BATCH, LENGTH, longest, probe_inputs, rare_reports, stock_reports
from pipeline.execution.embedder import StockEmbedder
from pipeline.execution.models import load_weights
from pipeline.execution.subject import Subject, subject_from_spec
from pipeline.inspection import inspect_checkpoint


def diagnose(
    subject: Subject, weights: Path, *, reproducers: bool = False, budget_s: float | None = None
) -> dict[str, Any]:
    """Every cause with the patterns that could apply. Starts the device in this process."""
    reports, model = stock_reports(subject), load_weights(weights)
    reports += rare_reports(subject)
    inspection = inspect_checkpoint(subject.folder)
    embedder = StockEmbedder(model, inspection.chain.pooling[0], inspection.chain.normalize)
    setting = Setting(subject.model, subject.profile) if reproducers else None
    return causes(embedder, reports, setting, budget_s)


def causes(
    embedder: StockEmbedder,
    reports: list[dict[str, Any]],
    setting: Setting | None = None,
    budget_s: float | None = None,
) -> dict[str, Any]:
    """The same from capability reports and a stock model on the CPU; the device runs in this process already.

    With a `setting`, each diagnosis has the entry `reproducer` in its evidence; its script has not been run yet.
    Scripts are made for `budget_s` seconds of the processor at most, None for all of them.
    """
    started = time.monotonic()
    model: Any = embedder.model
    facts = model_facts(model)
    raised = diagnose_reports(reports, facts)
    search = search_cured(model, raised)
    silent = diagnose_findings(search.findings, facts)
    if setting is not None:
        failures = [d.failure for d in raised]
        programs = reproduce.LoudPrograms(model, embedder, probe_inputs(model.config), failures)
        makers = reproduce.loud(raised, programs, setting) + reproduce.silent(search.findings, setting)
        reproduce.attach([*raised, *silent], makers, budget_s)
    return {
        "diagnoses": [asdict(d) for d in [*raised, *silent]],
        "predicted": predictions_of(reports),
        "fingerprint": reports[0]["fingerprint"],
        "curves": search.curves,
        "unsearched": [entry._asdict() for entry in search.unsearched],
        "seconds": round(time.monotonic() - started, 3),
    }


def search_cured(model: Any, raised: list[Diagnosis]) -> Search:
    """What the device gets wrong without an error, found by values, in the model with the loud causes cured."""
    import adapters
    from adapters.limits import longest_input
    from adapters.structure import find_blocks

    with adapters.adapt(model, patches=cures(raised), device="cpu", dtype=torch.float32, compile=False):
        blocks = [(b.path, b.module) for b in find_blocks(model)]
        usual = input_variants(model.config, longest_input(model))
        return silent_causes(model, blocks, usual, rare_variants(model), dtype=search_dtype(raised))


def search_dtype(diagnoses: list[Diagnosis]) -> torch.dtype:
    """The 16-bit dtype that the loud causes ask for: code that only float16 runs into would be refused again."""
    asked = {u.parameters.get("dtype") for d in diagnoses for u in d.patterns if u.pattern == "P56"}
    return torch.bfloat16 if "bfloat16" in asked else torch.float16


CURES_ON_CPU = frozenset(
    {"P06", "P08", "P14", "P18", "P20", "P21", "P22", "P23", "P27", "P28", "P32", "P40", "P45", "P47", "P48",
     "P49", "P50", "P51", "P52", "P66", "P96", "P97"}
)  # fmt: skip
"""Patterns that change what a block computes with; the others act on placement, dtype or layout only."""


def cures(diagnoses: list[Diagnosis]) -> list[Mapping[str, Any]]:
    """The distinct patches of the diagnoses that the search's CPU model needs, in the order in which they are applied
    (a fused projection is split before its heads are padded)."""
    from adapters.patches.registry import class_of, in_order

    uses = {u.pattern: dict(u.parameters) for d in diagnoses for u in d.patterns if u.pattern in CURES_ON_CPU}
    needed: dict[str, dict[str, Any]] = {pattern: {} for own in uses for pattern in class_of(own).needs}
    return in_order({"pattern": p, "parameters": parameters} for p, parameters in {**needed, **uses}.items())


def input_variants(config: Any, most: int | None = None) -> dict[str, dict[str, torch.Tensor]]:
    """Kinds of input a defect may depend on: whole sticks with padding, a ragged length, one row without padding.

    `most` is the number of tokens that the model has learned positions for, None if there is no such number.
    """
    vocabulary = config.get_text_config().vocab_size
    return {
        "whole": random_inputs(vocabulary, BATCH, whole_sticks(most), padding="right"),
        "ragged": random_inputs(vocabulary, BATCH, LENGTH, padding="right"),
        "alone": random_inputs(vocabulary, 1, STICK),
    }


def whole_sticks(most: int | None) -> int:
    """Tokens of a text of whole sticks: two, or one where the model has positions for no more."""
    return STICK if most is not None and most < 2 * STICK else 2 * STICK


def rare_variants(model: Any) -> dict[str, dict[str, torch.Tensor]]:
    """Kinds of input that reach branches which the usual ones do not: padding on the left, a text as long as it may be
    (windows, chunks), one token alone."""
    from adapters.limits import longest_input

    vocabulary = model.config.get_text_config().vocab_size
    return {
        "left": random_inputs(vocabulary, BATCH, whole_sticks(longest_input(model)), padding="left"),
        "long": random_inputs(vocabulary, 1, longest(model)),
        "single": random_inputs(vocabulary, 1, 1),
    }


def random_inputs(vocabulary: int, batch: int, length: int, *, padding: str = "") -> dict[str, torch.Tensor]:
    """Random ids [batch, length], int64; `padding` ("left" or "right"): where a part of the last row is padding."""
    ids = torch.randint(1, vocabulary, (batch, length), generator=torch.Generator().manual_seed(length))
    mask = torch.ones(batch, length, dtype=torch.int64)
    part = {"": slice(0, 0), "right": slice(length - -(-length // 4), None), "left": slice(0, 5 * length // 8)}[padding]
    mask[-1, part] = 0
    return {"input_ids": ids, "attention_mask": mask}


def main() -> None:
    """Read SPEC, diagnose, write OUT."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    scripts, budget = bool(spec.get("reproducers")), spec.get("reproducers_s")
    answer = diagnose(subject_from_spec(spec), Path(spec["weights_dir"]), reproducers=scripts, budget_s=budget)
    Path(sys.argv[2]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
