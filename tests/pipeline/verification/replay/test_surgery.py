"""Weight surgery comes back bit for bit from the stock tensors, in-place writes included; what cannot be is refused."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from agents.capture.apply import apply_code
from agents.capture.stock import stock_tensors
from agents.capture.weights import random_stock
from pipeline.verification.replay import ModelReplay, validate_model

NAMES = (
    "mul_",
    "view and mul_",
    "slice assignment",
    "copy_",
    "data",
    "data in place",
    "write after use",
    "chunk and cat",
    "permute by index",
    "diag_embed",
    "load_state_dict",
    "literal",
)


@pytest.mark.parametrize("name", NAMES)
def test_surgery_is_replayed_bit_for_bit(name: str, documents: Any, families: ModuleType, batch: Any) -> None:
    """The naive tape keys a parameter by its object: in-place surgery is then lost without a word (error 2.4)."""
    document = documents["surgery"][name]
    assert isinstance(document, dict), document
    tensors = stock_tensors(random_stock(families.BERT, seed=2))
    validate_model(document, tensors)
    changed = random_stock(families.BERT, seed=2)
    inputs = batch(2, 8)
    with torch.no_grad():
        stock = changed(**inputs).last_hidden_state
        apply_code(changed, families.surgery_code(families.SURGERY[name]))
        expected = changed(**inputs).last_hidden_state
    assert not torch.equal(expected, stock)
    assert torch.equal(ModelReplay(document, tensors).run(inputs), expected)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("out=", "by keyword"),
        ("item", "DataDependent"),
        ("numpy", "numpy|Fake"),
        ("big literal", "at most 64"),
    ],
)
def test_surgery_that_reads_values_or_brings_its_own_is_refused(name: str, reason: str, documents: Any) -> None:
    answer = documents["surgery"][name]
    assert isinstance(answer, str)
    assert any(word in answer for word in reason.split("|")), answer


def test_random_numbers_in_surgery_are_refused_by_the_dictionary(documents: Any, families: ModuleType) -> None:
    from pipeline.verification.replay import DocumentRefused

    tensors = stock_tensors(random_stock(families.BERT, seed=2))
    with pytest.raises(DocumentRefused, match=r"aten\.randn\.default' is not allowed"):
        validate_model(documents["surgery"]["random"], tensors)
