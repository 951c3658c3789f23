"""What `capability()` returns: every operation that fails, falls back or is known to give wrong values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Place = Literal["block", "outside"]


@dataclass(frozen=True)
class OpFailure:
    """One cause, met `count` times in `layers` layers.

    `kind` is a stored failure kind (`unsupported_op`, `unsupported_dtype`, `layout`, `shape_limit`, `memory_limit`,
    `graph_break`, `dynamic_shape`, `runtime_abort`, `wrong_values`, `cpu_fallback`). `op` is the ATen overload as the
    user's code reaches it (`aten.gelu.default`). `source` is "file.py:line" of the model's code. `module` is the module
    path with layer numbers replaced by `*`. `predicted` holds the id of a known wrong-value defect (`E-17`), else None;
    `erratum` that of a known refusal.
    `after` is true when the failure is possible only because of an earlier one: a layout is refused
    that is only assumed, because the operation that makes the tensor is missing. `scalars` are the operation's constant
    arguments by position, `shapes` and `dtypes` those of its tensor arguments.
    """

    kind: str
    op: str
    source: str
    module: str
    message: str
    place: Place
    count: int = 1
    layers: int = 1
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    scalars: tuple[Any, ...] = ()
    predicted: str | None = None
    after: bool = False
    erratum: str | None = None


@dataclass(frozen=True)
class CapabilityReport:
    """The outcome of every operation of one model, for sizes and a profile; all failures at once."""

    profile: str
    profile_digest: str
    dtype: str
    failures: tuple[OpFailure, ...]
    predicted: tuple[OpFailure, ...]
    fallbacks: tuple[OpFailure, ...]
    operations: int
    kernels: int
    fingerprint: str
    seconds: float = field(default=0.0, compare=False)

    @property
    def supported(self) -> bool:
        """True if no operation fails. Fallbacks cost time but are right; predictions are judged by measurement."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CapabilityReport:
        """The report written by `to_dict`."""
        groups = {k: tuple(_failure(f) for f in data[k]) for k in ("failures", "predicted", "fallbacks")}
        return cls(**{**data, **groups})


def _failure(data: dict[str, Any]) -> OpFailure:
    shapes = tuple(tuple(s) for s in data["shapes"])
    return OpFailure(**{**data, "shapes": shapes, "dtypes": tuple(data["dtypes"]), "scalars": tuple(data["scalars"])})
