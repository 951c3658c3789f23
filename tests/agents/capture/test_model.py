"""What capture refuses of a stock model."""

from __future__ import annotations

import pytest

from agents.capture.case import Case
from agents.capture.errors import CaptureRefused
from agents.capture.model import capture_stock
from pipeline.verification.selftest.subjects import SUBJECTS


def test_a_stock_model_whose_sizes_depend_on_values_is_refused_with_the_reason() -> None:
    """XMOD picks the rows of a language by a mask."""
    with pytest.raises(CaptureRefused, match=r"nonzero.* depends on values"):
        capture_stock(SUBJECTS["xmod"], [Case(2, 8, "float32")])
