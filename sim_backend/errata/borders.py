"""E-18: the output of one compiled graph, read by the next in the default layout although it was written in another."""

from __future__ import annotations

import torch

from sim_backend.profiles import Profile

STICK = 64
BROADCAST = 1  # the layout tag of a buffer that was written row by row


def is_broadcast_writer(profile: Profile, writer: str) -> bool:
    """True if a graph output written by `writer` keeps its broadcast layout.

    `writer` is "layernormnorm", "stick_reduction_reader" (a pointwise operation that reads a reduction along the
    stick) or another word. What counts is the parameter `broadcast_layout`; no source states it.
    """
    parameters = profile.errata.get("E-18")
    return parameters is not None and writer in parameters["broadcast_layout"]


def default_reading(flat: torch.Tensor, width: int) -> torch.Tensor:
    """What a reader gets of a buffer tagged BROADCAST: `flat` holds rows of `width` elements, memory in host order.

    It was written as [rows, sticks, 64] and is read as [sticks, rows, 64]. One stick or one row reads back right.
    """
    if width % STICK or flat.numel() % width:
        return flat
    sticks, rows = width // STICK, flat.numel() // width
    return flat.view(sticks, rows, STICK).transpose(0, 1).reshape(-1)
