"""Hidden seeds: drawn from `secrets` after a candidate's digest is fixed, so that no drafter can know its inputs."""

from __future__ import annotations

import re
import secrets
from dataclasses import asdict, dataclass
from typing import Any

SEED_BITS = 62  # fits a signed 64-bit column and torch's generator
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class HiddenSeeds:
    """One seed per independent draw, bound to the digest they were drawn for. Published only with the verdict.

    `stored_at` and `drawn_at` are times of one database clock: the candidate was stored, then the seeds were drawn.
    Empty where nothing is stored first (the stock model, a released adapter).
    """

    candidate_digest: str
    seeds: tuple[int, ...]
    stored_at: str = ""
    drawn_at: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data; `seeds_from_dict` reads it back."""
        return {**asdict(self), "seeds": list(self.seeds)}


def seeds_from_dict(data: dict[str, Any]) -> HiddenSeeds:
    """The seeds whose plain form is `data`."""
    return HiddenSeeds(**{**data, "seeds": tuple(data["seeds"])})


def draw_hidden_seeds(candidate_digest: str, draws: int = 2) -> HiddenSeeds:
    """Seeds for `draws` independent draws. Call it after the digest is stored.

    Raises ValueError unless `candidate_digest` is a sha256 in hex and `draws` is positive.
    """
    if not _DIGEST.fullmatch(candidate_digest):
        raise ValueError(f"hidden seeds are drawn for a stored sha256 digest, not {candidate_digest!r}")
    if draws < 1:
        raise ValueError(f"at least one draw is needed, got {draws}")
    return HiddenSeeds(candidate_digest, tuple(secrets.randbits(SEED_BITS) for _ in range(draws)))


def draw_own_seed() -> int:
    """A seed for a drafter's own test run: drawn anew each time, independent of every hidden one."""
    return secrets.randbits(SEED_BITS)
