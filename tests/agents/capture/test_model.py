"""What capture refuses of a stock model."""

from __future__ import annotations

import json

import pytest

from agents.capture.case import Case
from agents.capture.errors import CaptureRefused
from agents.capture.model import capture_stock
from agents.capture.stock import stock_tensors
from pipeline.verification.replay import validate_model
from pipeline.verification.selftest.subjects import SUBJECTS, stock_model


def test_a_stock_model_whose_sizes_depend_on_values_is_refused_with_the_reason() -> None:
    """XMOD picks the rows of a language by a mask."""
    with pytest.raises(CaptureRefused, match=r"nonzero.* depends on values"):
        capture_stock(SUBJECTS["xmod"], [Case(2, 8, "float32")])


def test_a_number_that_the_code_makes_a_tensor_of_is_a_literal_of_the_document() -> None:
    """DeBERTa divides scores by the root of `torch.tensor(width)`, which export makes anew."""
    [document] = capture_stock(SUBJECTS["deberta"], [Case(2, 8, "float32")])
    validate_model(document, stock_tensors(stock_model("deberta")), placed=False)
    literals = [node["args"] for node in document["constants"]["nodes"] if node["op"] == "literal"]
    assert any("32.0" in json.dumps(one) for one in literals)


def test_a_second_name_of_an_operator_stands_under_its_first() -> None:
    """ConvBERT calls `torch.multiply`, and lays windows beside each other by `unfold`."""
    [document] = capture_stock(SUBJECTS["convbert"], [Case(2, 8, "float32")])
    validate_model(document, stock_tensors(stock_model("convbert")), placed=False)
    used = {node["op"] for graph in document["graphs"] for node in graph["nodes"]}
    assert "aten.im2col.default" in used
    assert "aten.multiply.Tensor" not in used


def test_a_tensor_seen_in_another_s_shape_is_an_operator_of_the_document() -> None:
    """RoFormer lays its sines out by `reshape_as`."""
    [document] = capture_stock(SUBJECTS["roformer"], [Case(2, 8, "float32")])
    validate_model(document, stock_tensors(stock_model("roformer")), placed=False)
    assert "aten.reshape_as.default" in {node["op"] for graph in document["graphs"] for node in graph["nodes"]}
