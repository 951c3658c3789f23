"""The stored ranking: every model that does not pass is accounted for, with its diagnosed causes or as unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from typer.testing import CliRunner

from pipeline.cli.main import build_app
from pipeline.database.unit_of_work import reading
from pipeline.ranking.service import ranking

ALL = ("a/real-one", "a/stock-two", "a/remote-three", "a/crash-four", "a/real-five")


def report() -> dict:
    with reading() as session:
        return ranking(session, "profile-2026-08")


def test_models_are_blocked_by_their_diagnosed_causes_or_by_the_kind_of_their_verdict(
    database: str, sweep_of: Callable[..., int], drain: Callable[[], list[int]]
) -> None:
    sweep_of(*ALL)
    drain()
    found = report()
    causes = {(row["kind"], row["op"], row["condition"]): row["models"] for row in found["ops"]}
    assert causes == {
        ("unsupported_op", "aten.pow.Tensor_Scalar", "3"): 2,
        ("remote_code", "", ""): 1,
        ("crashed", "", ""): 1,
    }
    assert (found["not_passing"], found["without_causes"]) == (4, 0)


def test_models_that_were_not_run_are_counted_as_without_causes(database: str, sweep_of: Callable[..., int]) -> None:
    sweep_of(*ALL)
    found = report()
    assert (found["not_passing"], found["without_causes"], found["ops"]) == (5, 5, [])
    assert [s["reachable"] for s in found["cheapest"]] == [False, False, False]


def test_the_command_prints_the_ranking_for_machines_and_for_people(
    database: str, sweep_of: Callable[..., int], drain: Callable[[], list[int]]
) -> None:
    sweep_of(*ALL)
    drain()
    printed = CliRunner().invoke(build_app(), ["ops", "--json"])
    assert printed.exit_code == 0
    assert json.loads(printed.output) == json.loads(json.dumps(report()))
    text = CliRunner().invoke(build_app(), ["ops"]).output
    assert "unsupported_op aten.pow.Tensor_Scalar (3)" in text
    assert "HiGHS" in text


def test_the_heat_map_has_its_table_beside_it(
    database: str, sweep_of: Callable[..., int], drain: Callable[[], list[int]], tmp_path: Path
) -> None:
    sweep_of(*ALL)
    drain()
    [row] = report()["by_family"]
    assert (row["op"], row["models"]) == ("aten.pow.Tensor_Scalar", 2)
    picture = tmp_path / "ops.svg"
    printed = CliRunner().invoke(build_app(), ["ops", "--svg", str(picture)])
    assert printed.exit_code == 0
    assert f"aten.pow.Tensor_Scalar: {row['family']} 2" in printed.output
    said = ElementTree.fromstring(picture.read_text()).findtext(".//{http://www.w3.org/2000/svg}rect/*")
    assert said == f"aten.pow.Tensor_Scalar, {row['family']}: 2 models"
