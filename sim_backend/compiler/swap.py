"""What is swapped in while a graph for the device is compiled, and taken out after (facts 4.1)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sim_backend.compiler.evaluation import CUSTOM_OPS
from sim_backend.compiler.session import Session, current_session, entered
from sim_backend.device.allow import allowed

# Inductor settings the device's compiler forces (facts 4.1).
CONFIG: dict[str, Any] = {
    "fallback_random": True,  # random numbers are drawn on the host (facts 3.2)
    "split_reductions": False,
    "unroll_reductions_threshold": 1,  # an unrolled reduction would read single lanes of a stick (facts 2.4)
    "permute_fusion": False,
    "keep_output_stride": True,
    "benchmark_harness": False,
    "triton.persistent_reductions": True,
    "triton.cooperative_reductions": False,
    "epilogue_fusion": False,
    "prologue_fusion": False,
    "reorder_for_peak_memory": False,
    "max_fusion_buffer_group_pairwise_attempts": 0,  # no pair is fused (SpyreScheduling), so none is looked at
    "pattern_matcher": False,
    "comprehensive_padding": False,
    "layout_optimization": False,
    "graph_partition": False,
    "size_asserts": False,
    "nan_asserts": False,
    "assume_aligned_inputs": True,
    "freezing": False,
    "cpp_wrapper": False,
    "max_autotune": False,
    "max_autotune_gemm": False,
    "compile_threads": 1,
}


def config_patches() -> dict[str, Any]:
    """Inductor's settings for a device graph; the two passes carry the cache identity."""
    from sim_backend.compiler.checks import GraphChecks
    from sim_backend.compiler.ir import Bundler

    return {**CONFIG, "post_grad_custom_post_pass": GraphChecks(), "_post_fusion_custom_pass": Bundler()}


@contextlib.contextmanager
def compiling(session: Session) -> Iterator[Session]:
    """Inductor as the device's compiler: its lowerings, dtype rule and loop rules, for this block only.

    Inductor makes and copies example tensors on the device meanwhile: no user's call does, so nothing is refused.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(entered(session))
        stack.enter_context(allowed())
        stack.enter_context(_lowerings())
        stack.enter_context(_custom_loop_ops())
        for owner, name, value in _attributes():
            stack.enter_context(_attribute(owner, name, value))
        stack.enter_context(torch.no_grad())
        yield session


def _attributes() -> list[tuple[Any, str, Any]]:
    """(owner, attribute, value while compiling)."""
    import torch._prims_common as prims
    from torch._functorch._aot_autograd.runtime_wrappers import _FirstInvocationContext
    from torch._inductor import codecache, graph, ir, lowering, sizevars
    from torch._inductor.fx_passes import joint_graph, post_grad

    from sim_backend.compiler.defects import replacing

    two_step, large = lowering.use_two_step_variance, ir.Loops.has_large_inner_fn
    ideal = current_session().profile.ideal
    kept = {op: rule for op, rule in post_grad.noop_registry.items() if op is not torch.ops.aten.clone.default}

    def no_welford(x: Any, *args: Any, **kwargs: Any) -> bool:
        return ideal if x.get_device().type == "spyre" else two_step(x, *args, **kwargs)

    def realise_all(loops: ir.Loops, threshold: int | None = None) -> bool:
        return True if loops.get_device().type == "spyre" else large(loops, threshold)

    def keep_loops(self: Any, variables: Any, sizes: Any, formulas: Any) -> tuple[Any, Callable[..., Any], Any]:
        return list(sizes), _same, _same

    return [
        (prims, "_computation_dtype_map", {}),  # fp16 and bf16 compute in their own dtype
        (lowering, "use_two_step_variance", no_welford),  # variance is welford_reduce, which no profile has
        (joint_graph, "lazy_init", _no_patterns),
        (post_grad, "noop_registry", kept),  # a clone makes a fresh buffer, which matters at block borders (E-18)
        (ir.Loops, "has_large_inner_fn", realise_all),  # every loop nest is realised: one operation a node
        (graph.GraphLowering, "call_function", replacing(graph.GraphLowering.call_function)),
        (_FirstInvocationContext, "__init__", _not_first),
        (codecache.FxGraphCachePickler, "debug_lines", _described(codecache)),
        (sizevars.SizeVarAllocator, "_simplify_loops_impl", keep_loops),  # merged loops would hide stick expressions
    ]


def _not_first(context: Any) -> None:
    """A first call sends every host operation of the kernels through Python, to look at custom ones' aliasing."""
    context._is_first = False


def _described(codecache: Any) -> Callable[[Any, Any], list[str]]:
    """Inductor hashes each of a graph's hundreds of inputs a second time for a message that only its log shows."""
    every = codecache.FxGraphCachePickler.debug_lines

    def debug_lines(pickler: Any, details: Any) -> list[str]:
        lines: list[str] = every(pickler, details) if codecache.log.isEnabledFor(logging.DEBUG) else []
        return lines

    return debug_lines


def _same(index: Any) -> Any:
    return index


def _no_patterns(input_device: Any = None) -> None:
    """Inductor traces a hundred patterns before its first graph, of which `pattern_matcher: False` applies none."""


@contextlib.contextmanager
def _attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    held = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, held)


@contextlib.contextmanager
def _lowerings() -> Iterator[None]:
    from torch._inductor import lowering

    from sim_backend.compiler.lowerings import overridden

    ours = overridden(lowering.lowerings)
    held = {op: lowering.lowerings.get(op) for op in ours}
    constraints = {
        op: lowering._maybe_layout_constraints.pop(op) for op in ours if op in lowering._maybe_layout_constraints
    }
    lowering.lowerings.update(ours)
    try:
        yield
    finally:
        for op, original in held.items():
            if original is None:
                lowering.lowerings.pop(op, None)
            else:
                lowering.lowerings[op] = original
        lowering._maybe_layout_constraints.update(constraints)


@contextlib.contextmanager
def _custom_loop_ops() -> Iterator[None]:
    """The device's own loop-level operations become known to Inductor's handlers."""
    from torch._inductor.ops_handler import DefaultHandler

    for name in CUSTOM_OPS:
        setattr(DefaultHandler, name, DefaultHandler._call_default(name))
    try:
        yield
    finally:
        for name in CUSTOM_OPS:
            delattr(DefaultHandler, name)
