"""The eager part of a model on fake tensors: every dispatch is held against the eager column of the op table.

Tensors that derive from the inputs alone also carry their real values on the host, so that control flow over masks and
lengths takes the branch it will take.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from sim_backend.compiler.origins import VIEWS, is_framework_file, star_layers
from sim_backend.compiler.session import Origin, Refusal, RefusalKind, Session
from sim_backend.device.naming import aten_name, user_op
from sim_backend.errata import operands as operand_rules
from sim_backend.errata.cells import erratum_of_cell
from sim_backend.errata.eager import judge_call
from sim_backend.errata.power import is_unimplemented_power
from sim_backend.errata.table import has_rules

_SHADOW_LIMIT = 1 << 22  # elements of a tensor whose real values are followed
_REAL_PACKAGE = str(PurePath(__file__).parent.parent)


class _NoFakeTensor:
    """Nothing is an instance of this."""


@contextmanager
def disguised(on: bool = True) -> Iterator[None]:
    """Code that asks `isinstance(x, torch._subclasses.FakeTensor)` is told no, and takes the branch of a real run.

    `on=False` lifts the disguise again, for the compilation of a block.
    """
    held = torch._subclasses.FakeTensor
    torch._subclasses.FakeTensor = _NoFakeTensor if on else FakeTensor  # type: ignore[misc,assignment]
    try:
        yield
    finally:
        torch._subclasses.FakeTensor = held  # type: ignore[misc]


class OutsideMode(TorchDispatchMode):
    """Records refusals, fallbacks and predictions of eager dispatches in `session`; computes nothing but shadows."""

    def __init__(self, session: Session, names: dict[int, str]) -> None:
        super().__init__()
        self.session, self.names = session, names
        self.shadows: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.assumed: WeakIdKeyDictionary = WeakIdKeyDictionary()  # results of missing operations, and views of them
        self.operations: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if func is torch.ops.aten._local_scalar_dense.default and (known := self._known_scalar(leaves)) is not None:
            return known
        known = len(self.session.refusals)
        if func.namespace == "aten" and self._reaches_device(leaves, kwargs):
            self._check(func, args, kwargs, leaves)
        try:
            result = func(*args, **kwargs)
        except torch._subclasses.fake_tensor.DataDependentOutputException:
            return self._unknown_scalar(func, leaves)
        self._assume(func, leaves, result, self.session.refusals[known:])
        self._shadow(func, args, kwargs, leaves, result)
        return result

    def follow(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        """`fake` has the values of the host tensor `real`."""
        self.shadows[fake] = real

    # --- the op table
    def _reaches_device(self, leaves: list[torch.Tensor], kwargs: dict[str, Any]) -> bool:
        device = kwargs.get("device")
        made_there = device is not None and torch.device(device).type == "spyre"
        return made_there or any(t.device.type == "spyre" for t in leaves)

    def _check(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[torch.Tensor]) -> None:
        name = user_op(func)
        origin = self._origin(name, args, leaves)
        self.operations.append(f"{name} {origin.shapes} {origin.dtypes}")
        profile = self.session.profile
        if profile.ideal:
            return
        if name == "aten._to_copy.default":
            self._check_copy(kwargs, leaves, origin)
            return
        cell = profile.cell(name, "eager")
        if cell == "X":
            message = f"Could not run '{aten_name(name)}' with arguments from the 'spyre' backend."
            self._refuse("unsupported_op", message, origin, erratum_of_cell(profile, name))
        elif cell == "U":
            self._refuse("unsupported_op", _unimplemented(name), origin)
        elif cell == "F":
            self.session.fallbacks.append(origin)
            self._meet(name, args, kwargs, origin, falls_back=True)
        else:
            self._check_values(name, args, kwargs, leaves, origin)

    def _check_values(self, name: str, args: Any, kwargs: Any, leaves: list[torch.Tensor], origin: Origin) -> None:
        profile = self.session.profile
        for dtype in dict.fromkeys(t.dtype for t in leaves if t.device.type == "spyre"):
            wrong = [f for f in profile.needs(name) if operand_rules.dtype_problem(profile, f, dtype)]
            if wrong:
                erratum = "E-65" if any(f.startswith("batchmatmul") for f in wrong) else None
                thing = f"{name} on DataFormats.{operand_rules.FORMATS[dtype]}"
                self.session.refuse(Refusal("unsupported_dtype", thing, origin, erratum))
                return
        found = self._meet(name, args, kwargs, origin, falls_back=False)
        if not found and is_unimplemented_power(profile, name, args):
            self._refuse("unsupported_op", _unimplemented(name), origin)

    def _meet(self, name: str, args: Any, kwargs: Any, origin: Origin, falls_back: bool) -> bool:
        """Note the defects that the call meets; True if there are any."""
        profile = self.session.profile
        if not has_rules(profile, name, falls_back):
            return False
        found = judge_call(profile, name, args, kwargs, falls_back).triggered
        for one in found:
            self.session.meet(one, origin)
        return bool(found)

    def _check_copy(self, kwargs: dict[str, Any], leaves: list[torch.Tensor], origin: Origin) -> None:
        """Casts on the device; a copy to the host is always possible."""
        profile, dtype, device = self.session.profile, kwargs.get("dtype"), kwargs.get("device")
        leaves_device = device is not None and torch.device(device).type != "spyre"
        if dtype is None or leaves_device or not leaves or dtype == leaves[0].dtype:
            return
        if profile.cell("aten._to_copy.default", "eager") == "X":
            self._refuse_thing(f"type conversion from {leaves[0].dtype} to {dtype}", None, origin)
        elif not profile.converts(str(leaves[0].dtype).removeprefix("torch."), str(dtype).removeprefix("torch.")):
            self.session.fallbacks.append(origin)

    def _refuse(self, kind: RefusalKind, message: str, origin: Origin, erratum: str | None = None) -> None:
        self.session.refuse(Refusal(kind, message, origin, erratum, at_call=True))

    def _refuse_thing(self, problem: str | None, erratum: str | None, origin: Origin) -> None:
        if problem is not None:
            self.session.refuse(Refusal("unsupported_dtype", problem, origin, erratum))

    def _assume(self, func: Any, leaves: list[torch.Tensor], result: Any, refusals: list[Refusal]) -> None:
        """A missing operation's result is taken in the default layout, and so are views of it."""
        missing = any(r.kind == "unsupported_op" for r in refusals)
        is_view = func.overloadpacket.__name__ in VIEWS - {"clone"} and any(t in self.assumed for t in leaves)
        if missing or is_view:
            self.assumed.update({t: True for t in tree_leaves(result) if isinstance(t, torch.Tensor)})

    # --- real values of what derives from the inputs
    def _shadow(self, func: Any, args: Any, kwargs: Any, leaves: list[torch.Tensor], result: Any) -> None:
        results = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        if not results or sum(t.numel() for t in results) > _SHADOW_LIMIT or not all(t in self.shadows for t in leaves):
            return
        with _disable_current_modes(), torch.no_grad():
            real_args, real_kwargs = tree_map(self._real, (args, kwargs))
            real = func(*real_args, **real_kwargs)
        for fake, value in zip(results, (t for t in tree_leaves(real) if isinstance(t, torch.Tensor)), strict=False):
            if fake not in self.shadows:
                self.shadows[fake] = value

    def _real(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.shadows[value]
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def _known_scalar(self, leaves: list[torch.Tensor]) -> Any:
        real = self.shadows.get(leaves[0])
        with _disable_current_modes():
            return None if real is None else real.item()

    def _unknown_scalar(self, func: Any, leaves: list[torch.Tensor]) -> Any:
        """A value no one knows without running: noted, then taken as 1 or True."""
        origin = self._origin(user_op(func), (), leaves)
        self.session.refuse(Refusal("dynamic_shape", "a host decision on device values", origin, at_call=True))
        dtype = leaves[0].dtype if leaves else torch.bool
        return True if dtype == torch.bool else (1.0 if dtype.is_floating_point else 1)

    # --- origins
    def _origin(self, name: str, args: tuple[Any, ...], leaves: list[torch.Tensor]) -> Origin:
        source, module = self._caller()
        return Origin(
            op=name,
            source=source,
            module=module,
            shapes=tuple(tuple(int(n) for n in t.shape) for t in leaves),
            dtypes=tuple(str(t.dtype).removeprefix("torch.") for t in leaves),
            scalars=tuple(a for a in args if isinstance(a, int | float | bool | str)),
            assumed=any(t in self.assumed for t in leaves),
        )

    def _caller(self) -> tuple[str, str]:
        """("modeling_bert.py:99", "embeddings.LayerNorm") of the code that called the operation."""
        frame, source, module = sys._getframe(1), "", None
        while frame is not None and (not source or module is None):
            path = frame.f_code.co_filename
            if not source and not is_framework_file(path) and not path.startswith(_REAL_PACKAGE):
                source = f"{PurePath(path).name}:{frame.f_lineno}"
            if module is None:
                module = self.names.get(id(frame.f_locals.get("self")))
            frame = frame.f_back  # type: ignore[assignment]
        return source, star_layers(module or "")


def _unimplemented(name: str) -> str:
    word = name.split(".")[1]
    return f"Invoked sdsc_fused_{word}_0 which contains unimplemented operation {word}"
