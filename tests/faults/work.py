"""Work that goes on while a fault strikes, and what must be true of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.errors import DatabaseUnavailable
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import close_finished, start_sweep, sweep_report
from pipeline.work.invariants import broken, violations
from pipeline.work.models import Run

from ..pipeline.conftest import listed, wait_until

PROFILE = "profile-2026-08"
END_S = 240.0
"""When a sweep that has not ended counts as one that never will: a busy machine takes its time, a lost run for ever."""


class Work:
    """One sweep over models of these names (`tests/pipeline/work/fake_child.py` says what becomes of them)."""

    def __init__(self, *names: str, apart: bool = False, **options: Any) -> None:
        """`apart`: each model is of a family of its own, and has a draft of its own. `options`: those of the sweep."""
        config = {"hidden_size": 64, "num_attention_heads": 2}
        families = [{"config": {**config, "model_type": f"kind{n}"}} if apart else {} for n in range(len(names))]
        entries = [listed(n, rank, **f) for rank, (n, f) in enumerate(zip(names, families, strict=True), start=1)]
        self._start(entries, options)

    @classmethod
    def over(cls, entries: Sequence[CatalogueEntry], **options: Any) -> Self:
        """A sweep over these rows."""
        work = cls.__new__(cls)
        work._start(entries, options)
        return work

    def _start(self, entries: Sequence[CatalogueEntry], options: dict[str, Any]) -> None:
        with unit_of_work() as session:
            chosen = SweepOptions(PROFILE, **options)
            self.sweep = start_sweep(session, f"test {entries[0].model_id}", entries, chosen).id

    def runs(self) -> list[Run]:
        """Its runs as they are now."""
        with reading() as session:
            return [run for run, _ in sweeps.sweep_runs(session, self.sweep)]

    def is_at(self, stage: str, state: str = "claimed") -> bool:
        """True if a run of this stage is in this state."""
        return any((run.stage, run.state) == (stage, state) for run in self.runs())

    def has_ended(self) -> bool:
        """True once nothing of it is left to do."""
        try:
            with reading() as session:
                return sweeps.count_unfinished_runs(session, self.sweep) == 0
        except DatabaseUnavailable:
            return False

    def outcomes(self) -> dict[str, str]:
        """Model to outcome."""
        with reading() as session:
            return {row["model"]: row["outcome"] for row in sweep_report(session, self.sweep)["models"]}

    def wait(self, seconds: float = END_S, supervise: Callable[[], None] | None = None) -> None:
        """Wait for its end; `supervise` is called all the while."""

        def the_sweep_has_ended() -> bool:
            if supervise is not None:
                supervise()
            return self.has_ended()

        self.until(the_sweep_has_ended, seconds)

    def until(self, claim: Callable[[], bool], seconds: float = END_S) -> None:
        """Wait until a claim holds; if it does not, say where the runs are."""
        try:
            wait_until(claim, seconds)
        except AssertionError as error:
            now = [(run.stage, run.state, run.outcome, run.sent_at, run.not_before) for run in self.runs()]
            raise AssertionError(f"{error}; its runs: {now}") from error

    def ends_well(self, *, passed: str = "stock", supervise: Callable[[], None] | None = None) -> None:
        """Wait for its end; the invariants hold, and models with `passed` in their name pass."""
        self.wait(supervise=supervise)
        with unit_of_work() as session:
            close_finished(session)
        holds(at_rest=True)
        wrong = {name: outcome for name, outcome in self.outcomes().items() if passed in name and outcome != "passed"}
        assert wrong == {}


def holds(*, at_rest: bool = False) -> None:
    """Every invariant holds; `at_rest`, everything that was begun has ended too."""
    with reading() as session:
        assert broken(violations(session, at_rest=at_rest)) == []


def until(claim: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until a claim holds."""
    wait_until(claim, seconds)
