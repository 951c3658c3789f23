"""Models with a head on top: the base model is adapted, the head stays on the host in fp32."""

from __future__ import annotations

from torch import nn

from .errors import WrongTask
from .towers import text_tower


def base_of(model: nn.Module) -> nn.Module:
    """The model whose blocks are adapted: the model itself, or what its head (or a shell around it) stands on.

    Of a model with parts for images or sound it is the part that reads text.

    Raises WrongTask for a model that generates text: adapters are verified for one pass without a cache.
    """
    generates = getattr(type(model), "can_generate", None)
    if generates is not None and generates():
        raise WrongTask(
            f"{type(model).__name__} generates text, and adapters are for embeddings and heads on them; "
            "load the checkpoint with AutoModel"
        )
    base = getattr(model, "base_model", model)
    base = text_tower(model) if base is model else base
    return model if base is model or not isinstance(base, nn.Module) else base_of(base)


def head_names(model: nn.Module, base: nn.Module) -> list[str]:
    """Names of the children that stand on the base model."""
    children = model.named_children() if base is not model else ()
    return [name for name, child in children if all(m is not base for m in child.modules())]
