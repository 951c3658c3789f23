"""The self-test: what is judged, in which order, and the rates that come out, by class.

The work is cut into batches, which two children (`children`, `worker`) judge one after the other. With a folder for its
state a run can be stopped and goes on where it was: a batch that is done is not done again under the same verifier.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agents.types import canonical
from pipeline.verification.selftest.children import Judges
from pipeline.verification.selftest.corpus import CHEATS, HONEST, QUICK, QUICK_HONEST
from pipeline.verification.selftest.entry import Cheat, Honest, Kind, Patches

BATCH = 48
WORKERS = 2
QUICK_MUTANTS, FULL_MUTANTS = 100, 400
MUTANTS_PER_BATCH = 25
OWN_SOURCES = ("pipeline/verification", "agents/capture", "agents/sandbox")
REFUSE, ACCEPT = "refuse", "accept"
MUTANTS = "mutants"
BEHIND = "behind the source rules"


@dataclass(frozen=True)
class Item:
    """One candidate of the self-test: its class, what must become of it, and how it is judged.

    `alone`: in a sandbox start of its own, for it would take others along. `whole`: by the stage of production, device
    run and gate included, as a checkpoint that declares `pooling` if there is one. `says` is what a refusal must say.
    """

    name: str
    group: str
    expected: str
    subject: str
    patches: Patches
    cases: int = 2
    with_source: bool = True
    alone: bool = False
    says: str = ""
    whole: bool = False
    pooling: str = ""


@dataclass(frozen=True)
class Batch:
    """Items judged by one child, or `mutants` mutants drawn from `seed`."""

    items: tuple[Item, ...] = ()
    mutants: int = 0
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @property
    def key(self) -> str:
        """sha256 over what is judged."""
        return hashlib.sha256(canonical(self.to_dict())).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """What became of one candidate: `equivalent` marks a mutant that is the same function under two draws."""

    name: str
    group: str
    expected: str
    accepted: bool
    stage: str
    reason: str
    equivalent: bool = False

    @property
    def right(self) -> bool:
        """True if it became what it had to, a refusal for the right reason included."""
        return self.equivalent or (self.accepted == (self.expected == ACCEPT) and self.stage != "wrong reason")


def items(full: bool) -> Iterator[Item]:
    """Everything that is judged."""
    cheats = [c for c in CHEATS if full or c.name in QUICK]
    yield from (_refused(c) for c in cheats)
    if full:
        yield from (_refused(c, behind=True) for c in cheats if _has_code(c.cheat) and not _is_whole(c))
    seen: set[tuple[str, bytes]] = set()
    for cheat in cheats:
        key = (cheat.subject, canonical(list(cheat.honest)))
        if key not in seen:
            seen.add(key)
            yield _twin(cheat, full)
    for honest in HONEST:
        if full or (honest.pattern, honest.name, honest.subject) in QUICK_HONEST:
            yield _honest(honest, full)


def _honest(honest: Honest, full: bool) -> Item:
    name, pooling = f"{honest.pattern} {honest.subject}: {honest.name}", honest.pooling
    cases, whole = _cases(honest.patches, full), bool(pooling)
    return Item(name, str(Kind.PATTERNS), ACCEPT, honest.subject, honest.patches, cases, whole=whole, pooling=pooling)


def _has_code(patches: Patches) -> bool:
    return any(p["pattern"] == "code" for p in patches)


def _cases(patches: Patches, full: bool) -> int:
    """How many cases an honest candidate is captured for; the quick run sees patterns of the library at one only."""
    return 2 if full or _has_code(patches) else 1


def _is_whole(cheat: Cheat) -> bool:
    """Everything that is cheaper than the device finds nothing wrong with it."""
    return cheat.kind is Kind.DEVICE


def _twin(cheat: Cheat, full: bool) -> Item:
    name, group, cases = f"twin of: {cheat.name}", f"twins, {cheat.kind}", _cases(cheat.honest, full)
    return Item(name, group, ACCEPT, cheat.subject, cheat.honest, cases, whole=_is_whole(cheat))


def _refused(cheat: Cheat, behind: bool = False) -> Item:
    name, group = (f"{cheat.name} ({BEHIND})", f"{cheat.kind}, {BEHIND}") if behind else (cheat.name, str(cheat.kind))
    takes_others_along = cheat.kind in (Kind.PROCESS, Kind.CHECKER) and (behind or cheat.shows == "runs into a limit")
    cases = 3 if cheat.kind is Kind.STATE else 2
    says = "" if behind else cheat.says
    return Item(
        name, group, REFUSE, cheat.subject, cheat.cheat, cases, not behind, takes_others_along, says, _is_whole(cheat)
    )


def batches(full: bool, seed: int) -> list[Batch]:
    """All work, items of one subject together (its weights are made once per child), the longest first."""
    found = [Batch((item,), seed=seed) for item in items(full) if item.alone]
    rest = sorted((i for i in items(full) if not i.alone), key=lambda i: (i.subject, i.expected))
    groups = [rest[n : n + BATCH] for n in range(0, len(rest), BATCH)]
    found = [*(Batch(tuple(g), seed=seed) for g in groups), *found]
    count = FULL_MUTANTS if full else QUICK_MUTANTS
    draws = range(0, count, MUTANTS_PER_BATCH)
    return [*found, *(Batch(mutants=MUTANTS_PER_BATCH, seed=seed + n) for n in draws)]


Progress = Callable[[int, int], None]
Judged = Callable[[Mapping[str, Any], Path], list[dict[str, Any]] | str]
"""The outcomes of a batch as plain data, or why there are none."""


def run_selftest(
    *, full: bool = False, seed: int = 0, state: Path | None = None, progress: Progress = lambda done, total: None
) -> dict[str, Any]:
    """Judge everything. Returns the report: `checks`, `passed`, `failed`, `rates` by class, `date`, `seconds`.

    `state` is a folder in which finished batches are kept and found again. A batch whose child dies or hangs fails
    all its checks: what was not judged is not right.
    """
    began = datetime.now(UTC)
    work = batches(full, seed)
    done: list[Outcome] = []
    with (
        tempfile.TemporaryDirectory(prefix="spyre-selftest-") as folder,
        ThreadPoolExecutor(WORKERS) as pool,
        Judges(WORKERS) as judges,
    ):
        kept = state if state is not None else Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        waiting = [pool.submit(outcomes_of, batch, kept, judges.judge) for batch in work]
        for count, finished in enumerate(as_completed(waiting), start=1):
            done += finished.result()
            progress(count, len(work))
    return report_of(done, full, began)


def outcomes_of(batch: Batch, folder: Path, judge: Judged) -> list[Outcome]:
    """One batch as `judge` finds it, or as it was kept."""
    kept = folder / f"{batch.key}-{verifier_digest()[:16]}.json"
    if not kept.exists():
        answer = judge(batch.to_dict(), folder)
        if isinstance(answer, str):
            return [_unjudged(item.name, item.group, item.expected, answer) for item in batch.items] or [
                _unjudged(f"mutants from seed {batch.seed}", MUTANTS, REFUSE, answer)
            ]
        partial = kept.with_suffix(f".{os.getpid()}-{batch.key[:8]}")
        partial.write_text(json.dumps(answer))
        partial.rename(kept)
    return [Outcome(**o) for o in json.loads(kept.read_text())]


def _unjudged(name: str, group: str, expected: str, why: str) -> Outcome:
    return Outcome(name, group, expected, expected == REFUSE, "not judged", why)


def verifier_digest() -> str:
    """What decides the outcomes: the sources of verifier, self-test, capture, sandbox and patches."""
    from pipeline.work.environment import environment_of, source_digest

    known = environment_of("none")
    decides = {name: known[name] for name in ("torch", "transformers", "patches", "policy")}
    decides |= {path: source_digest(path) for path in OWN_SOURCES}
    return hashlib.sha256(canonical(decides)).hexdigest()


def report_of(done: Sequence[Outcome], full: bool, began: datetime) -> dict[str, Any]:
    """The self-test's one document."""
    ordered = sorted(done, key=lambda o: (o.group, o.name))
    checks = [
        {"name": f"{o.group}: {o.name}", "passed": o.right, "detail": f"{o.stage}: {o.reason}"[:300]} for o in ordered
    ]
    failed = sum(not o.right for o in ordered)
    return {
        "date": began.isoformat(timespec="seconds"),
        "full": full,
        "seconds": round((datetime.now(UTC) - began).total_seconds(), 1),
        "rates": rates_of(ordered),
        "survivors": [asdict(o) for o in ordered if o.equivalent],
        "checks": checks,
        "passed": len(ordered) - failed,
        "failed": failed,
    }


def rates_of(done: Sequence[Outcome]) -> list[dict[str, Any]]:
    """False accepts and false rejects by class, then over all: counts and shares; None where a class has none."""
    groups = [*dict.fromkeys(o.group for o in done), None]
    return [_rate(group, [o for o in done if group in (None, o.group)]) for group in groups]


def _rate(group: str | None, found: Sequence[Outcome]) -> dict[str, Any]:
    wrong = [o for o in found if o.expected == REFUSE and not o.equivalent]
    honest = [o for o in found if o.expected == ACCEPT]
    accepted = sum(o.accepted for o in wrong)
    rejected = sum(not o.accepted for o in honest)
    return {
        "class": group or "all",
        "wrong": len(wrong),
        "false_accepts": accepted,
        "false_accept_rate": accepted / len(wrong) if wrong else None,
        "honest": len(honest),
        "false_rejects": rejected,
        "false_reject_rate": rejected / len(honest) if honest else None,
    }
