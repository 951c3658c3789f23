"""The patched model on real tensors: random weights, given inputs, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .apply import place_patched
from .case import DTYPES
from .weights import random_stock


def run_patched(
    config: dict[str, Any], patches: Sequence[Mapping[str, Any]], dtype: str, seed: int, inputs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Outputs [batch, length, width] by batch number for `inputs` named "N.name"; weights are drawn from `seed`.

    Patches of drafted code run right here: inside the sandbox only. One thread, no gradients.
    """
    torch.set_num_threads(1)
    batches: dict[str, dict[str, Tensor]] = {}
    for key, tensor in inputs.items():
        number, _, name = key.partition(".")
        batches.setdefault(number, {})[name] = tensor
    with torch.no_grad():
        runner = place_patched(random_stock(config, seed), patches, torch.device("cpu"), DTYPES[dtype])
        outputs = {n: runner(**batches[n]) for n in sorted(batches, key=int)}
    return {n: hidden_of(o).contiguous() for n, o in outputs.items()}


def hidden_of(output: Any) -> Tensor:
    """The last hidden state in what a model returns."""
    found: Tensor = output.last_hidden_state if hasattr(output, "last_hidden_state") else output[0]
    return found
