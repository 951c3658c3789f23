"""Entry points: `torch.compile(model)` on the device, the backend "spyre", and attention's dispatch."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from sim_backend.profiles import active

_lock = threading.Lock()
_installed: list[Any] = []


def install() -> None:
    """Make Inductor compile graphs on the device as the device's compiler does. Cheap, and harmless to repeat.

    Called when the device starts. `torch.compile`'s default backend is wrapped: a graph with a tensor on the device
    goes to `compile_graph`, any other to Inductor unchanged.
    """
    with _lock:
        if _installed:
            return
        _wrap_default_backend()
        _installed.append(_register_attention())


def spyre(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The Dynamo backend "spyre"."""
    return compile_graph(gm, example_inputs, options.get("options"))


def compile_graph(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], patches: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The compiled graph. Raises InductorError around sim_backend.errors.Unsupported at the first refusal."""
    from sim_backend.compiler.program import Inseparable
    from sim_backend.compiler.regions import calls_in, flattened
    from sim_backend.compiler.registration import register

    register()
    if not calls_in(gm.graph):
        return _compile(gm, example_inputs, patches)
    flat, _ = flattened(gm)  # before the compiler takes gm apart
    try:
        return _compile(gm, example_inputs, patches, has_regions=True)
    except torch._inductor.exc.InductorError as error:
        if not isinstance(error.inner_exception, Inseparable):
            raise
        return _compile(torch.fx.GraphModule(gm, flat), example_inputs, patches)


def _compile(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], patches: dict[str, Any] | None, has_regions: bool = False
) -> Callable[..., Any]:
    from torch._inductor.compile_fx import compile_fx

    from sim_backend.compiler import torch_hash
    from sim_backend.compiler.decompositions import decomposition_table
    from sim_backend.compiler.session import Session
    from sim_backend.compiler.swap import compiling, config_patches

    torch_hash.begin()
    session = Session(active(), has_regions=has_regions)
    with compiling(session), whole_attention() if has_regions else contextlib.nullcontext():
        compiled: Callable[..., Any] = compile_fx(
            gm,
            list(example_inputs),
            config_patches={**(patches or {}), **config_patches()},
            decompositions=decomposition_table(session.profile),
        )
    torch_hash.keep()
    return compiled


def lives_on_device(gm: Any, inputs: Iterable[Any]) -> bool:
    """True if an input, parameter or buffer is on the device, or a node makes a tensor there."""
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    if isinstance(gm, torch.nn.Module):
        tensors += [*gm.parameters(), *gm.buffers()]
    if any(t.device.type == "spyre" for t in tensors):
        return True
    nodes = gm.graph.nodes if isinstance(gm, torch.fx.GraphModule) else ()
    return any(torch.device(d).type == "spyre" for n in nodes if (d := n.kwargs.get("device")) is not None)


def _wrap_default_backend() -> None:
    wrapper = torch._TorchCompileInductorWrapper
    original = wrapper.__call__

    @functools.wraps(original)
    def call(self: Any, model_: Any, inputs_: Any, **kwargs: Any) -> Any:
        if not lives_on_device(model_, inputs_):
            return original(self, model_, inputs_, **kwargs)
        return compile_graph(model_, inputs_, {**self.config, **(kwargs.get("config_patches") or {})})

    wrapper.__call__ = call  # type: ignore[method-assign]
    _know_replaced_functions(wrapper)


def _know_replaced_functions(wrapper: Any) -> None:
    """`from torch import empty`, made before the device started, stays traceable: told when torch.compile is called."""
    original = wrapper.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        from sim_backend.compiler import torch_hash, trace_log
        from sim_backend.device.layouts import replaced

        torch_hash.begin()
        trace_log.name_lines_only_if_shown()
        for function in replaced:
            torch.compiler.allow_in_graph(function)
        original(self, *args, **kwargs)

    wrapper.__init__ = init


def _register_attention() -> torch.library.Library:
    """Attention on the device is one operation, never its mathematical parts (facts 3.4)."""
    library = torch.library.Library("aten", "IMPL")
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        library.impl("scaled_dot_product_attention", scaled_dot_product_attention, key)
    return library


@contextlib.contextmanager
def whole_attention() -> Iterator[None]:
    """Attention stays one operation inside nested regions as well, which are traced below the autograd keys.

    There functionalisation would take it for a composite of parts.
    """
    parts, key = torch.ops.aten.scaled_dot_product_attention.default, torch._C.DispatchKey.CompositeImplicitAutograd

    def route(query: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if query.device.type == "spyre":
            return scaled_dot_product_attention(query, *args, **kwargs)
        result: torch.Tensor = parts._op_dk(key, query, *args, **kwargs)
        return result

    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("scaled_dot_product_attention", route, "Functionalize")
        yield
    finally:
        library._destroy()


def scaled_dot_product_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Routes to the overrideable attention. Raises NotImplementedError for dropout; GQA is by expand and flatten."""
    if dropout_p > 0.0:
        raise NotImplementedError("Attention dropout not implemented for Spyre")
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        key, value = (_repeat_heads(t, query.shape[-3] // t.shape[-3]) for t in (key, value))
    result = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(
        query, key, value, attn_mask, dropout_p, is_causal, False, scale=scale
    )
    output: torch.Tensor = result[0]
    return output


def _repeat_heads(t: torch.Tensor, times: int) -> torch.Tensor:
    return t.unsqueeze(-3).expand(*t.shape[:-2], times, *t.shape[-2:]).flatten(-4, -3)
