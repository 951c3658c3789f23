"""The eager path: what happens when an ATen operation reaches the device outside compiled code.

The profile's op table decides (facts 3.2): N, D, K, V, H and S compute; F runs on the CPU with a FallbackWarning; X
raises NotImplementedError; U raises the runtime error of an unimplemented operation. float32 operands compute only
where facts 3.5 says so. What computes goes through the defect rules, `sim_backend.errata.eager.apply`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload

from sim_backend.device import ext, refused, steps
from sim_backend.device.allow import is_allowed
from sim_backend.device.clock import charge, charge_host
from sim_backend.device.compute import compute, shape_of
from sim_backend.device.fallback import run_on_cpu
from sim_backend.device.naming import aten_name, user_op
from sim_backend.device.parts import HAS_PARTS, part_of
from sim_backend.errata import november, writes
from sim_backend.errata.operands import dtype_problem
from sim_backend.errata.power import is_unimplemented_power
from sim_backend.errors import Unsupported
from sim_backend.profiles import active, split_op

__all__ = ["compute", "dispatch", "install"]

Apply = Callable[[str, tuple[Any, ...], dict[str, Any], Callable[[], Any], bool], Any]

# Composite operations that would reach the device in pieces: the table has a row for the whole.
_WHOLE = (
    "native_layer_norm",
    "_fused_rms_norm",
    "embedding",
    "repeat",
    "stack",
    "roll",
    "flip",
    "native_dropout",
    "constant_pad_nd",
    "masked_fill.Scalar",
    "masked_fill.Tensor",
    "index_add",
    "index_copy",
    "slice_scatter",
    "select_scatter",
    "where",
    "randn",
    "topk",
)
# Operations whose result torch allocates before the device is asked: whole, they are seen before that (E-59).
_PROMOTING = ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "pow.Tensor_Scalar")
_PARTS = ("aten.slice.", "aten.select.", "aten.narrow.", "aten.split.", "aten.chunk.")
_ATTENTION = "_scaled_dot_product_fused_attention_overrideable"


class _Row(NamedTuple):
    user_op: str
    cell: str
    needs: tuple[str, ...]  # the OpFuncs it uses; () for moves, which take any dtype
    has_parts: bool  # its arguments decide, too


class _Device:
    """What eager dispatch knows of the active profile; one per process."""

    def __init__(self, profile: Any, apply: Apply | None) -> None:
        self.profile = profile
        self.apply = apply
        self.drops_offsets = profile.has("E-31") and not profile.clones_views
        self.rows: dict[OpOverload, _Row] = {}
        self._problems: dict[tuple[tuple[str, ...], torch.dtype], str | None] = {}

    def row(self, func: OpOverload) -> _Row:
        found = self.rows.get(func)
        if found is None:
            found = self.rows[func] = self._read(func)
        return found

    def _read(self, func: OpOverload) -> _Row:
        op = user_op(func)
        has_parts = not self.profile.ideal and split_op(op)[0] in HAS_PARTS
        return _Row(op, self.profile.cell(op, "eager"), tuple(self.profile.needs(op)), has_parts)

    def check_dtypes(self, row: _Row, values: tuple[Any, ...]) -> None:
        """Raises Unsupported if an OpFunc of the operation does not compute on a tensor's dtype (facts 3.5)."""
        for dtype in {v.dtype for v in values if isinstance(v, torch.Tensor) and v.device.type == "spyre"}:
            problem = self.problem(row.needs, dtype)
            if problem is not None:
                raise Unsupported(problem)

    def problem(self, needs: tuple[str, ...], dtype: torch.dtype) -> str | None:
        """ "tanh on DataFormats.IEEE_FP32", or None. Cached."""
        key = (needs, dtype)
        if key not in self._problems:
            found = (dtype_problem(self.profile, need, dtype) for need in needs)
            self._problems[key] = next((p for p in found if p is not None), None)
        return self._problems[key]


_libraries: list[torch.library.Library] = []
_device: _Device | None = None


def install(profile: Any, apply: Apply | None) -> None:
    """Register the fallback for every operation without a C++ kernel. Once per process."""
    global _device
    _device = _Device(profile, apply)
    steps.install(profile)
    ext.set_prefix_copy(_copy_prefix if profile.has("E-34") else None)
    if _libraries:
        return
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(dispatch, "PrivateUse1")
    whole = torch.library.Library("aten", "IMPL", "PrivateUse1")
    for name in (*_WHOLE, *(_PROMOTING if profile.has("E-59") else ())):
        _register_whole(whole, name)
    if profile.has("E-69"):
        whole.impl("copy_", _copy_rows)
    whole.impl(_ATTENTION, _attention)
    whole.impl("convolution_overrideable", partial(dispatch, torch.ops.aten.convolution.default))
    refused.install(whole, profile, dispatch)
    _libraries.extend([everything, whole])


def _register_whole(library: torch.library.Library, name: str) -> None:
    packet, _, overload = name.partition(".")
    func = getattr(getattr(torch.ops.aten, packet), overload or "default")
    if not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "PrivateUse1"):
        library.impl(name, partial(dispatch, func), allow_override=True)


def dispatch(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Run `func`, called on device tensors, as the active profile says."""
    if is_allowed() or _device is None:
        return compute(func, args, kwargs)
    row = _device.row(func)
    cell = row.cell
    if row.has_parts and (part := part_of(row.user_op, cell, "eager", args)):
        if part.letter == "X":
            raise Unsupported(part.thing)
        cell = part.letter
    run = partial(_ACTIONS[cell], row, func, args, kwargs)
    if _device.apply is None or cell in _REFUSED:
        return run()
    return _device.apply(row.user_op, args, kwargs, run, cell == "F")


def _copy_prefix(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Asked before the prefix of a larger storage is copied on the device: True if it was written too far (E-34)."""
    return not is_allowed() and writes.write_prefix(active(), source, target)


def _copy_rows(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """`copy_` of 2025-11: rows that overlap on the device (E-69)."""
    moves = source.device.type == "cpu" and target.device.type == "spyre" and not is_allowed()
    torch.ops.aten._copy_from(november.overlapped(source) if moves else source, target, non_blocking)
    return target


def _attention(*args: Any, **kwargs: Any) -> Any:
    """The form in which torch hands scaled_dot_product_attention to the device: ten results, of which it reads one."""
    func = getattr(torch.ops.aten, _ATTENTION).default
    if not is_allowed() and _device is not None and _device.row(func).cell in _REFUSED:
        return dispatch(func, *args, **kwargs)
    query, key, value, *rest = args
    scale = kwargs.get("scale")
    plain = torch.ops.aten.scaled_dot_product_attention.default
    output = compute(plain, (query, key, value, *rest[:3]), {} if scale is None else {"scale": scale})
    charge(user_op(func), [query, key, value], output)
    nothing = torch.empty(0, device="spyre")
    return output, nothing, None, None, query.shape[2], key.shape[2], nothing, nothing, nothing


def _compute(row: _Row, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if row.needs and _device is not None:
        _device.check_dtypes(row, (*args, *kwargs.values()))
        if is_unimplemented_power(_device.profile, row.user_op, args):
            raise RuntimeError(unimplemented(row.user_op))
    if _device is not None and _device.drops_offsets:
        args = _from_element_0(func, args)
    result = compute(func, args, kwargs)
    charge(row.user_op, _tensors(args), result)
    return result


def _from_element_0(func: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    # E-31: before #3578 a compiled operation was given the storage of a view, not where the view begins.
    shape = shape_of(func)
    named = zip(shape.names, args, strict=False)
    return tuple(_without_offset(value) if name not in shape.written else value for name, value in named)


def _tensors(args: tuple[Any, ...]) -> list[torch.Tensor]:
    lists = (a if isinstance(a, list | tuple) else (a,) for a in args)
    return [t for members in lists for t in members if isinstance(t, torch.Tensor)]


def _without_offset(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_offset(v) for v in value]
    if not isinstance(value, torch.Tensor) or value.device.type != "spyre":
        return value
    return torch.as_strided(value, value.shape, value.stride(), 0) if value.storage_offset() else value


def _fall_back(row: _Row, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    charge_host()  # the copies take their own time
    return run_on_cpu(row.user_op, func, args, kwargs)


def _refuse(row: _Row, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    empty = row.user_op.startswith(_PARTS) and any(not t.numel() for t in _tensors(args))
    if empty and _device is not None and _device.profile.has("E-57"):
        signal.raise_signal(signal.SIGSEGV)
    raise NotImplementedError(f"Could not run '{aten_name(row.user_op)}' with arguments from the 'spyre' backend.")


def _abort(row: _Row, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise RuntimeError(unimplemented(row.user_op))


def unimplemented(op: str) -> str:
    """The message of a call of the operation `op` that the backend compiler only compiled to an exception."""
    name = op.split(".")[1]
    return f"Invoked sdsc_fused_{name}_0 which contains unimplemented operation {name}"


_COMPUTES = "NDKVHS"
_REFUSED = ("X", "U")
_ACTIONS: dict[str, Callable[[_Row, OpOverload, tuple[Any, ...], dict[str, Any]], Any]] = {
    **dict.fromkeys(_COMPUTES, _compute),
    "F": _fall_back,
    "X": _refuse,
    "U": _abort,
}
