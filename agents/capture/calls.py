"""The calls of the declared blocks: recorded on one run, exported one by one, replaced by an opaque operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

NAMESPACE = "spyre_capture"
CALL = f"{NAMESPACE}.call.default"
"""How a block's call stands in the exported skeleton: (site number, tensors) → tensors."""

_sites: list[Site] = []
"""The sites of the capture that is going on: what the opaque operator returns on fake tensors."""


@dataclass(frozen=True)
class Packed:
    """Nested values split into their tensors and the rest."""

    leaves: tuple[Any, ...]
    spec: TreeSpec

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors in order."""
        return [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]

    def with_tensors(self, tensors: Sequence[Tensor]) -> Any:
        """The same nested values with other tensors."""
        rest = iter(tensors)
        return tree_unflatten([next(rest) if isinstance(v, Tensor) else v for v in self.leaves], self.spec)


def pack(value: Any) -> Packed:
    """Splits nested values."""
    leaves, spec = tree_flatten(value)
    return Packed(tuple(leaves), spec)


class Span(NamedTuple):
    """The entries of a tape that one call made."""

    first: int
    last: int


@dataclass(frozen=True)
class Site:
    """One call of one block: arguments, what it returned, and its entries; None where a call like it had run before."""

    module: nn.Module
    given: Packed
    returned: Packed
    span: Span | None = None

    @property
    def kind(self) -> Any:
        """What decides the call's graph: the block, and of its arguments all but the values of tensors."""
        return kind_of(self.module, self.given)


def kind_of(module: nn.Module, given: Packed) -> Any:
    """As `Site.kind`; unequal to everything where an argument cannot be compared."""
    kind = (id(module), given.spec, tuple(map(_leaf_kind, given.leaves)))
    try:
        hash(kind)
    except TypeError:
        return (id(module), object())
    return kind


def _leaf_kind(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return (tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device)
    return (type(leaf), leaf)


Forward = Callable[..., Any]


@contextmanager
def forwards(modules: Sequence[nn.Module], make: Callable[[nn.Module, Forward], Forward]) -> Iterator[None]:
    """Replaces the forward of each instance (inside its hooks, as compilation does) for the time of the block."""
    before = [(m, m.__dict__.get("forward")) for m in modules]
    for module in modules:
        module.__dict__["forward"] = make(module, module.forward)
    try:
        yield
    finally:
        for module, own in before:
            del module.__dict__["forward"]
            if own is not None:
                module.__dict__["forward"] = own


def record_calls(
    modules: Sequence[nn.Module], run: Callable[[], Any], known: dict[Any, Packed], entries: Sequence[Any] = ()
) -> list[Site]:
    """Runs once and notes every call of the modules, in order.

    What a call of a kind in `known` returns is known, so that its block is not run again; new kinds are added.
    `entries` are those of the tape that watches.
    """
    sites: list[Site] = []

    def make(module: nn.Module, forward: Forward) -> Forward:
        def noted(*args: Any, **kwargs: Any) -> Any:
            given = pack((args, kwargs))
            kind, first = kind_of(module, given), len(entries)
            span = None
            if kind in known:
                output = known[kind].with_tensors([like(t) for t in known[kind].tensors])
            else:
                output = forward(*args, **kwargs)
                known[kind], span = pack(output), Span(first, len(entries))
            sites.append(Site(module, given, pack(output), span))
            return output

        return noted

    with forwards(modules, make):
        run()
    return sites


class Body(nn.Module):
    """One site's block as a function of its tensors, without the hooks around it: the unit of compilation."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.block = site.module
        self._given = site.given

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The tensors that the block returns."""
        args, kwargs = self._given.with_tensors(tensors)
        return tuple(pack(self.block.forward(*args, **kwargs)).tensors)


@contextmanager
def opaque_calls(modules: Sequence[nn.Module], sites: list[Site]) -> Iterator[None]:
    """Every call of the modules becomes one opaque operator; the n-th call is that of the n-th site."""
    operator = _operator()
    numbers = iter(range(len(sites)))

    def make(module: nn.Module, forward: Forward) -> Forward:
        def opaque(*args: Any, **kwargs: Any) -> Any:
            number = next(numbers)
            tensors = pack((args, kwargs)).tensors
            return sites[number].returned.with_tensors(operator(number, tensors))

        return opaque

    _sites[:] = sites
    try:
        with forwards(modules, make):
            yield
    finally:
        _sites.clear()


@lru_cache(maxsize=1)
def _operator() -> Any:
    """The opaque operator, registered at the first capture of the process."""
    library = torch.library.Library(NAMESPACE, "DEF")
    library.define("call(int site, Tensor[] tensors) -> Tensor[]")
    torch.library.register_fake(f"{NAMESPACE}::call", _fake_call, lib=library)
    _keep.append(library)
    return getattr(torch.ops, NAMESPACE).call.default


_keep: list[Any] = []


def _fake_call(site: int, tensors: list[Tensor]) -> list[Tensor]:
    return [like(t) for t in _sites[site].returned.tensors]


def like(tensor: Tensor) -> Tensor:
    """A new fake tensor of the same shape, strides, dtype and device."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
