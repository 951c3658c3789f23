"""Models of several parts (text beside images or sound): the part that reads text, found by its configuration.

The configuration of such a model holds one of its own for each part. What is adapted, verified and counted is the part
that reads text; projections behind it and the other parts stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoModel, AutoModelForTextEncoding, PreTrainedConfig, PreTrainedModel


def text_tower(model: nn.Module) -> nn.Module:
    """The part of the model that reads text; the model itself if its configuration names no such part."""
    config = getattr(model, "config", None)
    own = text_config(config)
    if own is config:
        return model
    parts = (m for m in model.modules() if m is not model and isinstance(m, PreTrainedModel))
    return next((m for m in parts if type(m.config) is type(own)), model)


def text_config(config: Any) -> Any:
    """The configuration of the part that reads text; the configuration itself if it has no parts."""
    own = getattr(config, "text_config", None)
    return own if isinstance(own, PreTrainedConfig) else config


def text_part(config: Any) -> Any:
    """The configuration to build only the part that reads text by; `architectures` then names that part's class.

    transformers lists no class for the configuration of some text parts, so the class is looked up in the whole model,
    built without storage. Raises ValueError or KeyError if there is no stock model for the whole.
    """
    own = text_config(config)
    if own is config:
        return config
    with torch.device("meta"):
        own.architectures = [type(text_tower(AutoModel.from_config(config, trust_remote_code=False))).__name__]
    return own


def build(config: Any, **options: Any) -> nn.Module:
    """The stock base model of a configuration, also of a text part that transformers lists no class for.

    Of an encoder with a decoder it is the encoder. `options` go to the class. Raises ValueError for a configuration
    without a stock class.
    """
    kind = loader(config)
    if kind in (AutoModel, AutoModelForTextEncoding):
        return kind.from_config(config, trust_remote_code=False, **options)  # type: ignore[no-any-return]
    return kind._from_config(config, **options)  # type: ignore[no-any-return]


def loader(config: Any) -> Any:
    """What has the `from_pretrained` of the stock base model of a configuration: AutoModel, or the class it names.

    Of an encoder with a decoder only the encoder gives embeddings.
    """
    if _encodes_alone(config):
        return AutoModelForTextEncoding
    named = getattr(transformers, (getattr(config, "architectures", None) or ("",))[0], None)
    return AutoModel if _is_listed(config) or not _takes(named, config) else named


def _encodes_alone(config: Any) -> bool:
    """True if the class that encodes text is the encoder of one with a decoder, which an encoder's config hides."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

    encoder = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
    return encoder is not None and encoder.__name__.endswith("EncoderModel")


def _is_listed(config: Any) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    return type(config) in MODEL_MAPPING


def _takes(named: Any, config: Any) -> bool:
    of_config = getattr(named, "config_class", None) is type(config)
    return of_config and isinstance(named, type) and issubclass(named, PreTrainedModel)
