"""Block by block: each fed with the CPU's values (its own error), and end to end on the device (the error curve).

The CPU chain uses the weights as 16 bits hold them, so that only what the device computes is compared. Beside each
error stands that of an ideal 16-bit run of the same chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pipeline.diagnosis.wrong_values.blocks import BlockCall, main_output, rounded_half, without_hooks
from pipeline.diagnosis.wrong_values.compare import Difference, difference, ideal_results, relative
from pipeline.diagnosis.wrong_values.device_runs import DeviceBlocks, fetch, upload
from pipeline.diagnosis.wrong_values.rounding import Mode, ideal_run


@dataclass(frozen=True)
class Boundary:
    """One block's end.

    `own` is the block fed with the CPU's values; `total` and `ideal` are relative errors since the first block, on the
    device and in an ideal 16-bit run. `handed` compares the block fed with the previous one's output as it is on the
    device with the same values uploaded anew; None where nothing was handed over.
    """

    call: BlockCall
    own: Difference
    total: float
    ideal: float
    handed: Difference | None

    def point(self) -> dict[str, Any]:
        """One point of the error curve, for evidence."""
        return {
            "block": self.call.path,
            "own": self.own.error if self.own.finite else None,
            "own_explained": self.own.explained,
            "total": self.total if self.total == self.total else None,
            "total_ideal": self.ideal,
        }


@dataclass
class _Chain:
    """The last block's output in each of the runs."""

    reference: torch.Tensor | None = None
    device: torch.Tensor | None = None
    ideal: list[torch.Tensor] | None = None
    """One per way of rounding: the larger error is what rounding explains."""
    real: torch.Tensor | None = None

    def kept(self, output: torch.Tensor) -> torch.Tensor:
        """The rows of real tokens of a block's output; all of it where it has other rows."""
        return output if self.real is None or output.shape[:2] != self.real.shape else output[self.real]


def boundaries(calls: Sequence[BlockCall], real: torch.Tensor | None = None) -> Iterator[Boundary]:
    """Walk the blocks of one run in order; raises Refused where the device refuses a block.

    `real` [batch, length] is true for real tokens: only they are compared, since a padding token that may look at
    nothing has no right value.
    """
    chain, placed, previous = _Chain(real=real), DeviceBlocks(), None
    for call in calls:
        link = _handed_argument(call, previous)
        yield _one(call, link if previous is not None else None, chain, placed)
        previous = call


def _one(call: BlockCall, link: torch.Tensor | None, chain: _Chain, placed: DeviceBlocks) -> Boundary:
    on_cpu = without_hooks(call.block).half().float()
    on_device = placed.place(call.block)
    arguments = pytree.tree_map(rounded_half, (call.args, call.kwargs))
    given = _with(call, arguments, link, None if chain.reference is None else rounded_half(chain.reference))

    def run(*leaves: Any) -> torch.Tensor:
        args, kwargs = pytree.tree_unflatten(list(leaves), spec)
        return main_output(on_cpu(*args, **kwargs))

    leaves, spec = pytree.tree_flatten(given)
    with torch.no_grad():
        reference = run(*leaves)
    own_ideal = ideal_results(run, leaves)
    uploaded = pytree.tree_map(upload, given)
    got = main_output(on_device(*uploaded[0], **uploaded[1]))
    own = difference(chain.kept(fetch(got)), chain.kept(reference), [chain.kept(i) for i in own_ideal])
    ideal, total, handed = own_ideal, got, None
    if link is not None and chain.device is not None and chain.ideal is not None:
        before = [pytree.tree_leaves(_with(call, arguments, link, value)) for value in chain.ideal]
        ideal = [ideal_run(run, leaves, mode) for leaves, mode in zip(before, Mode, strict=True)]
        through = _with(call, uploaded, link, chain.device, original=(call.args, call.kwargs))
        total = main_output(on_device(*through[0], **through[1]))
        fresh = _with(call, uploaded, link, _anew(chain.device), (call.args, call.kwargs))
        anew = fetch(main_output(on_device(*fresh[0], **fresh[1])))
        handed = difference(chain.kept(fetch(total)), chain.kept(anew), [chain.kept(anew)])
    chain.reference, chain.device, chain.ideal = reference, total, ideal
    wanted = chain.kept(reference)
    explained = max(_error(chain.kept(i), wanted) for i in ideal)
    return Boundary(call, own, _error(chain.kept(fetch(total)), wanted), explained, handed)


def _error(values: torch.Tensor, reference: torch.Tensor) -> float:
    return relative(values, reference) if bool(torch.isfinite(values).all()) else float("nan")


def _anew(value: torch.Tensor) -> torch.Tensor:
    moved: torch.Tensor = value.cpu().to(value.device)
    return moved


def _handed_argument(call: BlockCall, previous: BlockCall | None) -> torch.Tensor | None:
    """The argument that is the previous block's output; None where something stands between."""
    if previous is None:
        return None
    made = previous.output
    return next((t for t in pytree.tree_leaves((call.args, call.kwargs)) if t is made), None)


def _with(call: BlockCall, arguments: Any, link: torch.Tensor | None, value: Any, original: Any = None) -> Any:
    """The arguments with `value` in the place of `link`, the previous block's output."""
    if link is None or value is None:
        return arguments
    leaves, spec = pytree.tree_flatten(arguments)
    given = pytree.tree_leaves(original or (call.args, call.kwargs))
    return pytree.tree_unflatten([value if g is link else leaf for g, leaf in zip(given, leaves, strict=True)], spec)
