"""The stock model of a config on fake tensors: shapes, strides and dtypes of every tensor, no values."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from .errors import CaptureRefused


def config_of(data: dict[str, Any]) -> Any:
    """The transformers config of a config.json's content: that of the part which reads text.

    Raises CaptureRefused for a class transformers lacks.
    """
    from transformers import AutoConfig

    from adapters.errors import NotRemapped
    from adapters.remap import remapped
    from adapters.towers import text_part

    try:
        given = remapped(data) or data
        fields = {k: v for k, v in given.items() if k not in ("model_type", "auto_map")}
        config = text_part(AutoConfig.for_model(given["model_type"], **fields))
    except (NotRemapped, KeyError, ValueError, TypeError) as error:
        raise CaptureRefused(f"transformers knows no such config: {error}") from error
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return config


def build_model(config: Any) -> nn.Module:
    """The stock model in fp32 and eval on the current default device; the encoder of an encoder-decoder."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

    from adapters.towers import build

    encoder_only = getattr(config, "is_encoder_decoder", False) and type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING
    if not encoder_only:
        return build(config, dtype=torch.float32).eval()
    auto = transformers.AutoModelForTextEncoding
    model: nn.Module = auto.from_config(config, dtype=torch.float32, trust_remote_code=False)
    return model.eval()


def fake_stock(config: Any, mode: FakeTensorMode) -> nn.Module:
    """The stock model with fake CPU tensors of `mode`; tensors that are shared stay shared."""
    with torch.device("meta"):
        model = build_model(config)
    return with_fakes(model, mode)


def with_fakes(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """The same model, its parameters, buffers and tensor attributes replaced by fake CPU tensors of `mode`."""
    made: dict[int, torch.Tensor] = {}
    with mode:
        for module in model.modules():
            for held in (module._parameters, module._buffers, module.__dict__):
                for name, value in list(held.items()):
                    if isinstance(value, torch.Tensor):
                        held[name] = made.setdefault(id(value), _fake(value))
    return model


def _fake(value: torch.Tensor) -> torch.Tensor:
    fake = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
    return nn.Parameter(fake, requires_grad=False) if isinstance(value, nn.Parameter) else fake


def stock_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers (also those that are not saved) by name; a shared tensor has each of its names."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: tensor.detach() for name, tensor in named}
