"""Runs an adapted checkpoint on the device, block by block, and measures it against the stock model on the CPU.

    python -m anchors.verdicts.run NAME... [--depth N] [--seed N] [--host]

prints per name {"lowest": lowest token cosine, "pooled": lowest pooled cosine, "depth": "2 of 28", "ideal": ...}.
`--host` runs the same parts in fp32 on the CPU: they must be the stock model.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
from anchors.verdicts.checkpoints import CHECKPOINTS, Checkpoint
from anchors.verdicts.families import Adapted
from torch import Tensor

LENGTH = 64
TEXTS = (64, 40, 24, 9)


def texts(vocabulary: int, left: bool, seed: int) -> tuple[Tensor, Tensor]:
    """Four texts of 64 to 9 tokens padded to 64: ids and mask."""
    ids = torch.randint(3, vocabulary, (len(TEXTS), LENGTH), generator=torch.Generator().manual_seed(seed))
    positions = torch.arange(LENGTH)
    places = LENGTH - 1 - positions if left else positions
    mask = (places[None, :] < torch.tensor(TEXTS)[:, None]).long()
    return ids * mask, mask


def on_host(adapted: Adapted) -> Tensor:
    """The same parts in fp32: shows that they are the stock model."""
    x = adapted.before(adapted.embedded)
    for block, mask, matrix in zip(adapted.blocks, adapted.masks, adapted.matrices, strict=True):
        x = block(x, mask, matrix)
    result: Tensor = adapted.after(x)
    return result


def on_device(adapted: Adapted, dtype: torch.dtype) -> Tensor:
    """Each block compiled by itself, a clone between blocks (E-18)."""

    def there(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.contiguous().to(dtype).to("spyre")

    def compiled(module: torch.nn.Module) -> Any:
        return torch.compile(module.to(dtype).to("spyre"), dynamic=False)

    masks = {id(m): there(m) for m in adapted.masks}
    matrices = {id(m): there(m) for m in adapted.matrices}
    x = compiled(adapted.before)(there(adapted.embedded)).clone()
    for block, mask, matrix in zip(adapted.blocks, adapted.masks, adapted.matrices, strict=True):
        x = compiled(block)(x, masks[id(mask)], matrices[id(matrix)]).clone()
    result: Tensor = compiled(adapted.after)(x)
    return result.cpu().float()


def cosines(result: Tensor, expected: Tensor, mask: Tensor) -> dict[str, float]:
    """Lowest cosine over real tokens and over the texts' mean vectors."""
    token = torch.nn.functional.cosine_similarity(result, expected, dim=-1)[mask.bool()]
    weight = mask[..., None] / mask.sum(1)[:, None, None]
    pooled = torch.nn.functional.cosine_similarity((result * weight).sum(1), (expected * weight).sum(1), dim=-1)
    return {"lowest": token.min().item(), "pooled": pooled.min().item()}


def measure(checkpoint: Checkpoint, depth: int | None = None, seed: int = 0, host: bool = False) -> dict[str, Any]:
    """Cosines of the device (or, with `host`, of the parts in fp32) against the stock model."""
    from pipeline.weights.synthetic.build import synthesise

    layers = depth or checkpoint.depth
    stock, report = synthesise(checkpoint.config, seed=seed, layers=layers)
    ids, mask = texts(checkpoint.config.vocab_size, checkpoint.left, seed)
    with torch.no_grad():
        expected = stock(input_ids=ids, attention_mask=mask).last_hidden_state
        adapted = checkpoint.adapt(stock, ids, mask)
        result = on_host(adapted) if host else on_device(adapted, checkpoint.dtype)
    return {**cosines(result, expected, mask), "depth": report.depth, "ideal": report.ideal_token_cosine}


def main() -> None:
    """The named checkpoints one after the other in this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+", choices=[c.name for c in CHECKPOINTS])
    parser.add_argument("--depth", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--host", action="store_true")
    options = parser.parse_args()
    named = {c.name: c for c in CHECKPOINTS}
    measured = {n: measure(named[n], options.depth, options.seed, options.host) for n in options.names}
    print(json.dumps(measured))  # noqa: T201


if __name__ == "__main__":
    main()
