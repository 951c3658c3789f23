"""A database as a year of service leaves it: many models with verdicts, failures, diagnoses, candidates and adapters.

Everything is drawn from a fixed seed and inserted in bulk. It stands for size only: no figure in it is a measurement,
so the database is marked as a demonstration. Used by benchmarks and by tests of the pages at full size.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from pipeline.database.facts import mark_demo
from pipeline.releases.models import Adapter
from pipeline.review.models import CandidateCheckpoint, CandidateRow, EvidenceRow, PatchRow
from pipeline.sweeps.models import (
    CatalogueEntry,
    CatalogueSnapshot,
    Checkpoint,
    CheckpointStatus,
    Model,
    Sweep,
    SweepRun,
)
from pipeline.work.environment import environment_digest
from pipeline.work.models import DiagnosisRow, FailureRow, Run

PROFILE = "profile-2026-08"
MODELS = 10_000
FAMILIES = (
    "bert", "roberta", "xlm-roberta", "mpnet", "distilbert", "albert", "electra", "modernbert", "nomic_bert", "gte",
    "qwen2", "qwen3", "llama", "mistral", "gemma3_text", "t5", "mt5", "bloom", "gpt_neox", "phi3", "esm", "deberta-v2",
    "eurobert", "xmod", "roformer", "camembert", "jina_bert", "longformer", "convbert", "flaubert",
)  # fmt: skip
OPS = tuple(f"aten.{name}.default" for name in (
    "pow", "view", "clamp", "bitwise_and", "cumsum", "gelu", "tanh", "erf", "index_select", "softmax", "layer_norm",
    "rms_norm", "rsqrt", "sigmoid", "silu", "where", "masked_fill", "embedding", "gather", "einsum",
))  # fmt: skip
KINDS = ("unsupported_op", "unsupported_dtype", "layout", "wrong_values", "graph_break")
OUTCOMES = ("passed", "failed", "not_run", "unknown", "infra", "dropped")
SHARES = (35, 42, 8, 4, 2, 9)
"""In percent, in the order of OUTCOMES."""
DAYS = 90
CANDIDATES, ADAPTERS = 40, 60
BEGAN = datetime(2026, 8, 1, 6, tzinfo=UTC)
LONGEST_NAME = "sentence-transformers/distiluse-base-multilingual-cased-v2-finetuned-stsb-multi-mt-german-extended"


def fill(session: Session, models: int = MODELS, *, seed: int = 8) -> int:
    """Fill an empty migrated database; the number of its newest sweep, which is still running."""
    mark_demo(session, "a database for benchmarks, its figures are drawn")
    _bulk(session, Adapter, _adapters())
    plan = list(_plan(random.Random(seed), models))  # noqa: S311 - nothing secret is drawn
    for table, rows in _tables(plan).items():
        _bulk(session, table, rows)
    session.flush()
    return 2


def _bulk(session: Session, table: Any, rows: Iterable[dict[str, Any]], size: int = 2_000) -> None:
    found = list(rows)
    for first in range(0, len(found), size):
        session.execute(insert(table), found[first : first + size])


def _plan(draw: random.Random, models: int) -> Iterator[dict[str, Any]]:
    """One row per model: its number, family, outcome, causes and when it was decided."""
    for number in range(1, models + 1):
        family = FAMILIES[min(int(draw.expovariate(0.18)), len(FAMILIES) - 1)]
        causes = draw.sample(range(len(OPS)), k=draw.choice((1, 1, 2, 2, 3, 4)))
        name = LONGEST_NAME if number == 7 else f"org-{draw.randrange(900)}/{family}-embedder-{number}"
        yield {
            "number": number,
            "name": name,
            "family": f"{family}-{_digest(family)[:12]}",
            "downloads": int(2e8 / number**1.1) + 1,
            "outcome": draw.choices(OUTCOMES, SHARES)[0] if number > 1 else "passed",
            "weights": draw.choice(("real", "synthetic", "synthetic")),
            "causes": [(KINDS[c % len(KINDS)], OPS[c]) for c in causes],
            "adapter": draw.randrange(1, ADAPTERS + 1) if draw.random() < 0.8 else None,
            "at": BEGAN + timedelta(days=draw.random() * DAYS),
        }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _tables(plan: list[dict[str, Any]]) -> dict[Any, Iterable[dict[str, Any]]]:
    """Rows by table, in an order that foreign keys allow; models and their checkpoints share numbers."""
    runs = [row for model in plan for row in _runs(model)]
    ended = BEGAN + timedelta(days=DAYS)
    return {
        Model: [{"id": m["number"], "name": m["name"], "rank": m["number"], "downloads": m["downloads"],
                 "created_at": BEGAN if m["number"] % 50 else ended} for m in plan],
        Checkpoint: [_checkpoint(m) for m in plan],
        CatalogueSnapshot: [_snapshot(n, plan, BEGAN if n == 1 else ended) for n in (1, 2)],
        CatalogueEntry: [_entry(n, m) for n in (1, 2) for m in plan if (m["number"] + n) % 50],
        Sweep: [_sweep(1, "done", BEGAN, ended), _sweep(2, "running", ended, None)],
        Run: runs,
        SweepRun: [{"sweep_id": 1 + (r["id"] % 4 == 0), "run_id": r["id"], "fresh": True} for r in runs],
        FailureRow: [row for m in plan for row in _failures(m)],
        DiagnosisRow: [row for m in plan for row in _diagnoses(m)],
        CheckpointStatus: [_status(m) for m in plan if _is_run(m)],
        **_candidates(plan),
    }  # fmt: skip


def _is_run(model: dict[str, Any]) -> bool:
    return model["outcome"] not in ("not_run", "dropped")


def _checkpoint(m: dict[str, Any]) -> dict[str, Any]:
    digest = _digest(m["name"])
    return {"id": m["number"], "model_id": m["number"], "revision": digest[:40], "family": m["family"],
            "config_digest": digest, "config": {"model_type": m["family"].split("-")[0], "hidden_size": 768},
            "facts": {}, "created_at": BEGAN}  # fmt: skip


def _snapshot(number: int, plan: list[dict[str, Any]], at: datetime) -> dict[str, Any]:
    dropped = sum(m["outcome"] == "dropped" for m in plan)
    return {"id": number, "source": f"hub {number}", "digest": _digest(f"snapshot {number}"), "listed": len(plan),
            "dropped": dropped, "taken_at": at}  # fmt: skip


def _entry(snapshot: int, m: dict[str, Any]) -> dict[str, Any]:
    dropped = m["outcome"] == "dropped"
    return {"snapshot_id": snapshot, "model_id": m["number"], "checkpoint_id": None if dropped else m["number"],
            "position": m["number"], "rank": max(m["number"] - (3 if snapshot == 1 and m["number"] % 9 == 0 else 0), 1),
            "downloads": m["downloads"], "dropped_kind": "remote_code" if dropped else None,
            "dropped_reason": "The model needs its own code." if dropped else None}  # fmt: skip


def _sweep(number: int, state: str, began: datetime, ended: datetime | None) -> dict[str, Any]:
    return {"id": number, "snapshot_id": number, "profile": PROFILE, "weights_mode": "auto",
            "releases_mode": "bundled", "tier": "sweep", "environment": environment_digest(PROFILE), "state": state,
            "created_at": began, "finished_at": ended}  # fmt: skip


STAGES = {
    "passed": ("inspect", "capture", "execute"),
    "failed": ("inspect", "capture", "diagnose"),
    "unknown": ("inspect", "capture", "execute"),
    "infra": ("inspect", "capture"),
}
RUN_OF_STAGE = {"inspect": 1, "capture": 2, "execute": 3, "diagnose": 4}
WAITING_SHARE = 40
"""Every so-many-th model has a run that is still queued."""


def _run_id(m: dict[str, Any], stage: str) -> int:
    return int(m["number"] * 5 + RUN_OF_STAGE[stage])


def _runs(m: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for stage in STAGES.get(m["outcome"], ("inspect",)):
        last = stage == STAGES.get(m["outcome"], ("inspect",))[-1]
        queued = not _is_run(m) or (m["number"] % WAITING_SHARE == 0 and last and m["outcome"] == "infra")
        yield {
            "id": _run_id(m, stage), "stage": stage, "content_key": _digest(f"{m['number']} {stage}"),
            "checkpoint_id": m["number"], "profile": PROFILE, "weights_mode": "auto", "tier": "sweep",
            "environment": environment_digest(PROFILE), "state": "queued" if queued else "done",
            "outcome": None if queued else _outcome(m, stage), "created_at": m["at"],
            "adapter_id": m["adapter"] if stage == "execute" else None,
            "fingerprint": _digest(m["family"]) if stage == "capture" else None, "downloads": m["downloads"],
            "weights": m["weights"] if stage == "execute" else None,
            "seconds": None if queued else 0.3 + (m["number"] % 70) / 10, "measurements": _measured(m, stage),
            "reason": _counted(m["causes"]) if m["outcome"] == "failed" and stage == "capture" else "",
            "finished_at": None if queued else m["at"] + timedelta(minutes=RUN_OF_STAGE[stage]),
        }  # fmt: skip


def _counted(causes: list[Any]) -> str:
    return f"{len(causes)} cause{'s' if len(causes) != 1 else ''}"


def _outcome(m: dict[str, Any], stage: str) -> str:
    decides = {"passed": "execute", "failed": "capture", "unknown": "execute", "infra": "capture"}[m["outcome"]]
    return str(m["outcome"]) if stage == decides else "passed"


def _measured(m: dict[str, Any], stage: str) -> dict[str, Any]:
    return {"worst_token_cosine": 0.999 + (m["number"] % 9) / 1e4} if stage == "execute" else {}


def _failures(m: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if m["outcome"] != "failed":
        return
    for stage in ("capture", "diagnose"):
        for kind, op in m["causes"]:
            yield {"run_id": _run_id(m, stage), "checkpoint_id": m["number"], **_failure(kind, op), "data": {}}


def _failure(kind: str, op: str) -> dict[str, Any]:
    return {"kind": kind, "op": op, "source": "modeling_bert.py:180", "module": "encoder.layer.*", "place": "block",
            "count": 6, "message": f"Spyre backend does not support: {op}"}  # fmt: skip


def _diagnoses(m: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for kind, op in m["causes"] if m["outcome"] == "failed" else ():
        failure = {**_failure(kind, op), "layers": 1, "shapes": [], "dtypes": ["float16"], "scalars": [],
                   "dtype_run": "float16", "after": False}  # fmt: skip
        data: dict[str, Any] = {"failure": failure, "patterns": [], "evidence": {}, "no_patch": None}
        yield {"run_id": _run_id(m, "diagnose"), "checkpoint_id": m["number"], "kind": kind, "op": op, "data": data}


def _status(m: dict[str, Any]) -> dict[str, Any]:
    stage = "execute" if m["outcome"] in ("passed", "unknown") else "capture"
    passed = m["outcome"] == "passed"
    return {
        "checkpoint_id": m["number"], "profile": PROFILE, "run_id": _run_id(m, stage), "stage": stage,
        "adapter_id": m["adapter"] if passed else None, "outcome": m["outcome"], "supported": passed,
        "kind": m["causes"][0][0] if m["outcome"] == "failed" else None, "weights": m["weights"] if passed else None,
        "reason": f"{_counted(m['causes'])}: Spyre backend does not support: {m['causes'][0][1]}"
        if m["outcome"] == "failed" else "", "tier": "sweep", "fingerprint": _digest(m["family"]),
        "depth": "6 of 24" if passed and m["number"] % 13 == 0 else None, "updated_at": m["at"],
        "environment": environment_digest(PROFILE) if m["number"] % 7 else "0" * 64, "downloads": m["downloads"],
    }  # fmt: skip


def _adapters() -> list[dict[str, Any]]:
    return [
        {"id": n, "name": f"{FAMILIES[n % len(FAMILIES)]}-{n}", "version": 1 + n % 3, "state": "released",
         "origin": "bundled" if n % 2 else "service", "family": FAMILIES[n % len(FAMILIES)], "profile": PROFILE,
         "digest": _digest(f"adapter {n}"), "predicate": {}, "created_at": BEGAN + timedelta(days=n * DAYS / ADAPTERS),
         "manifest": {"patches": [{"pattern": "P20", "parameters": {}}, {"pattern": "P63", "parameters": {}}]}}
        for n in range(1, ADAPTERS + 1)
    ]  # fmt: skip


def _candidates(plan: list[dict[str, Any]]) -> dict[Any, list[dict[str, Any]]]:
    """One waiting candidate for each of the first failing models, with evidence that a row can hold."""
    chosen = list(enumerate([m for m in plan if m["outcome"] == "failed"][:CANDIDATES], start=1))
    patch: dict[str, Any] = {"pattern": "P20", "parameters": {}, "drafter": "rules", "exactness": "exact",
                             "bound": None, "proof": [], "cures": [], "model": None, "trajectory": None}  # fmt: skip
    rows = [{"id": n, "digest": _digest(f"candidate {n}"), "family": m["family"], "profile": PROFILE,
             "dtype": "float16", "state": "waiting", "data": {"patches": [patch]},
             "created_at": m["at"], "updated_at": m["at"]}
            for n, m in chosen]  # fmt: skip
    evidence = [{"candidate_id": n, "checkpoint_id": m["number"], "run_id": _run_id(m, "capture"), "tier": "full",
                 "candidate_digest": _digest(f"candidate {n}"), "environment": environment_digest(PROFILE),
                 "outcome": "passed", "complete": True, "weights": "synthetic", "measurements": {}, "evidence": {},
                 "digest": _digest(f"evidence {n}"), "created_at": m["at"]} for n, m in chosen]  # fmt: skip
    return {
        CandidateRow: rows,
        PatchRow: [{"candidate_id": n, "position": 1, "pattern": "P20", "drafter": "rules", "exactness": "exact",
                    "data": patch} for n, _ in chosen],
        CandidateCheckpoint: [{"candidate_id": n, "checkpoint_id": m["number"]} for n, m in chosen],
        EvidenceRow: evidence,
    }  # fmt: skip
