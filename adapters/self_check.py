"""Two questions about a set of patches: is each of them the same mathematics here, and is each of them still needed?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from .adaptation import adapt
from .errors import AdapterError
from .patches.registry import class_of, in_order

Data = Mapping[str, Any]
SPLITTERS = ("P27",)
"""Patterns that change where others act: they stand beside each patch that is checked alone."""


def self_check(model: nn.Module, patches: Sequence[Data], inputs: Mapping[str, torch.Tensor]) -> list[dict[str, Any]]:
    """Per patch, alone with what it needs, the largest difference from stock at real tokens in fp64 on the CPU.

    `model` is stock and is not changed; it is copied, so give it cut to a few layers. `inputs` are int64
    [batch, length] with an attention_mask. Returns [{"pattern", "difference" (of the largest value), "exactness",
    "bound"}, ...]. Raises what `adapt` raises.
    """
    whole = copy.deepcopy(model).double()
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        stock = whole(**inputs).last_hidden_state[real]
        return [_checked(whole, chosen, inputs, real, stock) for chosen in _alone(patches)]


def _alone(patches: Sequence[Data]) -> list[list[Data]]:
    splitters = [p for p in patches if p["pattern"] in SPLITTERS]
    return [[*_needed(patch, patches), *(s for s in splitters if s is not patch), patch] for patch in patches]


def _needed(patch: Data, patches: Sequence[Data]) -> list[Data]:
    return [p for p in patches if p["pattern"] in class_of(patch["pattern"]).needs]


def _checked(whole: nn.Module, chosen: list[Data], inputs: Any, real: Any, stock: torch.Tensor) -> dict[str, Any]:
    cls = class_of(chosen[-1]["pattern"])
    with adapt(whole, patches=in_order(chosen), device="cpu", dtype="float64", compile=False):
        found = whole(**inputs).last_hidden_state[real]
    difference = float((found - stock).abs().max() / stock.abs().max())
    return {"pattern": cls.pattern, "difference": difference, "exactness": cls.exactness, "bound": cls.bound}


def expired(patches: Sequence[Data], failures: Callable[[list[Data]], Sequence[str]]) -> list[str]:
    """The patterns without which nothing more fails than with the whole set: they can go.

    `failures` names what fails for a set of patches (a capability report, or a run); it is asked once for the whole set
    and once without each patch. A patch without which the set cannot be put on is needed.
    """
    known = set(failures(list(patches)))
    return [
        p["pattern"] for n, p in enumerate(patches) if not _more([*patches[:n], *patches[n + 1 :]], failures, known)
    ]


def _more(rest: list[Data], failures: Callable[[list[Data]], Sequence[str]], known: set[str]) -> bool:
    try:
        return bool(set(failures(rest)) - known)
    except AdapterError:
        return True
