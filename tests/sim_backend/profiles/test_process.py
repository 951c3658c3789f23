"""One profile per process: free to choose until it is used, fixed afterwards."""

from __future__ import annotations

import pytest

from sim_backend.errors import SpyreProfileError
from sim_backend.profiles import process


@pytest.fixture(autouse=True)
def unused_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as it was before any use."""
    monkeypatch.setattr(process, "_process", process._Process())
    monkeypatch.delenv(process.ENVIRONMENT, raising=False)


def test_a_profile_can_be_changed_before_it_is_used() -> None:
    process.use_profile("profile-2026-04")
    process.use_profile("profile-2026-09")
    assert process.active().name == "profile-2026-09"


def test_a_second_profile_is_refused_after_the_first_is_used() -> None:
    process.use_profile("profile-2026-04")
    process.active()
    with pytest.raises(SpyreProfileError, match=r"'profile-2026-09' refused.*'profile-2026-04'"):
        process.use_profile("profile-2026-09")


def test_the_same_profile_may_be_chosen_again() -> None:
    process.active()
    assert process.use_profile("profile-2026-08").name == "profile-2026-08"


def test_an_override_makes_another_profile() -> None:
    process.active()
    with pytest.raises(SpyreProfileError):
        process.use_profile("profile-2026-08", {"errata.E-17": None})


def test_the_environment_chooses_for_child_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(process.ENVIRONMENT, "latest")
    assert process.current_profile().name == "profile-2026-09"


def test_asking_for_the_current_profile_does_not_fix_it() -> None:
    process.current_profile()
    assert process.use_profile("profile-2026-04").name == "profile-2026-04"
