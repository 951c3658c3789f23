"""The failing region as data, table and picture: every operation is there, the wrong one told by words and border."""

from __future__ import annotations

from xml.etree import ElementTree

import torch

from pipeline.diagnosis.region import failing_region, region_of, region_rows
from pipeline.diagnosis.wrong_values.programs import Input, Operation, Program, Ref

SVG = "{http://www.w3.org/2000/svg}"
ADD = Operation("v0", torch.ops.aten.add.Tensor, (Ref("x0"), 1.0), {}, "modeling_x.py:1")
TANH = Operation("v1", torch.ops.aten.tanh.default, (Ref("v0"),), {}, "modeling_x.py:2")
MUL = Operation("v2", torch.ops.aten.mul.Tensor, (Ref("v0"), Ref("v1")), {}, "<x>.py:3")
REGION = region_of(Program((ADD, TANH, MUL), (Input("x0", torch.ones(2), torch.float16),), ("v2",)), TANH)


def test_the_table_says_what_each_operation_reads_and_which_is_wrong() -> None:
    rows = region_rows(REGION)
    assert [r["op"] for r in rows] == ["aten.add.Tensor", "aten.tanh.default", "aten.mul.Tensor"]
    assert [r["reads"] for r in rows] == ["input x0", "aten.add.Tensor", "aten.add.Tensor, aten.tanh.default"]
    assert [r["named"] for r in rows] == ["", "wrong", ""]


def test_the_picture_is_xml_with_a_title_a_box_per_operation_and_a_thick_one() -> None:
    root = ElementTree.fromstring(failing_region(REGION))
    boxes = root.findall(f"{SVG}rect")
    assert [b.get("stroke-width") for b in boxes] == ["1", "3", "1"]
    assert root.findtext(f"{SVG}title") == "Failing region"
    assert root.findtext(f"{SVG}desc") == "3 operations, wrong: aten.tanh.default"
    said = [t.text for t in root.findall(f"{SVG}text")]
    assert "aten.mul.Tensor  <x>.py:3" in said
    assert "x0" in said
    assert len(root.findall(f"{SVG}path")) == 3
