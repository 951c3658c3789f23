"""`spyre-factory profile`: names, the whole resolved profile, and what differs; an unknown name is one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from pipeline.cli.main import build_app
from sim_backend.profiles import list_profiles, load_profile

pytestmark = pytest.mark.fact("0.2")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["profile", *arguments])


def document(*arguments: str) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_list_names_every_profile_with_its_cut_date() -> None:
    rows = {row["name"]: row for row in document("list")["profiles"]}
    assert tuple(rows) == list_profiles()
    dates = {name: row["cut_date"] for name, row in rows.items() if name != "profile-ideal"}
    assert dates == {
        "profile-2025-11": "2025-11-21",
        "profile-2026-04": "2026-04-30",
        "profile-2026-08": "2026-08-22",
        "profile-2026-09": "2026-09-22",
    }
    assert [name for name, row in rows.items() if row["default"]] == ["profile-2026-08"]
    assert rows["profile-2026-09"]["alias"] == "latest"


def test_show_prints_the_whole_resolved_profile() -> None:
    shown = document("show", "profile-2026-04")
    held = load_profile("profile-2026-04")
    assert shown["digest"] == held.digest
    assert shown["cut_date"] == "2026-04-30"
    assert shown["ops"]["aten.slice"] == "X / F"
    assert shown["ops"]["aten.abs"] == "N", "taken over from the base"
    assert shown["errata"].keys() == held.to_dict()["errata"].keys()


def test_show_gives_each_parameter_its_reason_and_sensitivity() -> None:
    rounding = document("show", "profile-2026-04")["parameters"]["numerics.h2d_rounding"]
    assert (rounding["value"], rounding["default"]) == ("nearest_up", "truncate")
    assert rounding["reason"].startswith("1.6")
    assert rounding["sensitivity"]


def test_show_takes_an_alias() -> None:
    assert document("show", "latest")["name"] == "profile-2026-09"


def test_show_prints_parameters_for_people() -> None:
    result = call("show", "profile-2026-08")
    assert result.exit_code == 0
    assert "numerics.reduction_chunk = 64: 6.7" in result.stdout


def test_diff_names_what_differs() -> None:
    changes = document("diff", "profile-2026-08", "latest")["changes"]
    assert changes["ops.aten.pow.Tensor_Scalar"] == {"profile-2026-08": "N", "profile-2026-09": "D"}
    assert "ops.aten.abs" not in changes


def test_diff_for_people_counts_the_differences() -> None:
    assert (
        "0 differences between profile-2026-08 and profile-2026-08."
        in call("diff", "profile-2026-08", "profile-2026-08").stdout
    )


@pytest.mark.parametrize("arguments", [("show", "profile-1999"), ("diff", "profile-2026-08", "profile-1999")])
def test_an_unknown_name_is_one_sentence_with_the_known_ones(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Profile 'profile-1999' does not exist: choose one of profile-2025-11, ")
