"""P57: layer norms in fp32 between 16-bit values are rounded once, whatever the width of the row."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from adapters.errors import PatchDoesNotApply
from adapters.patches.norms import layer_norm_of
from adapters.patches.registry import patch_from
from adapters.patches.wide_norms import wide_layer_norm
from tests.adapters.patches.families import family

WIDTH = 768


def norm_of(weight: bool, bias: bool) -> nn.LayerNorm:
    made = nn.LayerNorm(WIDTH, elementwise_affine=weight, bias=bias)
    for number, parameter in enumerate(made.parameters()):
        nn.init.normal_(parameter, 1.0 - number, 0.3, torch.Generator().manual_seed(number))
    return made.half().eval()


@pytest.mark.parametrize(("weight", "bias"), [(True, True), (True, False), (False, False)])
def test_the_result_is_the_fp64_one_rounded_once(weight: bool, bias: bool) -> None:
    norm = norm_of(weight, bias)
    x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(3)).mul(3).add(2).half()
    exact = wide_layer_norm(norm.double(), x.double())
    assert torch.allclose(exact, nn.functional.layer_norm(x.double(), (WIDTH,), norm.weight, norm.bias), rtol=1e-12)
    found = wide_layer_norm(norm.half(), x)
    assert found.dtype == torch.float16
    assert torch.allclose(found.double(), exact, rtol=2.0**-11 * 1.01, atol=2.0**-24)
    assert not torch.allclose(layer_norm_of(norm, x).double(), exact, rtol=2.0**-11 * 1.01, atol=2.0**-24)


def test_a_model_without_layer_norms_is_not_its_business() -> None:
    with pytest.raises(PatchDoesNotApply, match="P57: the model has no layer norm"):
        patch_from({"pattern": "P57"}).match(family("llama"))
