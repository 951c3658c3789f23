"""The parameters of a profile are documented with default, reason and sensitivity, and nothing else is."""

from __future__ import annotations

import re

import pytest

from sim_backend.profiles import list_profiles, load_profile
from sim_backend.profiles.load import _load_cached
from sim_backend.profiles.parameters import documented, parameters_of

pytestmark = pytest.mark.fact("0.1")
TABLES = ("numerics", "limits", "copies", "runtime", "clock")
BASE = _load_cached("base")
# Rows of the table of facts 3.2 with a "?" cell in some profile, by the operation that decides them.
UNKNOWN_CELLS = (
    "mish", "minimum", "softplus", "square", "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_not",
    "_log_softmax", "linalg_vector_norm", "_fused_rms_norm", "native_batch_norm", "native_group_norm", "convolution",
    "roll", "masked_fill", "embedding", "native_dropout",
)  # fmt: skip


def parameters() -> set[str]:
    held = {f"{table}.{key}" for table in TABLES for key in BASE.get(table, {})}
    return held | {f"ops.aten.{name}" for name in UNKNOWN_CELLS}


def test_every_parameter_is_documented() -> None:
    """A new key of one of these tables needs an entry in parameters.yaml."""
    assert parameters() <= documented().keys()


def test_nothing_is_documented_that_does_not_exist() -> None:
    paths = {f"{table}.{key}" for table, values in BASE.items() if isinstance(values, dict) for key in values}
    assert documented().keys() <= paths


@pytest.mark.parametrize("path", sorted(documented()))
def test_an_entry_has_the_default_of_the_base_a_cited_reason_and_a_sensitivity(path: str) -> None:
    entry = documented()[path]
    table, _, key = path.partition(".")
    assert entry.keys() == {"default", "reason", "sensitivity"}
    assert entry["default"] == BASE[table][key]
    assert re.match(r"\d\.\d", entry["reason"]), "the reason begins with the section of the facts page"
    assert entry["sensitivity"]


@pytest.mark.parametrize("name", list_profiles())
def test_a_profile_shows_the_value_it_has(name: str) -> None:
    shown = parameters_of(load_profile(name))
    assert shown["numerics.h2d_rounding"]["value"] == load_profile(name).h2d_rounding
    assert shown.keys() >= {f"limits.{key}" for key in BASE["limits"]}
