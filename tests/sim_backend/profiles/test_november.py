"""profile-2025-11 stands alone: nothing of the later table or its defects shows through."""

from __future__ import annotations

import pytest

from sim_backend.profiles import load_profile

pytestmark = pytest.mark.fact("3.2", "3.3")


def test_an_operation_that_only_later_profiles_list_is_unlisted() -> None:
    later, november = load_profile(), load_profile("profile-2025-11")
    assert later.cell("aten.new_zeros.default", "eager") == "N"
    assert november.cell("aten.new_zeros.default", "eager") == "H"
    assert later.cell("aten.masked_fill.Scalar", "compiled") == "D"
    assert november.cell("aten.masked_fill.Scalar", "compiled") == "X"


def test_errata_of_later_profiles_are_off() -> None:
    assert not load_profile("profile-2025-11").errata.keys() & {"E-08", "E-17", "E-18", "E-51"}


def test_the_limits_are_those_of_one_operation_kernels() -> None:
    november, later = load_profile("profile-2025-11"), load_profile()
    assert (november.ops_per_kernel, november.cores, november.rank_limit) == (1, 1, 4)
    assert (later.ops_per_kernel, later.cores, later.rank_limit) == (0, 32, 0)
    assert (november.compiles_constants, november.removes_conversions) == (False, True)
    assert (later.compiles_constants, later.removes_conversions) == (True, False)


def test_the_ideal_profile_takes_over_no_defect_at_all() -> None:
    assert load_profile("profile-ideal").to_dict()["errata"] == {}
