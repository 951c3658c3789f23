"""Does the document bind the code? The patched code, run in the sandbox, must equal the replay bit for bit.

A document can be honest while the code that ships is not: code can ask whether it is being exported, or count its
calls. So it is run on real tensors too, on weights and inputs that the verifier draws and nobody has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from adapters.replay.errors import DocumentRefused
from adapters.replay.model import ModelReplay
from agents.capture.stock import stock_tensors
from agents.capture.weights import random_stock

RUNS = 12
"""Runs of one binding: a counter that changes the result within so many calls is seen."""

RunsCode = Callable[..., bytes]
"""`agents.sandbox.capture_model.run_model_in_sandbox`, or what stands in for it."""


def check_binding(
    config: Mapping[str, Any],
    patches: Sequence[Mapping[str, Any]],
    document: Mapping[str, Any],
    run: RunsCode,
    seed: int,
    runs: int = RUNS,
) -> None:
    """Raises DocumentRefused unless every run of the code equals the replay of the validated document on the CPU.

    `seed` must come from the verifier after the candidate was fixed; weights and inputs follow from it.
    """
    batches = [drawn_inputs(config, document, seed + n) for n in range(runs)]
    sent = save({f"{n}.{name}": t for n, batch in enumerate(batches) for name, t in batch.items()})
    returned = _loaded(run(dict(config), list(patches), document["case"]["dtype"], seed, sent))
    replay = ModelReplay(document, stock_tensors(random_stock(dict(config), seed)))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        equal = [same_bits(returned.get(str(n)), replay.run(batch)) for n, batch in enumerate(batches)]
    finally:
        torch.set_num_threads(threads)
    if not all(equal):
        raise DocumentRefused(f"the code does something else than its document: {sum(equal)} of {runs} runs are equal")


def drawn_inputs(config: Mapping[str, Any], document: Mapping[str, Any], seed: int) -> dict[str, Tensor]:
    """Inputs of the document's case: random ids, texts of random length padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    shape = (document["case"]["batch"], document["case"]["length"])
    lengths = torch.randint(1, shape[1] + 1, (shape[0], 1), generator=generator)
    mask = (torch.arange(shape[1])[None] < lengths).long()
    ids = torch.randint(0, int(config.get("vocab_size", 100)), shape, generator=generator)
    made = {"input_ids": ids, "attention_mask": mask}
    return {e["name"]: made.get(e["name"], torch.zeros(shape, dtype=torch.int64)) for e in document["inputs"]}


def _loaded(content: bytes) -> dict[str, Tensor]:
    try:
        return load(content)
    except Exception as error:
        raise DocumentRefused("the code's outputs are no safetensors file", "binding") from error


def same_bits(found: Tensor | None, expected: Tensor) -> bool:
    """True if shape, dtype and every value agree; NaN agrees with NaN."""
    if found is None or found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    both = found.isnan() & expected.isnan()
    return bool(((found == expected) | both).all())
