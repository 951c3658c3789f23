"""Pictures are well-formed SVG, show every value, and break where a value is not finite."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from pipeline.diagnosis.pictures import curve_rows, error_curve, heat_map

NAMESPACE = "{http://www.w3.org/2000/svg}"


def point(block: int, total: float | None) -> dict[str, Any]:
    return {"block": f"layer.{block}", "own": 1e-3, "own_explained": 1e-3, "total": total, "total_ideal": 1e-3}


def lines(svg: str) -> dict[str, str]:
    """Title of each titled line → its path."""
    found = {}
    for path in ElementTree.fromstring(svg).iter(f"{NAMESPACE}path"):
        title = path.find(f"{NAMESPACE}title")
        if title is not None:
            found[str(title.text)] = path.attrib["d"]
    return found


def test_the_curve_rises_with_the_error_and_breaks_where_it_is_not_finite() -> None:
    svg = error_curve({"whole": [point(0, 1e-3), point(1, 1e-1), point(2, None), point(3, 1.0)]})
    path = lines(svg)["whole, on the device"]
    assert path.count("M") == 2
    heights = [float(p.split(" ")[1]) for p in path.replace("L", "M").split("M")[1:]]
    assert heights == sorted(heights, reverse=True)
    assert "1 at the last block" in svg


def test_every_kind_of_input_has_a_line_of_its_own_dash_and_its_rows_in_the_table() -> None:
    curves = {"whole": [point(0, 0.0)], "ragged": [point(0, 0.5)], "refused": []}
    assert set(lines(error_curve(curves))) == {
        f"{k}, {run}" for k in ("whole", "ragged") for run in ("on the device", "ideal 16-bit run")
    }
    assert [(r["input"], r["total"]) for r in curve_rows(curves)] == [("whole", 0.0), ("ragged", 0.5)]


def test_nothing_measured_is_still_a_picture() -> None:
    assert lines(error_curve({})) == {}
    assert ElementTree.fromstring(heat_map({})).tag == f"{NAMESPACE}svg"


def test_the_map_has_one_cell_per_operation_and_family_and_names_are_escaped() -> None:
    svg = heat_map({("aten.pow", "bert"): 3, ("aten.pow", "a<b"): 1, ("aten.roll", "bert"): 1})
    cells = {str(r[0].text): r.attrib["fill-opacity"] for r in ElementTree.fromstring(svg).iter(f"{NAMESPACE}rect")}
    assert cells["aten.pow, bert: 3 models"] == "1.00"
    assert float(cells["aten.pow, a<b: 1 models"]) < 0.5
    assert len(cells) == 3
