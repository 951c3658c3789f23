"""Random weights that two processes draw alike from one seed: for the comparison of code with its document."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .stock import build_model, config_of


def random_stock(config: dict[str, Any], seed: int) -> nn.Module:
    """The stock model of a config.json's content, fp32 on the CPU, eval, every parameter drawn from `seed`.

    Matrices have a standard deviation of 1/sqrt(columns); vectors lie around 1 if they are a norm's weight, else 0.
    """
    model = build_model(config_of(config))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_drawn(name, parameter, generator))
    return model


def _drawn(name: str, parameter: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    noise = torch.randn(parameter.shape, generator=generator)
    if parameter.ndim >= 2:
        return noise / float(parameter.shape[-1]) ** 0.5
    return 0.1 * noise + float("norm" in name.lower() and name.endswith("weight"))
