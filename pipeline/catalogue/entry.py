"""The row of a catalogue: one listed model, whatever became of it. A leaf module: it imports nothing of ours."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any


class WeightsForm(StrEnum):
    """In what form a repository holds its weights. Stored text: add members, never rename."""

    SAFETENSORS = "safetensors"
    PICKLE = "pickle"
    GGUF = "gguf"
    ONNX = "onnx"
    ADAPTER = "adapter"
    """PEFT only: a difference to another model's weights."""
    OTHER = "other"
    """Files of other frameworks only (TensorFlow, Flax, OpenVINO, Core ML)."""
    NONE = "none"
    """No weights at all: a configuration only."""
    UNKNOWN = "unknown"
    """The source does not list files."""


class ConfigMapping(StrEnum):
    """What a row's configuration is to the model's own code. All but NATIVE is "mapping unverified"."""

    NATIVE = "native"
    STOCK_FOR_REMOTE = "native class for remote code"
    """The repository ships code; the stock class of its model type stands for it."""
    NEAR = "near"
    """A stock class of the same shape: weights would need other names, or the mask differs."""


@dataclass(frozen=True)
class CatalogueEntry:
    """One listed model. `None` means the source does not say; it is never a guess.

    `rank` counts from 1 by downloads within its catalogue; 0 is a model that no listing ranked.
    `revision` is 40-hex when the source pins one.
    `parameters` is a count, `max_seq_length` is in tokens. `config` is the model's `config.json`, if the source has it.
    `near_config` is set for a model whose own code is remote and whose `config` is this one, of a stock class of the
    same shape. `bidirectional`: its source says that its own code lifts the causal mask.
    `dropped_kind` and `dropped_reason` are both set or both None: a stored failure kind and a sentence.
    `sweep_order` counts from 1: the order in which a sweep of this catalogue takes its models.
    """

    model_id: str
    rank: int
    downloads: int = 0
    likes: int = 0
    revision: str | None = None
    pipeline_tag: str | None = None
    library: str | None = None
    model_type: str | None = None
    architectures: tuple[str, ...] = ()
    parameters: int | None = None
    gated: bool = False
    custom_code: bool = False
    config: dict[str, Any] | None = None
    config_confidence: str | None = None
    near_config: dict[str, Any] | None = None
    pooling: str | None = None
    normalize: bool | None = None
    max_seq_length: int | None = None
    dense: str | None = None
    weights_form: WeightsForm = WeightsForm.UNKNOWN
    dropped_kind: str | None = None
    dropped_reason: str | None = None
    sweep_order: int | None = None
    bidirectional: bool = False

    def __post_init__(self) -> None:
        if (self.dropped_kind is None) != (self.dropped_reason is None):
            raise ValueError(f"{self.model_id!r}: a dropped model needs both a kind and a reason")

    @property
    def dropped(self) -> bool:
        """True if no stage will run for this model; the reason says why."""
        return self.dropped_kind is not None

    @property
    def mapping(self) -> ConfigMapping | None:
        """What the configuration is to the model's own code; None without a configuration."""
        if self.config is None:
            return None
        if self.near_config is not None:
            return ConfigMapping.NEAR
        return ConfigMapping.STOCK_FOR_REMOTE if self.custom_code else ConfigMapping.NATIVE

    @property
    def order(self) -> int:
        """The place in a sweep: `sweep_order` where it is set, else the rank."""
        return self.sweep_order if self.sweep_order is not None else self.rank

    @property
    def identity(self) -> str:
        """What names the checkpoint: the revision, or "unpinned-" and 40 hex of a digest of what the row says of it."""
        if self.revision is not None:
            return self.revision
        facts = [self.config, self.pooling, self.normalize, self.max_seq_length, self.dense]
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return f"unpinned-{hashlib.sha256(text.encode()).hexdigest()[:40]}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, every field; `entry_from_dict` reads it back. Configurations are shared, not copied."""
        values = {name: getattr(self, name) for name in _NAMES}
        return {**values, "architectures": list(self.architectures), "weights_form": str(self.weights_form)}

    def compact(self) -> dict[str, Any]:
        """As `to_dict`, without the fields that hold their default: the form of the bundled catalogue."""
        return {k: v for k, v in self.to_dict().items() if v != DEFAULTS.get(k, _REQUIRED)}


_NAMES = tuple(f.name for f in fields(CatalogueEntry))
_REQUIRED = object()
DEFAULTS: dict[str, Any] = CatalogueEntry("-", 1).to_dict() | {"model_id": _REQUIRED, "rank": _REQUIRED}


def entry_from_dict(data: Mapping[str, Any]) -> CatalogueEntry:
    """The entry written by `CatalogueEntry.to_dict` or `compact`. Raises ValueError for a field it does not know."""
    unknown = sorted(set(data) - set(_NAMES))
    if unknown:
        raise ValueError(f"catalogue entry has unknown field {unknown[0]!r}")
    values = dict(data)
    values["architectures"] = tuple(values.get("architectures") or ())
    values["weights_form"] = WeightsForm(values.get("weights_form", WeightsForm.UNKNOWN))
    return CatalogueEntry(**values)
