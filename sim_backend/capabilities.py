"""`capability()`: every operation of a model that fails, falls back or is known to give wrong values, all at once.

The module's name differs from the function's: a submodule `capability` would hide the function in the package.

Nothing is executed and no weight is read or allocated. The part outside the transformer blocks is dispatched on fake
tensors against the eager column of the op table; each kind of block is compiled once in recording mode (block form).
After a failure the operation's output is taken as right dtype and default layout.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sim_backend.profiles import Profile, current_profile, load_profile
from sim_backend.report import CapabilityReport, OpFailure, Place

if TYPE_CHECKING:
    import torch

    from sim_backend.compiler.block_audit import BlockAudit
    from sim_backend.compiler.session import Origin, Session


@dataclass
class _Kind:
    """One kind of block: its audit, the first block's path, and how many layers are of it."""

    audit: BlockAudit
    path: str
    layers: int = 0


@dataclass
class _Walk:
    """What one pass over a model finds."""

    outside: Session
    operations: list[str] = field(default_factory=list)
    kinds: dict[Any, _Kind] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)


def capability(
    model: torch.nn.Module,
    inputs: Mapping[str, torch.Tensor],
    profile: str | Profile | None = None,
    *,
    dtype: torch.dtype | None = None,
    blocks: Sequence[str | torch.nn.Module] | None = None,
) -> CapabilityReport:
    """The capability report of `model` for host `inputs` (keyword arguments of its forward).

    `model` may be on meta or the CPU and is not changed. `profile` is a name or a profile, by default this process's;
    it does not fix the process's profile. `dtype` converts floating parameters, buffers and inputs of the fake copy.
    `blocks` are paths or modules to compile one by one, by default the elements of the largest module list.
    Raises SpyreProfileError for an unknown profile, ValueError for a block that is not in the model, and CompilerFault
    where the simulator's own compiler fails.
    """
    started = time.perf_counter()
    chosen = _resolve(profile)
    walk = _walk(model, inputs, chosen, dtype, blocks)
    groups = _Groups()
    for kind in walk.kinds.values():
        groups.add(kind.audit.session, "block", _starred(kind.path), kind.layers)
    groups.add(walk.outside, "outside", "", 1)
    return CapabilityReport(
        profile=chosen.name,
        profile_digest=chosen.digest,
        dtype=_dtype_name(model, dtype),
        failures=groups.take("failures"),
        predicted=groups.take("predicted"),
        fallbacks=groups.take("fallbacks"),
        operations=len(walk.operations) + sum(k.audit.operations * k.layers for k in walk.kinds.values()),
        kernels=sum(len(k.audit.session.kernels) * k.layers for k in walk.kinds.values()),
        fingerprint=_fingerprint(walk),
        seconds=time.perf_counter() - started,
    )


def _resolve(profile: str | Profile | None) -> Profile:
    if profile is None:
        return current_profile()
    return profile if isinstance(profile, Profile) else load_profile(profile)


def _walk(
    model: torch.nn.Module, inputs: Mapping[str, torch.Tensor], profile: Profile, dtype: Any, blocks: Any
) -> _Walk:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from sim_backend.compiler.fake_model import fake_copy, fake_like, paths_of
    from sim_backend.compiler.outside import OutsideMode, disguised
    from sim_backend.compiler.session import Session
    from sim_backend.device import start

    start()
    paths = paths_of(model, blocks)
    mode = FakeTensorMode()
    copy = fake_copy(model, mode, dtype, paths)
    walk = _Walk(Session(profile, recording=True))
    outside = OutsideMode(walk.outside, {id(m): n for n, m in copy.named_modules()})
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        stack.enter_context(torch.no_grad())
        for path in paths:
            block = copy.get_submodule(path)
            block.forward = partial(_visit, walk, block, block.forward, path, profile, mode)  # type: ignore[method-assign]
        stack.enter_context(mode)
        fakes = {k: fake_like(v, dtype) for k, v in inputs.items()}
        for name, fake in fakes.items():
            outside.follow(fake, inputs[name])
        stack.enter_context(outside)
        stack.enter_context(disguised())
        copy(**fakes)
    walk.operations = outside.operations
    return walk


def _visit(
    walk: _Walk,
    block: Any,
    forward: Callable[..., Any],
    path: str,
    profile: Profile,
    mode: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Stands for a block's forward: audits its kind once, gives its result as fake tensors."""
    from torch.utils._python_dispatch import _disable_current_modes

    from sim_backend.compiler.block_audit import audit_block
    from sim_backend.compiler.fake_model import describe_arguments, structure_of
    from sim_backend.compiler.outside import disguised

    key = (structure_of(block), describe_arguments((args, kwargs)))
    if key not in walk.kinds:
        stand_in = block.forward
        block.forward = forward
        try:
            with disguised(False):
                walk.kinds[key] = _Kind(audit_block(block, args, kwargs, profile, mode), path)
        finally:
            block.forward = stand_in
    kind = walk.kinds[key]
    kind.layers += 1
    walk.order.append(kind.audit.digest)
    with _disable_current_modes(), mode:
        return kind.audit.fresh_result()


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings and logs of torch about fake runs are no news to the caller."""
    loggers = [logging.getLogger(n) for n in ("torch._dynamo", "torch._inductor", "torch.fx")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


class _Groups:
    """Findings with equal cause, operation, line and module are one, with a count."""

    def __init__(self) -> None:
        self.found: dict[str, dict[Any, OpFailure]] = {"failures": {}, "predicted": {}, "fallbacks": {}}

    def add(self, session: Session, place: Place, path: str, layers: int) -> None:
        """Everything `session` noted, met in `layers` layers at `path`."""
        once: set[Any] = set()
        for group, origin, kind, message, predicted, erratum, after in _findings(session):
            module = ".".join(p for p in (path, origin.module) if p)
            key = (group, kind, origin.op, origin.source, module, "" if kind == "layout" else message, predicted)
            held = self.found[group].get(key)
            self.found[group][key] = OpFailure(
                kind=kind,
                op=origin.op,
                source=origin.source,
                module=module,
                message=held.message if held else message,
                place=place,
                count=(held.count if held else 0) + layers,
                layers=(held.layers if held else 0) + (0 if key in once else layers),
                shapes=origin.shapes,
                dtypes=origin.dtypes,
                scalars=origin.scalars,
                predicted=predicted,
                erratum=erratum,
                after=after and (held is None or held.after),
            )
            once.add(key)

    def take(self, group: str) -> tuple[OpFailure, ...]:
        """The findings of one group in the order they were met."""
        return tuple(self.found[group].values())


def _findings(session: Session) -> Iterator[tuple[str, Origin, str, str, str | None, str | None, bool]]:
    """(group, origin, kind, message, predicted erratum, refusing erratum, after) of everything noted."""
    from sim_backend.compiler.origins import reads_assumed

    # A missing operation's result is taken in the default layout; that of one refused for its dtype is known.
    missing = {r.origin.node for r in session.refusals if r.kind == "unsupported_op"}
    for r in session.refusals:
        after = r.kind == "layout" and (r.origin.assumed or reads_assumed(r.origin.node, missing))
        yield "failures", r.origin, r.kind, r.message, None, r.erratum, after
    for t in session.triggers:
        yield "predicted", t.origin, "wrong_values", t.detail, t.erratum, None, False
    for origin in session.fallbacks:
        yield "fallbacks", origin, "cpu_fallback", f"{origin.op} is falling back to cpu", None, None, False


def _starred(path: str) -> str:
    from sim_backend.compiler.origins import star_layers

    return star_layers(path)


def _dtype_name(model: torch.nn.Module, dtype: torch.dtype | None) -> str:
    floating = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
    return str(dtype or floating).removeprefix("torch.")


def _fingerprint(walk: _Walk) -> str:
    """sha256 over the operator graph of each layer kind in the order of the layers, and the eager operations."""
    text = json.dumps([walk.order, walk.operations], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
