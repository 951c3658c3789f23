"""Execution of one checkpoint: CPU reference here, device in a child of its own, measures and verdict by the gate.

Runs in a stage child without the device (`TORCH_DEVICE_BACKEND_AUTOLOAD=0`): reference, controls and the patched CPU
run come from this process, device outputs from `pipeline.execution.device_run`. A candidate is run from documents that
were captured elsewhere (`pipeline.execution.documents`); a released adapter is applied as it ships. Hidden seeds come
with the SPEC of a candidate, drawn after its digest was stored; where nothing is stored first they are drawn here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from agents.errors import CandidateRefused
from agents.types import Failure, canonical
from pipeline.diagnosis.classify import Raised, classify, is_ours
from pipeline.errors import CheckpointProblem, EnvironmentProblem
from pipeline.execution.beside import Clock, Done, Meanwhile, beside, nothing
from pipeline.execution.children import call_device_child
from pipeline.execution.device_run import write_batches
from pipeline.execution.documents import Captured, capture_candidate, cpu_outputs, judge_each, judge_set
from pipeline.execution.heap import give_back
from pipeline.execution.release_parts import counted_lengths, dtype_of, release_parts
from pipeline.execution.standby import Standbys
from pipeline.execution.stock_side import StockSide
from pipeline.execution.subject import Subject
from pipeline.execution.weights import LARGEST_EXECUTED, Prepared, prepare
from pipeline.inspection import Inspection, inspect_checkpoint
from pipeline.verification import compare
from pipeline.verification.equivalence.elementwise import claims_of, judge_document
from pipeline.verification.evidence import evidence_document, leave_evidence, summary_of
from pipeline.verification.gate import judge, pooled_error_ratio
from pipeline.verification.ideal import Conversion
from pipeline.verification.measurements import (
    WORST_DRAW,
    CaseMeasurement,
    Equivalence,
    EquivalenceResult,
    ExecutionProof,
    Measurements,
    Place,
    Weights,
)
from pipeline.verification.parts import counts_padding, is_causal
from pipeline.verification.policy import current_policy
from pipeline.verification.probes import RANKED, ProbeBatch, alone_batches, probe_batches, texts_missing
from pipeline.verification.replay import DocumentRefused
from pipeline.verification.seeds import HiddenSeeds, draw_hidden_seeds
from pipeline.verification.verdict import Outcome
from pipeline.work.environment import environment_of
from pipeline.work.forked import Standby

FULL = "full"
STOCK_DIGEST = "0" * 64
"""Stands for "no candidate": the stock model under measurement."""


@dataclass(frozen=True)
class Plan:
    """What one execution runs: the probes, the texts each runs alone, the pairs to rank, and the seeds behind them."""

    seeds: HiddenSeeds
    probes: list[ProbeBatch]
    alone: list[list[ProbeBatch]]
    ranked: list[ProbeBatch]

    @property
    def batches(self) -> list[dict[str, torch.Tensor]]:
        """Every batch the device runs: the probes, then the single texts, then the pairs, in order."""
        return [p.inputs for p in [*self.probes, *(a for group in self.alone for a in group), *self.ranked]]


def execute(subject: Subject, standbys: Standbys | None = None) -> dict[str, Any]:
    """Run, measure and judge. Returns the stage's OUT document; model and device faults are results, ours raise.

    What the CPU says of the stock model is worked out beside the children that capture the candidate and run it;
    `standbys` are children that wait for that, else they are started.
    """
    started, clock = time.monotonic(), Clock()
    with clock.stage("loading"):
        inspection = inspect_checkpoint(subject.folder)
        prepared = prepare(subject, brief=subject.tier != FULL, largest=LARGEST_EXECUTED)
        plan = make_plan(subject, inspection, prepared)
    run = Execution(subject, inspection, prepared, plan, clock, standbys or Standbys())
    out = {"weights": subject.weights_word, "depth": prepared.depth, "recipe": prepared.recipe, **run.outcome()}
    return {**out, "seconds": round(time.monotonic() - started, 3), "cpu_seconds": clock.to_dict()}


class Execution:
    """One execution in its order, what is cheap first. A candidate of other mathematics is run no further."""

    def __init__(
        self,
        subject: Subject,
        inspection: Inspection,
        prepared: Prepared,
        plan: Plan,
        clock: Clock,
        standbys: Standbys,
    ) -> None:
        self._standbys = standbys
        self._judged: list[Equivalence] = []
        self._subject, self._inspection, self._prepared, self._plan = subject, inspection, prepared, plan
        self._clock = clock
        self._stock = StockSide(
            prepared.model,
            plan.probes,
            plan.ranked,
            inspection.chain.pooling[0],
            conversion(subject.profile),
            clock,
        )

    def outcome(self) -> dict[str, Any]:
        """What OUT says of the candidate, the adapter or the stock model."""
        with self._clock.stage("equivalence"):
            self._judged = list(equivalences(self._subject, self._prepared.model, self._plan.seeds.seeds[0]))
        if is_something_else(self._judged):
            return self._ended_early(None)
        captured = None
        if self._subject.candidate is not None:
            try:
                with self._clock.child("capture child"):
                    captured = capture_for(
                        self._subject, self._prepared, self._plan, self._stock.until, self._standbys.capture
                    )
            except (CandidateRefused, DocumentRefused) as refusal:
                return refused_as_document(refusal)
        on_cpu = self._patched_later(captured)
        answer = self._on_device(captured)
        if answer is None:
            return self._ended_early(captured)
        if answer["error"] is not None:
            return refused(answer["error"])
        self._stock.finish()
        with self._clock.stage("measuring"):
            measured = measure(
                self._subject,
                self._inspection,
                self._prepared,
                self._plan,
                answer,
                tuple(self._judged),
                self._stock,
                on_cpu,
                captured,
            )
            return conclude(self._subject, self._plan, self._prepared, measured, captured)

    def _on_device(self, captured: Captured | None) -> dict[str, Any] | None:
        """The device child's answer; the documents' mathematics is judged beside it. None, and the child is ended, if
        that is another one: then what the device said counts for nothing."""

        def meanwhile(done: Done) -> None:
            if captured is not None:
                with self._clock.stage("equivalence"):
                    self._judged += equivalences_of_set(self._subject, self._prepared, self._plan, captured)
                    give_back()
            if not is_something_else(self._judged):
                return self._stock.until(done)
            if self._standbys.device is not None:
                self._standbys.device.abort()
            return None

        try:
            with self._clock.child("device child"):
                answer = run_on_device(
                    self._subject, self._prepared, self._plan, captured, meanwhile, self._standbys.device
                )
        except (CheckpointProblem, EnvironmentProblem):
            if is_something_else(self._judged):
                return None
            raise
        return None if is_something_else(self._judged) else answer

    def _ended_early(self, captured: Captured | None) -> dict[str, Any]:
        return ended_early(self._subject, self._plan, self._prepared, tuple(self._judged), captured)

    def _patched_later(self, captured: Captured | None) -> list[list[torch.Tensor]]:
        """Where the patched CPU outputs will be, all probes at once; the full tier has them."""
        made: list[list[torch.Tensor]] = []
        if self._subject.tier == FULL and self._subject.patches is not None:
            run = partial(patched_outputs, self._subject, self._prepared, self._plan, captured)
            self._stock.add("patched model on the CPU", run, made)
        return made


def is_something_else(judged: Sequence[Equivalence]) -> bool:
    """Whether one of the answers is that a patch is not the mathematics it replaces."""
    return any(e.result is EquivalenceResult.NOT_EQUIVALENT for e in judged)


def make_plan(subject: Subject, inspection: Inspection, prepared: Prepared) -> Plan:
    """The probes of the tier from the hidden seeds; the full tier runs texts alone as well.

    Alone are those of the first batch whose padding does not move the stock model's positions.

    Raises ValueError if the seeds in the SPEC were drawn for something else.
    """
    full, digest = subject.tier == FULL, candidate_digest(subject)
    seeds = subject.seeds or draw_hidden_seeds(digest, current_policy().tiers[subject.tier].draws)
    if seeds.candidate_digest != digest:
        raise ValueError(f"seeds were drawn for {seeds.candidate_digest!r}, not for {digest!r}")
    causal = is_causal(prepared.model)
    every = [
        probe
        for draw, seed in enumerate(seeds.seeds)
        for probe in probe_batches(
            prepared.model.config,
            prepared.tokenizer,
            seed,
            draw=draw,
            tier=subject.tier,
            causal=causal,
            max_length=inspection.chain.max_seq_length,
        )
    ]
    probes = [p for p in every if p.purpose != RANKED]
    ranked = [p for p in every if p.purpose == RANKED and subject.has_weights]
    sides = {"right"} if full and causal and counts_padding(prepared.model) else {"left", "right"}
    cases = (i for i, p in enumerate(probes) if p.purpose == "case" and len(p.lengths) > 1 and p.side in sides)
    first_case = next(cases, None)
    alone = [alone_batches(p) if full and i == first_case else [] for i, p in enumerate(probes)]
    return Plan(seeds, probes, alone, ranked)


def candidate_digest(subject: Subject) -> str:
    """The digest of what is being judged: candidate, released adapter, or the stock model."""
    import hashlib

    if subject.candidate is not None:
        return str(subject.candidate["digest"])
    if subject.adapter is not None:
        return hashlib.sha256(canonical(subject.adapter)).hexdigest()
    return STOCK_DIGEST


def ended_early(
    subject: Subject, plan: Plan, prepared: Prepared, judged: tuple[Equivalence, ...], captured: Captured | None
) -> dict[str, Any]:
    """OUT where the mathematics is another one: no model runs for that."""
    notes = captured.notes() if captured is not None else {}
    measured = Measurements(Weights(subject.weights_word), equivalence=judged, depth=prepared.depth, notes=notes)
    return conclude(subject, plan, prepared, measured)


def equivalences_of_set(subject: Subject, prepared: Prepared, plan: Plan, captured: Captured) -> Iterator[Equivalence]:
    """Each patch of structure or code, then the whole set, from the documents."""
    patches = subject.patches or []
    yield from judge_each(captured, prepared.model, patches, plan.seeds.seeds[0] % (1 << 31))
    yield judge_set(captured, plan.batches[0], patches)
    captured.constants.clear()


def capture_for(
    subject: Subject, prepared: Prepared, plan: Plan, meanwhile: Meanwhile = nothing, standby: Standby | None = None
) -> Captured:
    """The candidate as documents for every batch of the plan. Raises CandidateRefused or DocumentRefused."""
    dtype, patches = dtype_that_runs(subject), subject.patches or []
    seed = plan.seeds.seeds[0] % (1 << 31)
    return capture_candidate(prepared.folder, prepared.model, patches, dtype, plan.batches, seed, meanwhile, standby)


def refused_as_document(refusal: Exception) -> dict[str, Any]:
    """OUT of a candidate that cannot be captured or whose document breaks a rule: nothing of it has run here."""
    return {"outcome": "failed", "reason": f"refused before it ran: {refusal}", "failures": [], "executed": False}


def run_on_device(
    subject: Subject,
    prepared: Prepared,
    plan: Plan,
    captured: Captured | None,
    meanwhile: Meanwhile = nothing,
    standby: Standby | None = None,
) -> dict[str, Any]:
    """The device child's answer, with its outputs as tensors under "outputs". Candidates are run from documents."""
    batches, outputs = subject.workdir / "batches.safetensors", subject.workdir / "outputs.safetensors"
    write_batches(batches, plan.batches)
    spec = {
        "folder": str(prepared.folder),
        "profile": subject.profile,
        "device": subject.device,
        "patches": subject.patches if captured is None else None,
        **documents_for_child(captured, plan, subject.workdir),
        "batches": str(batches),
        "outputs": str(outputs),
    }
    child = partial(call_device_child, "pipeline.execution.device_run", spec, subject.workdir, standby)
    answer = beside(child, meanwhile)
    tensors = load_file(outputs)
    return {**answer, "outputs": [tensors[str(i)] for i in range(answer["executed"])]}


def documents_for_child(captured: Captured | None, plan: Plan, workdir: Path) -> dict[str, Any]:
    """The SPEC keys of a candidate: its documents, and which of them is for which batch; None if they are a set."""
    if captured is None:
        return {}
    path = workdir / "documents.json"
    path.write_text(json.dumps(captured.documents))
    numbers = None if captured.is_set else [captured.number_for(b) for b in plan.batches]
    return {"documents": str(path), "document_of": numbers}


def refused(error: dict[str, str]) -> dict[str, Any]:
    """OUT of a run that the device ended with an error. Raises EnvironmentProblem for a fault of the installation."""
    raised = Raised(error["type"], error["frame"], error["message"])
    if is_ours(raised):
        raise EnvironmentProblem(f"{raised.type}: {raised.message}")
    kind = classify(raised)
    failure = Failure(kind, op="", source=error["frame"].rsplit("/", 1)[-1], module="", message=error["message"])
    reason = f"{error['type']}: {error['message'].splitlines()[0][:300] if error['message'] else ''}"
    return {"outcome": "failed", "reason": reason, "failures": [asdict(failure)], "executed": True}


def measure(
    subject: Subject,
    inspection: Inspection,
    prepared: Prepared,
    plan: Plan,
    answer: dict[str, Any],
    judged: tuple[Equivalence, ...],
    stock_side: StockSide,
    on_cpu: list[list[torch.Tensor]],
    captured: Captured | None = None,
) -> Measurements:
    """Everything the gate needs, from the outputs of the device child and from CPU runs here."""
    pooling, stocks = inspection.chain.pooling[0], stock_side.stocks
    outputs = iter(answer["outputs"])
    device = [next(outputs) for _ in plan.probes]
    alone = [[next(outputs) for _ in group] for group in plan.alone]
    cases = [
        compare.measure_case(probe, out, stock, pooling, Place.DEVICE, single or None)
        for probe, out, stock, single in zip(plan.probes, device, stocks, alone, strict=True)
    ]
    pairs = zip(plan.ranked, stock_side.references, strict=True)
    ranked = compare.ranking([(next(outputs), reference, p.mask) for p, reference in pairs], pooling)
    for patched in on_cpu:
        cases.extend(patched_cpu_cases(patched, plan, stocks, pooling))
    return Measurements(
        weights=Weights(subject.weights_word),
        cases=tuple(cases),
        execution=ExecutionProof(answer["fallbacks"], (), answer["blocks"]),
        equivalence=judged,
        patches=len(documents_of(subject)) if captured is None else len(subject.patches or []) + 1,
        spearman=ranked.spearman if ranked else None,
        spearman_pairs=ranked.pairs if ranked else 0,
        needs_left_padding=is_causal(prepared.model),
        depth=prepared.depth,
        dtype=dtype_that_runs(subject),
        family=str(getattr(prepared.model.config, "model_type", "")),
        without_text=texts_missing(prepared.tokenizer),
        notes=captured.notes() if captured is not None else {},
    )


def dtype_that_runs(subject: Subject) -> str:
    """The dtype the device runs."""
    return dtype_of(subject.patches)


def conversion(profile: str) -> Conversion:
    """How weights reach the device under a profile: from fp16 host values, cut as the profile's converter cuts them."""
    from sim_backend.profiles import load_profile

    return Conversion(torch.float16, load_profile(profile).h2d_rounding)


def patched_outputs(subject: Subject, prepared: Prepared, plan: Plan, captured: Captured | None) -> list[torch.Tensor]:
    """The patched model on the CPU in fp32 on every probe: a candidate from its documents, an adapter as it ships."""
    import adapters

    if captured is not None:
        return cpu_outputs(captured, [probe.inputs for probe in plan.probes])

    patches = [p for p in subject.patches or [] if p["pattern"] != "P56"]
    with (
        adapters.adapt(prepared.model, patches=patches, device="cpu", dtype=torch.float32, compile=False),
        torch.no_grad(),
    ):
        return [prepared.model(**probe.inputs).last_hidden_state for probe in plan.probes]


def patched_cpu_cases(
    outputs: list[torch.Tensor], plan: Plan, stocks: list[Any], pooling: str
) -> Iterator[CaseMeasurement]:
    """The patched model's CPU outputs against the stock reference."""
    for probe, output, stock in zip(plan.probes, outputs, stocks, strict=True):
        yield compare.measure_case(probe, output, stock, pooling, Place.CPU)


def equivalences(subject: Subject, model: Any, seed: int) -> Iterator[Equivalence]:
    """Whether each drafted document is the mathematics of the stock module it replaces. Runs no model."""
    from adapters.document import validate

    documents = documents_of(subject)
    for claim, patch in zip(claims_of(documents), documents, strict=True):
        parameters = patch["parameters"]
        stock = next(m for m in model.modules() if qualified_name(m) == parameters["module_class"])
        yield judge_document(claim, stock, validate(parameters["document"]), seed)


def documents_of(subject: Subject) -> list[dict[str, Any]]:
    """The patches that carry a drafted document."""
    return [patch for patch in subject.patches or [] if "document" in patch["parameters"]]


def qualified_name(module: Any) -> str:
    """Python module and class of an object."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def conclude(
    subject: Subject, plan: Plan, prepared: Prepared, measured: Measurements, captured: Captured | None = None
) -> dict[str, Any]:
    """Judge, and bind the measurements to candidate, checkpoint, environment and seeds in one evidence document."""
    verdict = judge(measured, subject.tier)
    evidence = evidence_document(
        candidate=candidate_digest(subject),
        checkpoint=checkpoint_facts(subject),
        environment=environment_of(subject.profile),
        seeds=plan.seeds,
        recipe=prepared.recipe,
        measurements=measured,
        verdict=verdict,
        replay={**subject.spec, "numerics": numerics()},
    )
    artefact = leave_evidence(evidence, subject.workdir)
    kept = summary_of(evidence)
    if subject.candidate is not None:
        lengths = counted_lengths(plan.probes, verdict)
        documents = captured.documents if captured is not None and captured.is_set else ()
        parts = release_parts(prepared.model, subject.patches or [], lengths, documents)
        complete = verdict.outcome is Outcome.PASSED and parts is not None
        kept = {**kept, "complete": complete, "capture": measured.notes, **({"manifest": parts} if parts else {})}
    return {
        "outcome": str(verdict.outcome),
        "reason": verdict.sentence,
        "failures": [],
        "measurements": headline(measured),
        "evidence": kept,
        "artefacts": [artefact],
        "executed": True,
    }


def numerics() -> dict[str, Any]:
    """What may move the last bits of a figure: threads and instruction set of this process."""
    return {"threads": torch.get_num_threads(), "capability": torch.backends.cpu.get_cpu_capability().lower()}


def checkpoint_facts(subject: Subject) -> dict[str, Any]:
    """What the evidence says about the checkpoint."""
    inspection = inspect_checkpoint(subject.folder)
    return {
        "model": subject.model,
        "revision": subject.revision,
        "config_digest": inspection.config_digest,
        "dtype": inspection.dtype,
        "pooling": list(inspection.chain.pooling),
        "weights": subject.weights_word,
    }


def headline(measured: Measurements) -> dict[str, Any]:
    """The few figures that lists show: lowest token and pooled cosine on the device, fallbacks, cases, and the error
    over that of the yardstick in the draw that had most of it."""
    device = [c for c in measured.cases if c.place is Place.DEVICE]
    draws = {c.draw: [d for d in device if d.draw == c.draw] for c in device}
    return {
        "worst_token_cosine": min((c.lowest_token_cosine for c in device), default=None),
        "pooled_cosine": min((c.pooled_cosine for c in device), default=None),
        "fallbacks": measured.execution.fallbacks if measured.execution else {},
        "cases": len(measured.cases),
        WORST_DRAW: max((r for cases in draws.values() if (r := pooled_error_ratio(cases)) is not None), default=None),
    }
