"""What every patch is: match, apply, undo, digest, and how exact it claims to be."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import nn

from ..digests import digest_of, source_digest, sources_digest

if TYPE_CHECKING:
    from ..replay.documents import DocumentSet

Undo = Callable[[], None]


class Target(NamedTuple):
    """One place that a patch acts on: a module and its path in the model ("" is the model itself)."""

    path: str
    module: nn.Module


@dataclass
class HostCall:
    """What the host parts of one call know: the caller's length in tokens and the padding that was added."""

    length: int = 0
    added: int = 0
    left: bool = False


HostStage = Callable[[dict[str, Any], HostCall], dict[str, Any]]


@dataclass
class PatchContext:
    """What a patch may set for the run.

    `dtype` is that of the device run. `before` holds what the host does to the inputs of each call, by phase (length
    before mask). `host_modules` holds modules that stay on the host in its dtype; `host_inputs` names inputs of the
    model that are read there; `declared` what the caller does; `instead` are documents that stand in for the forward.
    """

    device: torch.device
    dtype: torch.dtype
    before: list[tuple[int, HostStage]] = field(default_factory=list)
    host_modules: list[nn.Module] = field(default_factory=list)
    host_inputs: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    instead: DocumentSet | None = None

    def add_stage(self, phase: int, stage: HostStage) -> Undo:
        """Adds a host stage; the result takes it out again."""
        entry = (phase, stage)
        self.before.append(entry)
        return lambda: self.before.remove(entry)

    def keep_on_host(self, name: str) -> Undo:
        """Leaves an input of the model on the host; the result takes that back."""
        self.host_inputs.append(name)
        return lambda: self.host_inputs.remove(name)

    def stay_on_host(self, module: nn.Module) -> Undo:
        """Leaves a module on the host; the result takes that back."""
        self.host_modules.append(module)
        return lambda: self.host_modules.remove(module)


PHASE_COMPLETE, PHASE_LENGTH, PHASE_POSITIONS, PHASE_MASK = 0, 10, 20, 30


@dataclass(frozen=True)
class Patch(ABC):
    """One math-equivalent replacement. Dataclass fields are its parameters (JSON).

    `mathematics` states in one line why the replacement is equal; `exactness` is `exact` or `bounded` with `bound`.
    `needs` and `conflicts` are patterns that must, or must not, be in one set with it.
    """

    pattern: ClassVar[str]
    mathematics: ClassVar[str]
    exactness: ClassVar[str] = "exact"
    bound: ClassVar[float | None] = None
    needs: ClassVar[tuple[str, ...]] = ()
    conflicts: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def match(self, model: nn.Module) -> list[Target]:
        """Where the patch acts, at least one place. Raises PatchDoesNotApply with the reason; changes nothing."""

    @abstractmethod
    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Acts on the instances that `match` finds, on the CPU, before anything is cast or moved.

        The result takes everything back: original objects return by identity. Raises PatchDoesNotApply.
        """

    @abstractmethod
    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes and functions whose source the replacement relies on."""

    def parameters(self) -> dict[str, Any]:
        """The parameters as plain data."""
        return asdict(self)

    def target_digest(self, model: nn.Module) -> str:
        """sha256 over the sources that the patch replaces or relies on; comments and layout do not count."""
        return sources_digest(self.replaced(model))

    def digest(self, model: nn.Module) -> str:
        """sha256 over the patch's own code, its parameters and the source of what it replaces."""
        own = self._own_digest()
        return digest_of([self.pattern, own, self.parameters(), self.target_digest(model)])

    def _own_digest(self) -> str:
        """Of the module that the patch is written in, and of those of patches that it is derived from."""
        modules = dict.fromkeys(k.__module__ for k in type(self).__mro__ if issubclass(k, Patch) and k is not Patch)
        digests = [source_digest(sys.modules[name]) for name in modules]
        return digests[0] if len(digests) == 1 else digest_of(digests)


def types_of(targets: list[Target]) -> list[type]:
    """The distinct classes of the targets' modules."""
    return list({type(t.module) for t in targets})
