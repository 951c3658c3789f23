"""The constants of recipe `calibrated-1`, its refusal and its report. Leaf module, imports no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pipeline.errors import BadInput

RECIPE = "calibrated-1"

DEEP = 12  # layer calls beyond which scores are kept flatter and post-norm branches smaller
SCORE_STD, SCORE_STD_DEEP = 2.0, 1.5  # std of scores along a row, over allowed keys, row mean removed
BRANCH_POST = 0.6  # rms of a branch over rms of the stream, post-norm layers
BRANCH_PRE_MAX = 0.7  # the same, pre-norm layers, at most
GROWTH = 10.0  # pre-norm: the stream's power grows at most about this much over all layers
TABLE_STD = 0.05  # token and position tables alike, so that positions count
TYPE_TABLE_STD = 0.015  # token types: tables of at most TYPE_TABLE_ROWS rows
TYPE_TABLE_ROWS = 4
NARROW = 128  # tables at most this wide and not of model width hold one number per head
RELATIVE_TABLE_STD = 1.5  # ... relative bias, added to scores
PROJECTED_TABLE_STD = 1.0  # tables whose weight is read directly and projected
GAIN_SIGMA, GAIN_LOW, GAIN_HIGH = 0.3, 0.5, 1.5  # log-normal norm gains, clipped
LINEAR_BIAS_STD, NORM_BIAS_STD = 0.1, 0.1
OUTLIERS, OUTLIER_GAIN = 3, 8.0  # stream channels that writers make loud and norms make quiet
CENTRE = 0.9  # share of a branch's mean over tokens that is taken away, per round
ROUNDS = 3
LENGTHS = (32, 24, 16, 8)  # tokens of the four texts of the calibration batch
CHECK_LENGTHS = (40, 33, 24, 17, 9, 5)  # the self-check sees other texts: on its own batch centring is singular


class RecipeRefused(BadInput):
    """The recipe does not fit the model: it needs its own, and until then its case is void."""

    code, status = "recipe_refused", 422


@dataclass(frozen=True)
class CalibrationReport:
    """What the recipe found and reached.

    `branch` is the target branch size; `score_std` what each attention module has at the end; `query_key` the classes
    of the modules scaled for it. `ideal_token_cosine` is the rounding self-check: lowest token cosine of an ideal DL16
    run; `void` says that it is below the gate's limit, so that no correct device could pass. `depth` is "full" or
    "2 of 36", `vocabulary` is "full" or "4096 of 250002". `width` is that of the residual stream, `calls` counts layer
    calls.
    """

    seed: int
    post_norm: bool
    causal: bool
    calls: int
    width: int
    branch: float
    score_target: float
    score_std: tuple[float, ...]
    query_key: tuple[str, ...]
    writers: int
    branch_norms: int
    ideal_token_cosine: float
    void: bool
    depth: str = "full"
    vocabulary: str = "full"
    recipe: str = RECIPE

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)
