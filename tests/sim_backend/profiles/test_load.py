"""Profiles are data with names, an alias, overrides, a digest and a difference."""

from __future__ import annotations

import pytest

from sim_backend.errors import SpyreProfileError
from sim_backend.profiles import ALIASES, DEFAULT, diff, list_profiles, load_profile, resolve_alias


def test_the_default_is_august() -> None:
    assert load_profile().name == DEFAULT == "profile-2026-08"


def test_latest_is_resolved_before_it_is_stored() -> None:
    assert resolve_alias("latest") == load_profile("latest").name == "profile-2026-09"
    assert "latest" not in list_profiles()


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(SpyreProfileError, match=r"unknown profile 'profile-1999'.*profile-2026-04"):
        load_profile("profile-1999")


def test_every_profile_has_its_own_digest() -> None:
    digests = {load_profile(name).digest for name in list_profiles()}
    assert len(digests) == len(list_profiles())


def test_the_digest_covers_overrides() -> None:
    assert load_profile(overrides={"errata.E-17": None}).digest != load_profile().digest


def test_the_digest_is_the_same_for_both_spellings_of_an_override() -> None:
    dotted, nested = {"errata.E-17": None}, {"errata": {"E-17": None}}
    assert load_profile(overrides=dotted).digest == load_profile(overrides=nested).digest


def test_an_override_of_nothing_is_refused() -> None:
    with pytest.raises(SpyreProfileError, match=r"numerics\.h2d_roundin"):
        load_profile(overrides={"numerics.h2d_roundin": "truncate"})
    with pytest.raises(SpyreProfileError, match="erata"):
        load_profile(overrides={"erata": {}})


def test_a_profile_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        load_profile().content["ops"]["aten.abs"] = "X"  # type: ignore[index]


def test_diff_names_what_differs_and_nothing_else() -> None:
    changed = diff(load_profile("profile-2026-08"), load_profile(ALIASES["latest"]))
    assert changed["ops.aten.pow.Tensor_Scalar"] == ("N", "D")
    assert changed["errata.E-67"] == ({}, None)
    assert "ops.aten.abs" not in changed


def test_diff_of_a_profile_with_itself_is_empty() -> None:
    assert diff(load_profile(), load_profile()) == {}
