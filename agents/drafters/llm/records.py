"""Trajectories kept in memory: for one process, without a database."""

from __future__ import annotations

from typing import Any


class MemoryTrajectory:
    """`agents.types.TrajectoryStore` as a list of steps."""

    def __init__(self, place: str = "", earlier: tuple[dict[str, Any], ...] = ()) -> None:
        self.place, self.earlier = place, earlier
        self.steps: list[dict[str, Any]] = []

    def __call__(self, step: dict[str, Any]) -> str:
        """Keep one step."""
        self.steps.append(step)
        return f"memory:{self.place}"
