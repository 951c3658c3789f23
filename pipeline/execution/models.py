"""The stock model of a checkpoint folder: on the meta device for capability, with weights for execution."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def build_meta(folder: Path) -> Any:
    """The stock model on the meta device, eval, with the attention its class prefers; nothing is allocated.

    Raises CheckpointProblem (`malformed`, `unknown_architecture`).
    """
    import torch

    from pipeline.weights.synthetic.build import build_stock, load_config

    with torch.device("meta"):
        return build_stock(_without_cache(load_config(folder)))


def load_weights(folder: Path) -> Any:
    """The stock model with the folder's safetensors, fp32 on the CPU, eval. No remote code, no network.

    Of a model with parts for images or sound, the part that reads text. Raises CheckpointProblem (`malformed`) if the
    files do not hold the model's tensors.
    """
    import torch

    from adapters.remap import renamed_weights
    from adapters.towers import loader, text_tower
    from pipeline.errors import CheckpointProblem
    from pipeline.weights.synthetic.build import fields_of, load_whole_config

    config, names = load_whole_config(folder), renamed_weights(fields_of(folder))
    for each in (config, config.get_text_config()):
        _without_cache(each)
    try:
        model = loader(config).from_pretrained(
            str(folder),
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            **({"key_mapping": names} if names else {}),
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointProblem("malformed", f"weights in {folder} do not load: {str(error)[:300]}") from error
    return text_tower(model).eval()


def _without_cache(config: Any) -> Any:
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return config
