"""Graph form (design §5): a whole model as one compiled graph, whose layers are compiled once per kind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class GraphForm:
    """`model` on the device as one static graph. Its blocks are nested compile regions while it is called.

    `blocks` are paths or modules, by default the elements of the largest module list; one whose forward was replaced on
    the instance is compiled in its place. Values and errata are those of
    `torch.compile(model, fullgraph=True, dynamic=False)`; only the time to compile differs. A call raises what the
    compiled model raises.
    """

    def __init__(self, model: torch.nn.Module, blocks: Sequence[str | torch.nn.Module] | None = None) -> None:
        import torch

        from sim_backend.compiler.fake_model import paths_of

        kinds = {type(model.get_submodule(path)) for path in paths_of(model, blocks)}
        self._regions = {kind: _region(kind) for kind in kinds}
        self._compiled = torch.compile(model, fullgraph=True, dynamic=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result."""
        with self._as_regions():
            return self._compiled(*args, **kwargs)

    @contextlib.contextmanager
    def _as_regions(self) -> Iterator[None]:
        # On the class: PyTorch 2.13 gives every call of a region the weights of the first where an instance has it.
        held = {kind: kind.forward for kind in self._regions}
        for kind, region in self._regions.items():
            kind.forward = region  # type: ignore[method-assign]
        try:
            with _renamed_once():
                yield
        finally:
            for kind, forward in held.items():
                kind.forward = forward  # type: ignore[method-assign]


@contextlib.contextmanager
def _renamed_once() -> Iterator[None]:
    """Dynamo asks a layer's 200 guards anew under the next layer's name; it would rename all that lead there each time.

    A source never changes, so that what one renaming made of it is kept beside that renaming.
    """
    from torch._guards import ChainedSource

    plain = ChainedSource.clone

    def clone(source: Any, rename: Any = None) -> Any:
        if rename is None:
            return plain(source, rename)
        made = rename.__dict__.setdefault("made", {})
        if source not in made:
            made[source] = plain(source, rename)
        return made[source]

    ChainedSource.clone = clone  # type: ignore[method-assign]
    try:
        yield
    finally:
        ChainedSource.clone = plain  # type: ignore[method-assign]


def _region(kind: Any) -> Callable[..., Any]:
    """The forward of `kind` as a nested region called by position: Dynamo flattens named arguments by tracing pytree.

    Its code has the kind's name: Dynamo knows regions that it has traced by their code, which differs by name alone.
    """
    import torch

    forward = kind.forward

    def by_position(module: Any, names: str, *values: Any) -> Any:
        keys = names.split()
        first = len(values) - len(keys)
        return forward(module, *values[:first], **dict(zip(keys, values[first:], strict=True)))

    named = f"{kind.__module__}_{kind.__qualname__}".replace(".", "_")
    by_position.__code__ = by_position.__code__.replace(co_name=named)
    nested = torch.compiler.nested_compile_region(by_position)

    def region(self: Any, *args: Any, **kwargs: Any) -> Any:
        return nested(self, " ".join(kwargs), *args, *kwargs.values())

    return region
