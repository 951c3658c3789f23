"""A copy of a model whose tensors are fake ones on the device: full size, no memory. The model is not touched."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

_ANSWERS = ("__deepcopy__", "train")
_IDENTITIES = ("layer_idx", "layer_id", "layer_index", "training", "idx", "layer_number")


def fake_copy(
    model: torch.nn.Module, mode: FakeTensorMode, dtype: torch.dtype | None, blocks: Sequence[str] = ()
) -> torch.nn.Module:
    """`model` with every parameter and buffer fake on the device; floating ones in `dtype` if given.

    Shared tensors stay shared. Parameters may be on meta or the CPU; their data is not read. In a model that was split
    between host and device (tensors on more than one device) those on the CPU are its host parts and stay there.
    Like parameters of `blocks`, paths of which one of each kind is looked at, are one fake tensor: made anew for every
    layer they are a tenth of the report on Qwen3-8B.
    """
    memo: dict[int, Any] = {}
    is_split = len({t.device.type for t in [*model.parameters(), *model.buffers()]}) > 1

    def fake(t: torch.Tensor) -> torch.Tensor:
        on_host = is_split and t.device.type == "cpu"
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) if on_host else fake_like(t, dtype)

    places, fakes = _places(model, blocks), dict[Any, torch.nn.Parameter]()
    with mode:
        for p in model.parameters():
            key = (places.get(id(p), id(p)), p.shape, p.stride(), p.dtype, p.device)
            if key not in fakes:
                fakes[key] = torch.nn.Parameter(fake(p), requires_grad=False)
            memo[id(p)] = fakes[key]
        for buffer in model.buffers():
            memo[id(buffer)] = fake(buffer)
    with torch.no_grad(), _copied_as_it_is(model):
        made = copy.deepcopy(model, memo)
    return made.eval()


def _places(model: torch.nn.Module, blocks: Sequence[str]) -> dict[int, str]:
    """The name inside its block, by id, of every parameter that the model holds in one place alone, a block.

    Within one block no two have one name, so that what is not tied stays untied. Empty if blocks may be nested.
    """
    if len({path.rpartition(".")[0] for path in blocks}) != 1:
        return {}
    held = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    named = ((name, p) for path in blocks for name, p in model.get_submodule(path).named_parameters())
    return {id(p): name for name, p in named if held[id(p)] == 1}


@contextmanager
def _copied_as_it_is(model: torch.nn.Module) -> Iterator[None]:
    """Puts aside what instances answer instead of being copied or set to eval: an adapted model would give stock."""
    aside = [(m, name, m.__dict__.pop(name)) for m in model.modules() for name in _ANSWERS if name in m.__dict__]
    try:
        yield
    finally:
        for module, name, answer in aside:
            module.__dict__[name] = answer


def fake_like(t: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """An uninitialised device tensor with the size and stride of `t`; call it inside a fake mode."""
    kept = dtype if dtype is not None and t.is_floating_point() else t.dtype
    return torch.empty_strided(t.shape, t.stride(), dtype=kept, device="spyre")


def find_blocks(model: torch.nn.Module) -> list[str]:
    """Paths of the transformer blocks: elements of the module list with most parameters, the outermost of equals."""
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, torch.nn.ModuleList) and len(m)]
    if not lists:
        return []
    name, _ = max(lists, key=lambda entry: sum(p.numel() for p in entry[1].parameters()))
    return [f"{name}.{i}".lstrip(".") for i in range(len(model.get_submodule(name)))]  # type: ignore[arg-type]


def structure_of(module: torch.nn.Module) -> tuple[Any, ...]:
    """What makes two blocks one kind: class tree, tensor sizes and dtypes, scalars without the layer's number."""
    return tuple(
        (name, type(m).__qualname__, _scalars(m), _tensors(m._parameters), _tensors(m._buffers))
        for name, m in module.named_modules()
    )


def describe_arguments(values: Any) -> tuple[Any, ...]:
    """A hashable description of arguments: tensors by size, stride, offset, dtype; scalars by value; others by type."""
    leaves, spec = torch.utils._pytree.tree_flatten(values)
    return (str(spec), tuple(_describe(v) for v in leaves))


def _describe(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), tuple(value.stride()), value.storage_offset(), str(value.dtype), value.device.type
    return repr(value) if isinstance(value, int | float | bool | str | type(None)) else type(value).__qualname__


def _scalars(module: torch.nn.Module) -> tuple[Any, ...]:
    attributes = sorted((k, v) for k, v in vars(module).items() if not k.startswith("_") and k not in _IDENTITIES)
    return tuple((k, repr(v)) for k, v in attributes if isinstance(v, int | float | bool | str | type(None)))


def _tensors(table: dict[str, torch.Tensor | None]) -> tuple[Any, ...]:
    present = [(k, v) for k, v in table.items() if v is not None]
    return tuple((k, tuple(v.shape), tuple(v.stride()), str(v.dtype)) for k, v in present)


def paths_of(model: torch.nn.Module, blocks: Sequence[str | torch.nn.Module] | None) -> list[str]:
    """Block paths from paths or modules of `model`. Raises ValueError for a module that is not in it."""
    if blocks is None:
        return find_blocks(model)
    names = {id(m): n for n, m in model.named_modules()}
    paths = [b if isinstance(b, str) else names.get(id(b)) for b in blocks]
    known = set(names.values())
    missing = [b for b, p in zip(blocks, paths, strict=True) if p not in known]
    if missing:
        raise ValueError(f"not a module of {type(model).__name__}: {missing[0]!r}")
    return [p for p in paths if p is not None]
