"""Synthetic values for a reproducer: drawn from a seed, as large and as spread as those the model had."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from pipeline.diagnosis.wrong_values.experiments import is_mask
from pipeline.diagnosis.wrong_values.programs import Input, Program

SEED = 0
HALF_MIN = torch.finfo(torch.float16).min
"""The fill of a mask in a model of 16 bits."""
HELPERS = {
    "drawn": """\
def drawn(shape, stride, offset, mean, rows, spread):
    base = [n if s else 1 for n, s in zip(shape, stride)]
    values = (mean + rows * torch.randn(*base[:-1], 1) + spread * torch.randn(base)).half().float()
    room = torch.zeros(offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride)))
    room.as_strided(base, stride, offset).copy_(values)
    return room.as_strided(shape, stride, offset)""",
    "masked": """\
def masked(shape, allowed, fill):
    mask = torch.full(shape, allowed)
    mask[-1, ..., -max(shape[-1] // 4, 1) :] = fill
    return mask""",
}
"""Functions of the scripts, by name: normal values whose rows have means of their own; a mask of the last row's end."""


def call_text(given: Input) -> str:
    """The call that draws a value like the given one."""
    value, shape = given.value, list(given.value.shape)
    if is_mask(value):
        fill = False if value.dtype == torch.bool else max(float(value.min()), HALF_MIN)
        return f"masked({shape}, {value.dtype == torch.bool or 0.0}, {fill})"
    if not value.is_floating_point():
        high = int(value.max()) + 1 if value.numel() else 1
        return f"torch.randint({min(high - 1, 0)}, {high}, {shape}).to({value.dtype})"
    return f"drawn({shape}, {list(value.stride())}, {value.storage_offset()}, {_statistics(value)})"


def _statistics(value: torch.Tensor) -> str:
    """Mean, spread of the rows' means, spread within rows: two digits each."""
    if value.ndim == 0 or value.numel() < 2:
        return f"{float(value.flatten()[:1].sum()):.4g}, 0.0, 0.0"
    rows = value.double().mean(-1, keepdim=True)
    figures = float(rows.mean()), float(rows.std(unbiased=False)), float((value - rows).std(unbiased=False))
    return ", ".join(f"{f:.2g}" for f in figures)


def helpers(texts: list[str]) -> list[str]:
    """The source of the functions that the texts call."""
    return [source for name, source in HELPERS.items() if any(t.startswith(f"{name}(") for t in texts)]


def with_synthetic_values(program: Program) -> Program:
    """The program fed with the values its script will draw."""
    names: dict[str, Any] = {"torch": torch, "inf": torch.inf}
    exec("\n".join(HELPERS.values()), names)  # noqa: S102 - the scripts' own text
    torch.manual_seed(SEED)
    values = [eval(call_text(i), names) for i in program.inputs]  # noqa: S307 - text this module made
    return replace(program, inputs=tuple(replace(i, value=v) for i, v in zip(program.inputs, values, strict=True)))
