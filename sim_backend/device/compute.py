"""Runs one ATen operation on device tensors: decode, compute on the CPU in float32, round, encode.

Nothing is refused here; `eager` asks the profile first. Results of fp16 and bf16 operations are rounded to DL16, after
each of the steps the device's compiler makes of the operation (`steps`); int64 results are wrapped to 31 bits, float32
and the rest are plain. Mutated arguments are written in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload

from sim_backend.device import ext
from sim_backend.device.steps import steps_for

_DL16 = (torch.float16, torch.bfloat16)
# Operations that only move elements: they take the codes as they are. "alike": all tensors must have one dtype;
# "indexed": all floating ones, the others are indices.
_MOVES = {
    "aten.cat.default": "alike",
    "aten.cat.out": "alike",
    "aten.stack.default": "alike",
    "aten.flip.default": "alike",
    "aten.repeat.default": "alike",
    "aten.roll.default": "alike",
    "aten.index_select.default": "indexed",
    "aten.index_select.out": "indexed",
    "aten.gather.default": "indexed",
    "aten.gather.out": "indexed",
    "aten.index.Tensor": "indexed",
    "aten.index.Tensor_out": "indexed",
    "aten.embedding.default": "indexed",
}
_REAL = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


class Shape(NamedTuple):
    """What the schema says about writing: argument names by position, which are written, which are only results."""

    names: tuple[str, ...]
    written: frozenset[str]
    outs: frozenset[str]
    returns: tuple[str | None, ...]  # the written argument that a result is, or None for a new tensor
    moves: str | None  # it only moves elements, so codes may stay codes: see _MOVES
    random: bool  # it takes a generator; without one the device's own is used


def compute(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of `func` on the simulated device; tensors among the arguments may be on the device or 0-dim on CPU.

    Raises RuntimeError for a CPU tensor with dimensions among device tensors.
    """
    shape = shape_of(func)
    named = dict(zip(shape.names, args, strict=False)) | kwargs
    tensors = _tensors(named.values())
    _check_one_device(tensors)
    moves = shape.moves is not None and _one_dtype(shape.moves, tensors)
    read = ext.cpu_alias if moves else ext.to_compute
    host = {name: _host_argument(value, read, name in shape.outs) for name, value in named.items()}
    result = _evaluate(func, shape, host, named, len(args))
    _write_back(shape, named, host, moves)
    return tuple_of(shape, result, named, lambda r: _wrap(r, _float_dtype(named.values(), tensors), moves))


def _evaluate(func: OpOverload, shape: Shape, host: dict[str, Any], named: dict[str, Any], positional: int) -> Any:
    """The result on the host: by the steps of the operation if it has some, else by the CPU's kernel."""
    steps = steps_for(func, _float_dtype(named.values(), _tensors(named.values())), host)
    if steps is None:
        return call_with(func, host, positional)
    result = steps(**{n: v for n, v in host.items() if n not in shape.outs})
    own = shape.returns[0]
    if own is not None:
        host[own] = result
    return result


def _one_dtype(moves: str, tensors: list[torch.Tensor]) -> bool:
    return len({t.dtype for t in tensors if moves == "alike" or t.is_floating_point()}) == 1


def check_devices(values: Any) -> None:
    """Raises RuntimeError if device tensors and CPU tensors with dimensions are mixed."""
    _check_one_device(_tensors(values))


def _check_one_device(tensors: list[torch.Tensor]) -> None:
    if all(t.device.type == "spyre" or t.dim() == 0 for t in tensors):
        return
    found = sorted({str(t.device) for t in tensors if t.device.type == "spyre" or t.dim() > 0})
    if len(found) > 1:
        raise RuntimeError(f"Expected all tensors to be on the same device, but found: {found!r}")


@cache
def shape_of(func: OpOverload) -> Shape:
    arguments = func._schema.arguments
    written = {a.name: set(a.alias_info.before_set) for a in arguments if a.alias_info and a.alias_info.is_write}
    returns: list[str | None] = []
    for result in func._schema.returns:
        aliases = set(result.alias_info.before_set) if result.alias_info and result.alias_info.is_write else set()
        returns.append(next((n for n, own in written.items() if aliases & own), None))
    outs = frozenset(a.name for a in arguments if a.is_out)
    random = any(a.name == "generator" for a in arguments)
    names = [a.name for a in arguments]
    return Shape(tuple(names), frozenset(written), outs, tuple(returns), _MOVES.get(str(func)), random)


def _tensors(values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found.extend(v for v in value if isinstance(v, torch.Tensor))
    return found


def _host_argument(value: Any, read: Callable[[torch.Tensor], torch.Tensor], is_out: bool) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device.type != "spyre":
            return value.float() if value.dtype in _DL16 else value
        return _fresh_out(value, read is ext.cpu_alias) if is_out else read(value)
    if isinstance(value, list | tuple):
        return [_host_argument(v, read, is_out) for v in value]
    if isinstance(value, torch.dtype):
        return _REAL.get(value, value)
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return ext.host_generator(value) if isinstance(value, torch.Generator) else value


def _fresh_out(out: torch.Tensor, as_codes: bool) -> torch.Tensor:
    # A result is never read, and a CPU kernel may want to give it its size.
    if as_codes or out.dtype not in _DL16:
        alias = ext.cpu_alias(out)
        return alias if out.numel() else torch.empty_like(alias)
    return torch.empty_strided(out.shape, out.stride(), dtype=torch.float32)


def call_with(func: OpOverload, values: dict[str, Any], positional: int) -> Any:
    """`func` called with `values` by argument name, the first `positional` of the schema's arguments by position."""
    shape = shape_of(func)
    names = shape.names[:positional]
    if shape.random and values.get("generator") is None:
        values = values | {"generator": ext.host_generator(ext.default_generator())}
    return func(*(values[n] for n in names), **{n: v for n, v in values.items() if n not in names})


def _float_dtype(values: Any, tensors: list[torch.Tensor]) -> torch.dtype:
    """The dtype of a floating result: the one asked for, else that of the operands, tensors before 0-dim ones."""
    for value in values:
        if isinstance(value, torch.dtype):
            return value
    floats = [t for t in tensors if t.is_floating_point()]
    dtypes = [t.dtype for t in floats if t.dim() > 0] or [t.dtype for t in floats]
    return reduce(torch.promote_types, dtypes) if dtypes else torch.get_default_dtype()


def _write_back(shape: Shape, named: dict[str, Any], host: dict[str, Any], moves: bool) -> None:
    for name in shape.written:
        device, value = named.get(name), host.get(name)
        pairs = zip(device, value or (), strict=True) if isinstance(device, list | tuple) else [(device, value)]
        for target, source in pairs:
            if isinstance(target, torch.Tensor) and target.device.type == "spyre":
                _store(target, source, moves)


def _store(target: torch.Tensor, source: torch.Tensor, moves: bool) -> None:
    if target.shape != source.shape:
        target.resize_(source.shape)
    if moves:
        alias = ext.cpu_alias(target)
        if alias.data_ptr() != source.data_ptr():
            alias.copy_(source)
    else:
        ext.write_compute(target, source)
    ext.set_layout_tag(target, 0)


def tuple_of(shape: Shape, result: Any, named: dict[str, Any], wrap: Callable[[Any], Any]) -> Any:
    """`result` with each written argument in its place and everything else wrapped."""
    if len(shape.returns) == 1:
        own = shape.returns[0]
        return wrap(result) if own is None else named[own]
    if not shape.returns:
        return result
    return tuple(wrap(r) if own is None else named[own] for own, r in zip(shape.returns, result, strict=True))


def _wrap(result: Any, dtype: torch.dtype, moves: bool) -> Any:
    if isinstance(result, torch.Tensor):
        if moves and result.dtype == torch.int16 and dtype in _DL16:
            return ext.from_codes(result, dtype)
        return ext.from_compute(result, dtype if result.dtype == torch.float32 else result.dtype)
    if isinstance(result, list | tuple):
        return [_wrap(r, dtype, moves) for r in result]
    return result
