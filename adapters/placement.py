"""Where each part of an adapted model lives: blocks and embeddings on the device, heads and declared parts on the host.

Weights are cast and moved last, after all surgery. A Parameter that two modules share stays shared. A model on meta is
placed for capability reports only: device parts stay on meta, host parts become uninitialised host memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .patches.base import HostCall
from .reversal import Reversal
from .structure import embeddings_of, encoder_of, find_blocks, heads_of

TOKEN_INPUTS = frozenset({"input_ids", "token_type_ids", "position_ids", "inputs_embeds"})


class Placement:
    """Casts, moves and hooks one model; `inputs` and `result` do the same for what goes in and comes out."""

    def __init__(
        self,
        model: nn.Module,
        device: torch.device,
        dtype: torch.dtype,
        host: Iterable[nn.Module],
        host_inputs: Iterable[str] = (),
    ) -> None:
        self.device, self.dtype = device, dtype
        self.host_dtype = host_dtype(dtype)
        self._model, self._call = model, HostCall()
        self._host = [*host, *heads_of(model)]
        embeddings = embeddings_of(model)
        self._host_embeddings = embeddings if any(m is embeddings for m in self._host) else None
        self._encoder = encoder_of(model, find_blocks(model))
        read_there = TOKEN_INPUTS if self._host_embeddings is not None else frozenset()
        # a lone table is not called where vectors are given in its place: they go on to the blocks
        lone = isinstance(self._host_embeddings, nn.Embedding)
        self._stays = frozenset(host_inputs) | (read_there - {"inputs_embeds"} if lone else read_there)

    def begin(self, call: HostCall) -> None:
        """What the host stages learn about the call that starts now: heads read what it says was not added."""
        self._call = call

    def apply(self) -> Reversal:
        """Puts every part in its place. The result takes it back: original Parameters and buffers by identity."""
        undo = Reversal()
        on_host = {id(m) for part in [*self._host, *self._twins()] for m in part.modules()}
        made: dict[tuple[int, torch.device], nn.Parameter] = {}
        for module in self._model.modules():
            host = id(module) in on_host
            place = (torch.device("cpu"), self.host_dtype) if host else (self.device, self.dtype)
            _place_parameters(module, *place, undo, made)
            _place_buffers(module, *place, undo)
        self._hook(undo)
        return undo

    def _twins(self) -> list[nn.Module]:
        """Tables that share the weight of host embeddings (an encoder's own, tied): they stand in for them."""
        shared = {id(p) for p in self._host_embeddings.parameters()} if self._host_embeddings is not None else set()
        tables = [m for m in self._model.modules() if isinstance(m, nn.Embedding) and id(m.weight) in shared]
        inside = {id(m) for m in self._host_embeddings.modules()} if self._host_embeddings is not None else set()
        return [m for m in tables if id(m) not in inside]

    def _hook(self, undo: Reversal) -> None:
        for embeddings in [self._host_embeddings, *self._twins()]:
            if embeddings is not None:
                undo.hook(embeddings.register_forward_hook(self._to_device))
        for head in heads_of(self._model):
            undo.hook(head.register_forward_pre_hook(self._head_inputs))
        if self._encoder is not None:
            undo.hook(self._encoder.register_forward_hook(self._to_host))

    def _to_device(self, module: nn.Module, args: Any, output: Any) -> Any:
        return map_tensors(output, lambda t: t.to(self.dtype).to(self.device))

    def _head_inputs(self, module: nn.Module, args: Any) -> Any:
        return map_tensors(args, self.fetch)

    def _to_host(self, module: nn.Module, args: Any, output: Any) -> Any:
        """What heads read: without tokens added at the end, which a head that reads the last place would take."""
        call = HostCall() if self._call.left else self._call
        return map_tensors(output, lambda t: cropped(self.fetch(t), call))

    def fetch(self, value: torch.Tensor) -> torch.Tensor:
        """The tensor on the host; floats in the host's dtype, converted on the way so that fp16 limits nothing."""
        if not value.is_floating_point():
            return value.cpu()
        return value.to(device="cpu", dtype=self.host_dtype)

    def inputs(self, values: dict[str, Any]) -> dict[str, Any]:
        """Host inputs moved to where they are read: what host embeddings or a patch read there stays.

        Vectors in place of tokens are of the dtype of where they go.
        """
        return {k: self._placed(k, v) if isinstance(v, torch.Tensor) else v for k, v in values.items()}

    def _placed(self, name: str, value: torch.Tensor) -> torch.Tensor:
        if name in self._stays:
            return value
        return (value.to(self.dtype) if name == "inputs_embeds" else value).to(self.device)


def host_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of what stays on the host in a run of `dtype`: fp32, or fp64 where the run is."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def place_on_host(modules: Iterable[nn.Module], undo: Reversal, dtype: torch.dtype = torch.float32) -> None:
    """Casts modules that stay on the CPU to `dtype`; a Parameter that two of them share stays shared."""
    made: dict[tuple[int, torch.device], nn.Parameter] = {}
    for module in modules:
        _place_parameters(module, torch.device("cpu"), dtype, undo, made)
        _place_buffers(module, torch.device("cpu"), dtype, undo)


def _place_parameters(
    module: nn.Module,
    device: torch.device,
    dtype: torch.dtype,
    undo: Reversal,
    made: dict[tuple[int, torch.device], nn.Parameter],
) -> None:
    for name, parameter in list(module._parameters.items()):
        if parameter is None or (parameter.dtype == dtype and parameter.device.type == device.type):
            continue
        key = (id(parameter), device)
        if key not in made:
            made[key] = nn.Parameter(_moved(parameter.detach(), device, dtype), requires_grad=False)
        undo.set_parameter(module, name, made[key])


def _place_buffers(module: nn.Module, device: torch.device, dtype: torch.dtype, undo: Reversal) -> None:
    for name, buffer in list(module._buffers.items()):
        if buffer is None:
            continue
        keep = name in module._non_persistent_buffers_set or not buffer.is_floating_point()
        wanted = buffer.dtype if keep else dtype
        if (buffer.device.type, buffer.dtype) != (device.type, wanted):
            undo.set_buffer(module, name, _moved(buffer, device, wanted))


def _moved(value: torch.Tensor, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    wanted = dtype if value.is_floating_point() else value.dtype
    if value.is_meta:
        return torch.empty_like(value, dtype=wanted, device="cpu" if device.type == "cpu" else "meta")
    return value.to(wanted).to(device)


def cropped(value: torch.Tensor, call: HostCall) -> torch.Tensor:
    """Token vectors [batch, padded length, size] without the added tokens; anything else as it is."""
    if not call.added or value.ndim != 3 or value.shape[1] != call.length + call.added:
        return value
    return value[:, call.added :].contiguous() if call.left else value[:, : call.length].contiguous()


def map_tensors(value: Any, change: Any) -> Any:
    """The same tensor, tuple, list or dict (ModelOutput) with `change` applied to each tensor in it."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(map_tensors(v, change) for v in value)
    if isinstance(value, dict):
        for key in list(value):
            value[key] = map_tensors(value[key], change)
    return value
