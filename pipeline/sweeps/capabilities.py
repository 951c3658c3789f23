"""What a scheduler needs to know: per model and profile the outcome, the adapter, memory and the longest input.

The JSON schema is published as `docs/schemas/capabilities-1.json`; a test holds that it is the one of these types.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from pipeline.sweeps import repository
from pipeline.sweeps.models import CheckpointStatus, Model

FORMAT = 1
BYTES_PER_WEIGHT = 2
"""A weight on the device is 16 bits wide, whatever the checkpoint's dtype."""


class Entry(BaseModel):
    """One model on one profile. None means that it is not known."""

    model_config = ConfigDict(extra="forbid")

    model: str
    revision: str
    profile: str
    outcome: Literal["passed", "failed", "infra", "unknown"]
    weights: Literal["real", "synthetic"] | None = Field(description="Weights of the verdict; never added up.")
    adapter_digest: str | None = Field(description="None where the stock model runs, or nothing is known.")
    memory_bytes: int | None = Field(description="Weights on the device at 16 bits each; activations are not in it.")
    longest_input: int | None = Field(description="Tokens that the configuration allows.")
    verified_length: int | None = Field(description="The longest length bucket the adapter was verified at.")


class Capabilities(BaseModel):
    """The document that `spyre-factory capabilities --json` prints."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    demo: bool = Field(description="True: a demonstration database, its figures mean nothing.")
    capabilities: list[Entry]


def capabilities(session: Session, profiles: list[str]) -> list[Entry]:
    """Every model with a verdict on one of the profiles; what a scripted candidate makes pass is left out."""
    rows = [row for profile in profiles for row in repository.page_of_models(session, profile, "", None, None, None)]
    return [_entry(model, status) for model, status in rows if status is not None and not status.scripted]


def _entry(model: Model, status: CheckpointStatus) -> Entry:
    config: dict[str, Any] = status.checkpoint.config or {}
    parameters = status.checkpoint.facts.get("parameters")
    buckets = status.adapter.manifest.get("buckets") if status.adapter else None
    values = {
        "model": model.name,
        "revision": status.checkpoint.revision,
        "profile": status.profile,
        "outcome": status.outcome,
        "weights": status.weights,
        "adapter_digest": status.adapter.digest if status.adapter else None,
        "memory_bytes": parameters * BYTES_PER_WEIGHT if parameters else None,
        "longest_input": config.get("max_position_embeddings"),
        "verified_length": max(buckets) if buckets else None,
    }
    return Entry.model_validate(values)
