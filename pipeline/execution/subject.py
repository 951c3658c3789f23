"""What a stage works on: one checkpoint folder under one profile, as the stage's SPEC document says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Weights = Literal["auto", "hub", "synthetic"]


@dataclass(frozen=True)
class Subject:
    """One checkpoint, one profile, one adapter or candidate, one tier. `workdir` is private to the run."""

    model: str
    folder: Path
    profile: str
    workdir: Path
    revision: str | None = None
    weights: Weights = "auto"
    tier: str = "sweep"
    adapter: dict[str, Any] | None = None
    candidate: dict[str, Any] | None = None
    device: str = "simulator"

    @property
    def has_weights(self) -> bool:
        """True if the folder holds the checkpoint's own safetensors and they may be used."""
        return self.weights != "synthetic" and any(self.folder.glob("*.safetensors"))

    @property
    def weights_word(self) -> Literal["real", "synthetic"]:
        """How results must be labelled."""
        return "real" if self.has_weights else "synthetic"

    @property
    def patches(self) -> list[dict[str, Any]] | None:
        """The patches of the candidate or adapter, in order; None for the stock model."""
        source = self.candidate or self.adapter
        return None if source is None else list(source["patches"])


def subject_from_spec(spec: dict[str, Any]) -> Subject:
    """The subject of a stage SPEC (the keys are documented in `pipeline.work.stages`)."""
    return Subject(
        model=spec["model"],
        folder=Path(spec["checkpoint_dir"]),
        profile=spec["profile"],
        workdir=Path(spec["workdir"]),
        revision=spec.get("revision"),
        weights=spec.get("weights", "auto"),
        tier=spec.get("tier", "sweep"),
        adapter=spec.get("adapter"),
        candidate=spec.get("candidate"),
        device=spec.get("device", "simulator"),
    )
