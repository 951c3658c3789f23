"""E-34: a write into a slice from a prefix view copies the whole storage, once prefixes of two lengths were written."""

from __future__ import annotations

import torch

from sim_backend.errata.rule import Operand
from sim_backend.profiles import Profile


class PrefixWrites:
    """The lengths of the prefix views that were written into slices in this process."""

    def __init__(self) -> None:
        self.lengths: set[int] = set()

    def note(self, source: Operand, target: Operand) -> int | None:
        """Elements that this copy writes, if they are not those of `source`: as many as the storages hold."""
        if not (is_prefix(source) and is_slice(target)):
            return None
        length = source.shape[0]
        follows_another = bool(self.lengths - {length})
        self.lengths.add(length)
        return min(source.extent, target.extent - target.offset) if follows_another else None


def is_prefix(operand: Operand) -> bool:
    """True for the first rows of a larger storage."""
    elements = torch.Size(operand.shape).numel()
    return bool(operand.shape) and operand.is_contiguous and operand.offset == 0 and 0 < elements < operand.extent


def is_slice(operand: Operand) -> bool:
    """True for whole rows that are not all of their storage."""
    return operand.is_contiguous and torch.Size(operand.shape).numel() < operand.extent


WRITES = PrefixWrites()


def write_prefix(profile: Profile, source: torch.Tensor, target: torch.Tensor) -> bool:
    """Copy device tensor `source` to `target` as E-34 does and return True; False if the copy is an ordinary one."""
    from sim_backend.device import ext
    from sim_backend.errata.eager import operand_of

    on_device = source.device.type == target.device.type == "spyre" and source.dtype == target.dtype
    if not on_device or source.shape != target.shape or not profile.has("E-34"):
        return False
    count = WRITES.note(operand_of(source), operand_of(target))
    if count is None:
        return False
    read, written = (torch.as_strided(t, (count,), (1,)) for t in (source, target))
    ext.cpu_alias(written).copy_(ext.cpu_alias(read))
    return True
