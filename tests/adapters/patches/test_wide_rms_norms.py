"""P58: RMS norms in fp32 between 16-bit values are rounded once, the gain included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

from adapters.errors import PatchDoesNotApply
from adapters.patches.base import PatchContext
from adapters.patches.registry import patch_from
from tests.adapters.patches.families import family

WIDTH = 768


def norm_of(kind: Any) -> Any:
    made = kind(WIDTH)
    nn.init.normal_(made.weight, 1.0, 0.3, torch.Generator().manual_seed(0))
    return made.half().eval()


@pytest.mark.parametrize(("kind", "offset"), [(T5LayerNorm, 0.0), (GemmaRMSNorm, 1.0)])
def test_the_result_is_the_fp64_one_rounded_once(kind: Any, offset: float) -> None:
    norm, x = norm_of(kind), torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(3)).mul(3).half()
    wide = x.double()
    exact = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6) * (norm.weight.double() + offset)
    patch_from({"pattern": "P58"}).apply(norm, PatchContext(torch.device("cpu"), torch.float16))
    found = norm(x)
    assert found.dtype == torch.float16
    assert torch.allclose(found.double(), exact, rtol=2.0**-11 * 1.01, atol=2.0**-24)


def test_stock_rounds_before_the_gain_and_comes_back_with_undo() -> None:
    norm, x = norm_of(T5LayerNorm), torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(3)).half()
    stock = norm(x)
    undo = patch_from({"pattern": "P58"}).apply(norm, PatchContext(torch.device("cpu"), torch.float16))
    assert not torch.equal(norm(x), stock)
    undo()
    assert torch.equal(norm(x), stock)
    assert not {"forward", "rms_epsilon", "gain_offset"} & norm.__dict__.keys()


def test_a_model_without_rms_norms_is_not_its_business() -> None:
    with pytest.raises(PatchDoesNotApply, match="P58: the model has no RMS norm"):
        patch_from({"pattern": "P58"}).match(family("bert"))
