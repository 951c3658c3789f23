"""What a stage works on: one checkpoint folder under one profile, as the stage's SPEC document says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipeline.verification.seeds import HiddenSeeds, seeds_from_dict

REPLAYED = (
    "model", "revision", "checkpoint_dir", "config", "family", "entry", "profile", "weights", "tier", "adapter",
    "candidate", "device",
)  # fmt: skip
"""Keys of a SPEC that run the same thing again; the rest names one run and its folders."""
Weights = Literal["auto", "hub", "synthetic"]


@dataclass(frozen=True)
class Subject:
    """One checkpoint, one profile, one adapter or candidate, one tier. `workdir` is private to the run.

    `seeds` are those the service drew after it had stored the candidate; None where nothing is stored first. `spec` is
    the part of the stage's SPEC that evidence keeps, so that it can be run again; `weights_dir` holds synthetic weights
    that were made before.
    """

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
    seeds: HiddenSeeds | None = None
    weights_dir: Path | None = None
    spec: dict[str, Any] = field(default_factory=dict, compare=False)

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
        adapter=adapter_for(spec.get("adapter"), spec.get("family")),
        candidate=spec.get("candidate"),
        device=spec.get("device", "simulator"),
        seeds=seeds_from_dict(spec["seeds"]) if spec.get("seeds") else None,
        weights_dir=Path(spec["weights_dir"]) if spec.get("weights_dir") else None,
        spec={name: spec[name] for name in REPLAYED if spec.get(name) is not None},
    )


def adapter_for(manifest: dict[str, Any] | None, family: str | None) -> dict[str, Any] | None:
    """What an adapter does to a checkpoint of `family`: of one that serves several families, that family's part."""
    if manifest is None or not manifest.get("members"):
        return manifest
    from adapters.releases.manifest import manifest_from_dict

    return manifest_from_dict(manifest).for_family(str(family)).to_dict()
