"""Twenty-five schedules of faults drawn from fixed seeds; a failure names the seed that replays it."""

from __future__ import annotations

import pytest

from benchmarks.installation import Installation

from .schedules import FAULTS, Runner, Schedule

SEEDS = range(25)


def test_a_seed_means_the_same_everywhere_and_the_seeds_meet_every_fault() -> None:
    assert Schedule.of(7) == Schedule.of(7)
    assert {Schedule.of(seed).fault for seed in SEEDS} == set(FAULTS)


@pytest.mark.postgres
@pytest.mark.redis
@pytest.mark.timeout(1500)
def test_the_invariants_hold_under_every_schedule(service: Installation) -> None:
    runner = Runner(service)
    for seed in SEEDS:
        runner.run(Schedule.of(seed))
