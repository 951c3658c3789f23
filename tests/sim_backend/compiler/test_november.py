"""The compiler of 2025-11: no constants, no conversions, few loop-level operations (facts 3.3, 3.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError
from torch.nn import functional as F

pytestmark = pytest.mark.fact("3.3", "3.6")
X = torch.linspace(-3, 3, 4 * 64).reshape(4, 64).half()


@pytest.fixture(autouse=True)
def november(use: Callable[..., Any]) -> None:
    use("profile-2025-11")


def test_a_scalar_in_compiled_code_raises(run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match="TOOO: implement SDSC generation for constants"):
        run(lambda x: x + 1, X)


def test_a_conversion_is_taken_out_and_the_compiler_says_so(
    run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(lambda x: torch.exp(x.float()), X)
    assert "WARNING: NO-OPING torch.float16 -> torch.float32" in capsys.readouterr().out
    torch.testing.assert_close(result, torch.exp(X.float()), rtol=4e-3, atol=0)


def test_silu_is_a_product_with_the_sigmoid(run: Callable[..., Any]) -> None:
    torch.testing.assert_close(run(F.silu, X), F.silu(X.float()), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("function", [torch.neg, F.gelu, F.mish, torch.maximum, torch.lt])
def test_what_later_is_native_compiles_to_an_exception(function: Callable[..., Any], run: Callable[..., Any]) -> None:
    operands = (X, X) if function in (torch.maximum, torch.lt) else (X,)
    with (
        pytest.warns(UserWarning, match="Compiling unimplemented .* to runtime exception"),
        pytest.raises(RuntimeError, match="which contains unimplemented operation"),
    ):
        run(function, *operands)
