"""The smallest set of causes whose mending lets a share of the blocked downloads pass.

A mixed-integer programme solved by HiGHS: x_c says that cause c is mended, y_g that the models of group g (same causes)
pass, y_g <= x_c for each cause c of g; minimise the number of causes so that the passing downloads reach the target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.ranking.causes import Blocked, Cause

SHARES = (0.10, 0.50, 0.90)
TIME_LIMIT_S = 20.0
SOLVER = "HiGHS (scipy.optimize.milp)"


@dataclass(frozen=True)
class CheapestSet:
    """The causes to mend for `share` of the blocked downloads. `gap` is the solver's relative optimality gap.

    `causes` is empty and `reachable` False where the models with known causes do not add up to the share.
    """

    share: float
    reachable: bool
    causes: tuple[Cause, ...]
    models: int
    downloads: int
    gap: float | None


def cheapest_sets(blocked: Sequence[Blocked], downloads: int, shares: Sequence[float] = SHARES) -> list[CheapestSet]:
    """One set per share of `downloads` (those of all models that do not pass, also of those without a known cause)."""
    return [_cheapest(blocked, share, share * downloads) for share in shares]


def _cheapest(blocked: Sequence[Blocked], share: float, target: float) -> CheapestSet:
    groups: dict[frozenset[Cause], int] = defaultdict(int)
    for model in blocked:
        groups[model.causes] += model.downloads
    if sum(groups.values()) < target or not groups:
        return CheapestSet(share, False, (), 0, 0, None)
    chosen, gap = _solve(groups, target)
    freed = [m for m in blocked if m.causes <= chosen]
    return CheapestSet(share, True, tuple(sorted(chosen)), len(freed), sum(m.downloads for m in freed), gap)


def _solve(groups: dict[frozenset[Cause], int], target: float) -> tuple[frozenset[Cause], float]:
    """The mended causes and the gap. Downloads are scaled to the target, so that the solver's tolerances fit."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csc_array

    causes = sorted(frozenset().union(*groups))
    at = {cause: i for i, cause in enumerate(causes)}
    pairs = np.array([(len(causes) + g, at[c]) for g, members in enumerate(groups) for c in members])
    rows = np.arange(len(pairs))
    weights = np.array(list(groups.values())) / max(target, 1.0)
    entries = np.concatenate((np.full(len(pairs), -1.0), np.full(len(pairs), 1.0), weights))
    at_rows = np.concatenate((rows, rows, np.full(len(groups), len(pairs))))
    at_columns = np.concatenate((pairs[:, 0], pairs[:, 1], len(causes) + np.arange(len(groups))))
    needs = csc_array((entries, (at_rows, at_columns)), shape=(len(pairs) + 1, len(causes) + len(groups)))
    lower = np.append(np.zeros(len(pairs)), min(target, 1.0))
    is_cause = np.arange(needs.shape[1]) < len(causes)
    found = milp(
        is_cause.astype(float),
        constraints=LinearConstraint(needs, lower, np.inf),
        integrality=is_cause.astype(int),
        bounds=Bounds(0, 1),
        options={"time_limit": TIME_LIMIT_S},
    )
    if found.x is None:
        raise RuntimeError(f"the solver found no set of causes: {found.message}")
    return frozenset(c for c in causes if found.x[at[c]] > 0.5), float(found.mip_gap)
