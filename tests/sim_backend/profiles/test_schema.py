"""A profile file is checked when it is read: what is wrong in it is named, with its file and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from sim_backend.errors import SpyreProfileError
from sim_backend.profiles import list_profiles, load_profile
from sim_backend.profiles.load import _load_cached, parse
from sim_backend.profiles.schema import check

WRONG: dict[str, tuple[str, str]] = {
    "unknown key": ("opps: {}", r"unknown key opps; allowed: .*ops"),
    "unknown operation": ("ops: {abs: N}", r"unknown key ops\.abs; allowed: an ATen operation"),
    "bad letter": ("ops: {aten.abs: Q}", r"ops\.aten\.abs is 'Q'; allowed: a letter of N D K S V H F X U"),
    "three letters": ("ops: {aten.abs: N / X / U}", r"ops\.aten\.abs is 'N / X / U'"),
    "unknown erratum": ("errata: {E-62: {}}", r"unknown key errata\.E-62; allowed: E-01 to E-73 without E-62"),
    "erratum without parameters": ("errata: {E-17: on}", r"errata\.E-17 is True; allowed: a table of parameters"),
    "unknown numerics": ("numerics: {roundin: up}", r"unknown key numerics\.roundin; allowed: .*h2d_rounding"),
    "unknown rounding": (
        "numerics: {h2d_rounding: up}",
        r"numerics\.h2d_rounding is 'up'; allowed: truncate, nearest_up",
    ),
    "text for a number": ("limits: {segments: seven}", r"limits\.segments is 'seven'; allowed: an integer"),
    "number for a switch": ("limits: {legal_sticks: 1}", r"limits\.legal_sticks is 1; allowed: true or false"),
    "fraction": ("limits: {cores: 1.5}", r"limits\.cores is 1\.5; allowed: an integer"),
    "table for text": ("description: {}", r"description is \{\}; allowed: text"),
    "list for a table": ("ops: []", r"ops is \[\]; allowed: a table"),
    "no date": ("cut_date: spring", r"cut_date is 'spring'; allowed: a date"),
    "unknown conversion": ("conversions: [half>float]", r"conversions is .*; allowed: a list of pairs"),
    "unknown exponent rule": ("pow_exponents: {'3': cube}", r"pow_exponents\.3 is 'cube'; allowed: mul"),
    "nothing to replace": ("replaces: [numerics]", r"replaces is .*; allowed: a list of ops"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_by_name_key_and_what_is_allowed(case: str) -> None:
    text, message = WRONG[case]
    with pytest.raises(SpyreProfileError, match=rf"^profile-new\.yaml: {message}"):
        check("profile-new.yaml", parse("profile-new.yaml", text), _load_cached("base"))


@pytest.mark.parametrize(("text", "message"), [("{", "no YAML"), ("- a", "holds list; allowed: a table")])
def test_what_is_no_table_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpyreProfileError, match=rf"^profile-new\.yaml: {message}"):
        parse("profile-new.yaml", text)


@pytest.mark.parametrize(
    "override", [{"errata.E-99": {}}, {"numerics.reduction_chunk": "64"}, {"ops": {"aten.abs": "maybe"}}]
)
def test_an_override_is_held_to_the_same_rules(override: dict[str, Any]) -> None:
    with pytest.raises(SpyreProfileError, match=r"^override of profile-2026-08: .*allowed: "):
        load_profile(overrides=override)


@pytest.mark.parametrize("name", list_profiles())
def test_every_profile_of_the_package_is_right(name: str) -> None:
    assert load_profile(name).content["description"]
