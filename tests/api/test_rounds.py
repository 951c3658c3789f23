"""What a new round changed, line by line."""

from __future__ import annotations

from typing import Any

from api.pages.rounds import set_diff

DOCUMENT: dict[str, Any] = {
    "nodes": [{"op": "aten.mul.Tensor", "args": [{"ref": 0}, {"ref": 0}]}],
    "output": {"ref": 1},
}


def patch(pattern: str, **parameters: Any) -> dict[str, Any]:
    return {"pattern": pattern, "exactness": "exact", "drafter": "rules", "parameters": parameters, "proof": ["step"]}


def changed(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    return [line.sign + line.text for line in set_diff({"patches": before}, {"patches": after}) if line.sign in "+−"]


def test_a_changed_parameter_is_one_line_gone_and_one_new() -> None:
    found = changed([patch("P20", head_dim=32, padded_head_dim=64)], [patch("P20", head_dim=32, padded_head_dim=128)])
    assert found == ["−    padded_head_dim = 64", "+    padded_head_dim = 128"]


def test_documents_and_code_are_compared_by_line() -> None:
    longer = {**DOCUMENT, "nodes": [*DOCUMENT["nodes"], {"op": "aten.add.Tensor", "args": [{"ref": 1}, 1]}]}
    assert changed([patch("P01", document=DOCUMENT)], [patch("P01", document=longer)]) == [
        "+    v2 = aten.add.Tensor(v1, 1)"
    ]
    assert changed([patch("code", source="a = 1\nb = 2")], [patch("code", source="a = 1\nb = 3")]) == [
        "−    b = 2",
        "+    b = 3",
    ]


def test_a_struck_patch_is_gone_and_the_same_set_has_no_difference() -> None:
    both = [patch("P20", head_dim=32), patch("P63", multiple=64)]
    assert changed(both, both[:1]) == [
        "−P63: exact, drafted by rules",
        "−    multiple = 64",
        "−    proof: step",
    ]
    assert set_diff({"patches": both}, {"patches": both}) == []
