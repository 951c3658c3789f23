"""The adapted model's forward: host parts, stock forward with compiled blocks, crop. One runner per adapted model."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .errors import ShapeRefused
from .limits import check_inputs, longest_input
from .patches.base import HostCall, PatchContext
from .placement import Placement, cropped, map_tensors
from .reversal import Reversal
from .structure import Block, token_type_table

if TYPE_CHECKING:
    from .replay.documents import DocumentSet

RECOMPILE_LIMIT = 512
ACCUMULATED_LIMIT = 8192


class Runner:
    """Stands in for `model.forward`: takes host tensors of any length, returns host tensors of that length.

    Runs without gradients and outside inference mode, so that every caller meets the same compiled code.
    """

    def __init__(self, model: nn.Module, context: PatchContext, placement: Placement) -> None:
        self._forward: Callable[..., Any] = model.forward
        self._parameters = tuple(inspect.signature(model.forward).parameters)
        self._has_token_types = token_type_table(model) is not None and "token_type_ids" in self._parameters
        self._stages = [stage for _, stage in sorted(context.before, key=lambda entry: entry[0])]
        self._placement = placement
        self._name, self._longest = type(model).__name__, longest_input(model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode(False), torch.no_grad(), recompiling_is_limited():
            call = HostCall()
            values = self._complete(self._named(args, kwargs))
            check_inputs(self._name, values, self._longest)
            self._placement.begin(call)
            for stage in self._stages:
                values = stage(values, call)
            output = self._forward(**self._placement.inputs(values))
            return map_tensors(output, lambda t: cropped(self._placement.fetch(t), call))

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        named = {**dict(zip(self._parameters, args, strict=False)), **kwargs}
        return {k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in named.items() if v is not None}

    def _complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Names what stock would fill in: token types 0, no cache."""
        if self._has_token_types and "token_type_ids" not in values and "input_ids" in values:
            values["token_type_ids"] = torch.zeros_like(values["input_ids"])
        if "use_cache" in self._parameters:
            values["use_cache"] = False
        return values


class DocumentRunner:
    """Stands in for `model.forward` where the patched model is a set of documents: host tensors in, host tensors out.

    It answers with token vectors alone. Raises ShapeRefused for inputs that no document takes.
    """

    IGNORED = frozenset({"return_dict", "use_cache"})

    def __init__(self, model: nn.Module, documents: DocumentSet, device: torch.device, compiled: bool) -> None:
        self._parameters = tuple(inspect.signature(model.forward).parameters)
        self._name, self._longest = type(model).__name__, longest_input(model)
        self._documents, self._device, self._compiled = documents, device.type, compiled
        torch.empty(0, device=device)  # a device that starts on first use does so now: operators alone do not start it

    @property
    def block_calls(self) -> int:
        """Calls of blocks whose result lay on the device, so far."""
        return self._documents.block_calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        values = {**dict(zip(self._parameters, args, strict=False)), **kwargs}
        given = {k: v for k, v in values.items() if v is not None and v is not False and k not in self.IGNORED}
        check_inputs(self._name, given, self._longest)
        taken = self._documents.inputs
        if "input_ids" not in given or set(given) - set(taken) - {"token_type_ids"}:
            raise ShapeRefused(f"{self._name}: the documents take {', '.join(taken)}, not {', '.join(sorted(given))}")
        ids = given["input_ids"].cpu()
        whole = {"attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
        inputs = {name: given[name].cpu().long() if name in given else whole[name] for name in taken}
        with recompiling_is_limited():
            return BaseModelOutput(last_hidden_state=self._documents.run(inputs, self._device, self._compiled))


def compile_blocks(blocks: list[Block], undo: Reversal) -> None:
    """Compiles each block's forward, fullgraph and static; blocks of one forward share one compiled function.

    Parameters are inputs of the graph, so that identical blocks compile once. Hooks stay outside.
    """
    compiled: dict[Callable[..., Any], Callable[..., Any]] = {}
    for block in blocks:
        forward = forward_of(block.module)
        if forward not in compiled:
            compiled[forward] = torch.compile(forward, fullgraph=True, dynamic=False)
        undo.set_attribute(block.module, "forward", types.MethodType(compiled[forward], block.module))


def forward_of(block: nn.Module) -> Callable[..., Any]:
    """The function behind a block's forward: that of a patch, if one gave it to this instance, else its class's."""
    return getattr(block.__dict__.get("forward"), "__func__", None) or type(block).forward


@contextmanager
def recompiling_is_limited() -> Iterator[None]:
    """Many buckets may compile, but hitting the limit is an error, never a silent eager run."""
    with torch._dynamo.config.patch(
        fail_on_recompile_limit_hit=True,
        recompile_limit=RECOMPILE_LIMIT,
        accumulated_recompile_limit=ACCUMULATED_LIMIT,
    ):
        yield
