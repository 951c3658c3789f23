"""The gate's policy, read from `policy.yaml` and checked: limits, tolerances, tiers, guards, exceptions. No torch.

The file is the only place with thresholds. `Policy.digest` covers all of it; the environment of a verdict and its
evidence name it, and evidence keeps the whole policy, so that a verdict can be given again under the policy of its day.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from agents.types import canonical
from pipeline.errors import BadInput

FORMAT = 1
Limits = Mapping[str, float]
LIMIT_NAMES = frozenset({
    "device_token_cosine", "cpu_token_cosine", "company_token_cosine", "norm_tolerance", "pooled_cosine",
    "centred_pooled_cosine", "spearman", "error_ratio_pass", "error_ratio_unknown", "control_cosine",
    "ideal_token_cosine",
})  # fmt: skip
MATHEMATICS = frozenset({"exact_ulp", "exact_relative", "set_relative", "special_tolerance", "dl16_ratio"})
ADDED = {"dl16_ratio": math.inf}
"""Limits that older policies do not have, and what stands for each: evidence is judged by the policy of its day."""
DIAGNOSIS = frozenset({"explained", "accumulated"})
TOLERANCES = frozenset({
    "lowest_token_cosine", "company_token_cosine", "pooled_cosine", "centred_pooled_cosine", "ideal_token_cosine",
    "control_cosine", "spearman", "norm_ratio", "error_ratio",
})  # fmt: skip
GUARDS = frozenset({"ranked_pairs", "scripts", "semantic_controls", "final_submissions", "infra_in_a_row"})
SECTIONS = frozenset({
    "format", "version", "thresholds", "mathematics", "diagnosis", "replay_tolerance", "tiers", "guards", "exceptions",
})  # fmt: skip


class PolicyRefused(BadInput):
    """The policy is not complete, or has nothing for what is to be judged."""

    code, status = "policy_refused", 422


class TierRule(NamedTuple):
    """What a tier asks for: independent draws, and the measurements by name."""

    draws: int
    requires: tuple[str, ...]


@dataclass(frozen=True)
class GateException:
    """One threshold moved for one family, until `expires`. Raises ValueError if anything it needs is missing."""

    threshold: str
    value: float
    family: str
    evidence: str
    owner: str
    expires: date
    reason: str

    def __post_init__(self) -> None:
        if self.threshold not in LIMIT_NAMES:
            raise ValueError(f"no threshold {self.threshold!r}, there are: {', '.join(sorted(LIMIT_NAMES))}")
        if not (self.evidence and self.owner and self.reason and self.family):
            raise ValueError(f"an exception from {self.threshold!r} needs family, evidence, an owner and a reason")
        if not isinstance(self.expires, date):
            raise ValueError(f"an exception from {self.threshold!r} needs the day it expires, not {self.expires!r}")

    def holds(self, family: str, today: date) -> bool:
        """True for this family up to and including the day it expires."""
        return family == self.family and self.expires >= today


@dataclass(frozen=True)
class Policy:
    """The policy as data; `source` is the document it was read from, `digest` covers it."""

    version: str
    thresholds: Mapping[str, Mapping[str, Limits]]
    mathematics: Limits
    diagnosis: Limits
    tolerance: Limits
    tiers: Mapping[str, TierRule]
    guards: Mapping[str, int]
    exceptions: tuple[GateException, ...]
    source: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """sha256 of the canonical JSON of the document."""
        return hashlib.sha256(canonical(self.source)).hexdigest()

    def limits(self, task: str, dtype: str) -> Limits:
        """The limits for a task and the dtype that runs. Raises PolicyRefused for a pair the policy does not list."""
        found = self.thresholds.get(task, {}).get(dtype)
        if found is None:
            raise PolicyRefused(f"policy {self.version!r} has no thresholds for task {task!r} in {dtype!r}")
        return found


def policy_from_dict(document: Mapping[str, Any]) -> Policy:
    """The policy written in `document` (plain JSON data). Raises PolicyRefused unless it is complete and known."""
    _same_keys("policy", document, SECTIONS)
    if document["format"] != FORMAT:
        raise PolicyRefused(f"policy format {document['format']!r} is not {FORMAT}")
    try:
        exceptions = tuple(_exception(row) for row in document["exceptions"])
        tiers = {name: TierRule(int(t["draws"]), tuple(t["requires"])) for name, t in document["tiers"].items()}
    except (ValueError, TypeError, KeyError) as error:
        raise PolicyRefused(f"policy {document['version']!r}: {error}") from error
    return Policy(
        version=str(document["version"]),
        thresholds={task: _by_dtype(task, rows) for task, rows in document["thresholds"].items()},
        mathematics=_numbers("mathematics", {**ADDED, **document["mathematics"]}, MATHEMATICS),
        diagnosis=_numbers("diagnosis", document["diagnosis"], DIAGNOSIS),
        tolerance=_numbers("replay_tolerance", document["replay_tolerance"], TOLERANCES),
        tiers=MappingProxyType(tiers),
        guards={k: int(v) for k, v in _numbers("guards", document["guards"], GUARDS).items()},
        exceptions=exceptions,
        source=document,
    )


def _by_dtype(task: str, rows: Mapping[str, Any]) -> dict[str, Limits]:
    return {dtype: _numbers(f"thresholds.{task}.{dtype}", row, LIMIT_NAMES) for dtype, row in rows.items()}


def _same_keys(where: str, found: Mapping[str, Any], wanted: frozenset[str]) -> None:
    missing, unknown = sorted(wanted - set(found)), sorted(set(found) - wanted)
    if missing or unknown:
        raise PolicyRefused(f"{where}: missing {missing}, unknown {unknown}")


def _numbers(where: str, found: Mapping[str, Any], wanted: frozenset[str]) -> Limits:
    _same_keys(where, found, wanted)
    odd = {k: v for k, v in found.items() if isinstance(v, bool) or not isinstance(v, int | float) or v <= 0}
    if odd:
        raise PolicyRefused(f"{where}: not positive numbers: {odd}")
    return MappingProxyType({k: float(v) for k, v in found.items()})


def _exception(row: Mapping[str, Any]) -> GateException:
    expires = row["expires"]
    return GateException(**{**row, "expires": date.fromisoformat(expires) if isinstance(expires, str) else expires})


@lru_cache(maxsize=1)
def current_policy() -> Policy:
    """The policy that ships with the factory. Days in it become ISO text, so that it is plain JSON data."""
    return policy_from_dict(_plain(yaml.safe_load(files(__package__).joinpath("policy.yaml").read_text("utf-8"))))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value.isoformat() if isinstance(value, date) else value
