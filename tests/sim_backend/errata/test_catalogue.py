"""The catalogue and the profiles say the same of every erratum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sim_backend
from sim_backend.errata.catalogue import CatalogueError, Erratum, load_catalogue, read_entry
from sim_backend.errata.table import RULES
from sim_backend.profiles import list_profiles, load_profile

ROOT = Path(sim_backend.__file__).parent.parent
DEVICES = [name for name in list_profiles() if name != "profile-ideal"]
ENTRY: dict[str, Any] = {
    "title": "t", "trigger": "t", "effect": "e", "kind": "wrong", "profiles": ["profile-2026-08"],
    "modelled": "yes", "where": "sim_backend/errata/numerics.py",
}  # fmt: skip
MODELLED = [e for e in load_catalogue().values() if e.modelled != "no"]


@pytest.mark.parametrize("erratum", MODELLED, ids=lambda e: e.id)
def test_an_erratum_is_on_in_exactly_the_profiles_it_names(erratum: Erratum) -> None:
    assert [name for name in DEVICES if load_profile(name).has(erratum.id)] == [
        name for name in DEVICES if name in erratum.profiles
    ]


@pytest.mark.parametrize("erratum", MODELLED, ids=lambda e: e.id)
def test_every_parameter_is_documented_with_its_default(erratum: Erratum) -> None:
    documented = {name: parameter.default for name, parameter in erratum.parameters.items()}
    for name in set(erratum.profiles) & set(DEVICES):
        assert load_profile(name).to_dict()["errata"][erratum.id] == documented, name


def test_every_erratum_of_a_profile_is_catalogued_as_modelled() -> None:
    switched = {id for name in DEVICES for id in load_profile(name).errata}
    assert switched - {e.id for e in MODELLED} == set()


def test_every_rule_belongs_to_a_modelled_erratum() -> None:
    assert {rule.erratum for rule in RULES} - {e.id for e in MODELLED} == set()


def test_the_ideal_device_has_no_erratum() -> None:
    assert dict(load_profile("profile-ideal").errata) == {}


@pytest.mark.parametrize("erratum", MODELLED, ids=lambda e: e.id)
def test_the_place_of_an_erratum_exists(erratum: Erratum) -> None:
    assert (ROOT / erratum.where).is_file()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("E-62", {}, "no erratum of the facts page"),
        ("E-1", {}, "no erratum of the facts page"),
        ("E-01", {"kind": "odd"}, "is no kind of"),
        ("E-01", {"modelled": "maybe"}, "not yes, partly or no"),
        ("E-01", {"modelled": "no"}, "without a reason"),
        ("E-01", {"where": ""}, "not said where"),
        ("E-01", {"colour": "red"}, "has colour"),
        ("E-01", {"parameters": {"p": {"default": 1, "reason": "r"}}}, "needs default, reason and sensitivity"),
    ],
)
def test_a_malformed_entry_is_refused(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogueError, match=message):
        read_entry("numerics", name, {**ENTRY, **change})


def test_an_entry_without_its_trigger_is_refused() -> None:
    with pytest.raises(CatalogueError, match="E-01 has no trigger"):
        read_entry("numerics", "E-01", {k: v for k, v in ENTRY.items() if k != "trigger"})
