"""A module from a function, for element-wise documents."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Function = Callable[[torch.Tensor], torch.Tensor]


class Written(nn.Module):
    """A module whose forward is `function`."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)
