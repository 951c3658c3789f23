"""Probe inputs: hidden texts of many lengths, in company and alone, padded on the side that shows mistakes.

Everything follows from (seed, draw): the same seed gives the same batches again, which is how evidence is replayed.
With a tokenizer texts are real, with special tokens; without one they are random plain token ids.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pipeline.verification.parts import pad_id, plain_ids
from pipeline.verification.texts import probe_text

STICK = 64  # lengths around a stick and a length bucket are where layouts change
LONGEST = 512  # longest probe, tokens
RANKED_TEXTS, RANKED_BATCH, RANKED_LENGTH = 48, 16, 24
FEWER_TEXTS = 5


@dataclass(frozen=True)
class ProbeBatch:
    """One batch: `inputs` are (batch, length) int64 on the CPU; `purpose` is "case" or "ranking" (no verdict alone)."""

    name: str
    draw: int
    side: str
    purpose: str
    inputs: dict[str, Tensor]
    lengths: tuple[int, ...]

    @property
    def mask(self) -> Tensor:
        """(batch, length) int64, 1 where a token is real."""
        return self.inputs["attention_mask"]


Text = list[int]
Source = Callable[[random.Random, int], Text]


def probe_batches(
    config: Any,
    tokenizer: Any | None,
    seed: int,
    draw: int = 0,
    *,
    tier: str = "sweep",
    causal: bool = False,
    max_length: int | None = None,
) -> list[ProbeBatch]:
    """The batches of one draw. `max_length` is the model's limit in tokens; the config's is used where it is None.

    `sweep`: one batch of five texts within a stick, one of them of one token. `full`: draw 0 has that and the longest
    text allowed, draw 1 a batch beyond a stick; causal models also get the first batch padded on the left; with a
    tokenizer draw 0 adds ranking batches. Raises ValueError if the model allows fewer than 8 tokens.
    """
    limit = min(LONGEST, max_length or length_limit(config))
    if limit < 8:
        raise ValueError(f"probe texts need at least 8 tokens, the model allows {limit}")
    rng = random.Random(f"{seed}/{draw}")  # noqa: S311 - seeded by `secrets`, must be replayable
    make = _Maker(config, tokenizer, rng, draw)
    lengths = _case_lengths(rng, draw, limit, tier)
    texts = [make.text(n) for n in lengths]
    side = "left" if causal else "right"
    batches = [make.batch(f"{_name(draw)}-{side}", texts, side)]
    if tier == "full":
        batches += _extra(make, texts, draw, limit, causal, tokenizer is not None)
    return batches


def _name(draw: int) -> str:
    return f"draw{draw}-mixed"


def _case_lengths(rng: random.Random, draw: int, limit: int, tier: str) -> list[int]:
    """Lengths of the mixed batch: a stick and one less, one token and two, and hidden ones; odd draws go beyond."""
    if draw % 2 and tier == "full":
        fixed = [STICK + 1, STICK, rng.randrange(STICK + 2, 2 * STICK), 2]
    else:
        fixed = [STICK, STICK - 1, 2, 1]
    hidden = [rng.randrange(8, STICK) for _ in range(FEWER_TEXTS - len(fixed) + (tier == "full"))]
    found = [min(n, limit) for n in [*fixed, *hidden]]
    rng.shuffle(found)
    return found


def _extra(make: _Maker, texts: list[Text], draw: int, limit: int, causal: bool, ranked: bool) -> list[ProbeBatch]:
    found: list[ProbeBatch] = []
    if causal:
        found.append(make.batch(f"{_name(draw)}-right", texts, "right"))
    if draw % 2 == 0 and limit > 2 * STICK:
        found.append(make.batch(f"draw{draw}-longest", [make.text(limit)], "right"))
    if draw % 2 == 0 and ranked:
        found += make.ranking(min(limit, RANKED_LENGTH), "left" if causal else "right")
    return found


class _Maker:
    """Makes texts and batches of one draw."""

    def __init__(self, config: Any, tokenizer: Any | None, rng: random.Random, draw: int) -> None:
        self.rng, self.draw = rng, draw
        self.pad = tokenizer.pad_token_id if tokenizer is not None else pad_id(config)
        self.pad = pad_id(config) if self.pad is None else self.pad
        self.types = tokenizer is not None and "token_type_ids" in tokenizer.model_input_names
        self.source: Source = _tokenized(tokenizer) if tokenizer is not None else _random_ids(config)

    def text(self, length: int) -> Text:
        """Token ids of one text of `length` tokens (more only if special tokens alone are more)."""
        return self.source(self.rng, length)

    def batch(self, name: str, texts: Sequence[Text], side: str, purpose: str = "case") -> ProbeBatch:
        """The texts padded on `side` to the longest of them."""
        longest = max(map(len, texts))
        ids = torch.full((len(texts), longest), self.pad, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(texts):
            columns = slice(0, len(text)) if side == "right" else slice(longest - len(text), None)
            ids[row, columns] = torch.tensor(text)
            mask[row, columns] = 1
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.types:
            inputs["token_type_ids"] = torch.zeros_like(ids)
        return ProbeBatch(name, self.draw, side, purpose, inputs, tuple(map(len, texts)))

    def ranking(self, longest: int, side: str) -> list[ProbeBatch]:
        """Batches of short texts whose pooled vectors are ranked against each other."""
        shortest = min(8, longest)
        texts = [self.text(self.rng.randrange(shortest, longest + 1)) for _ in range(RANKED_TEXTS)]
        groups = [texts[i : i + RANKED_BATCH] for i in range(0, RANKED_TEXTS, RANKED_BATCH)]
        return [self.batch(f"draw{self.draw}-ranking{i}", group, side, "ranking") for i, group in enumerate(groups)]


def _random_ids(config: Any) -> Source:
    ids = plain_ids(config, config.vocab_size)
    return lambda rng, length: [int(ids[rng.randrange(len(ids))]) for _ in range(length)]


def _tokenized(tokenizer: Any) -> Source:
    special = tokenizer.num_special_tokens_to_add()

    def make(rng: random.Random, length: int) -> Text:
        if length <= special:
            return list(tokenizer("")["input_ids"]) or [0]
        words, found = length, list[int]()
        while len(found) < length:
            found = list(tokenizer(probe_text(rng, words), truncation=True, max_length=length)["input_ids"])
            words = 2 * words + 1
        return found

    return make


def length_limit(config: Any) -> int:
    """Most tokens the config allows; position tables that start behind the padding id lose those rows.

    LONGEST where the config names no limit.
    """
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length")
    rows = next((v for n in names if isinstance(v := getattr(config, n, None), int) and v > 0), None)
    if rows is None:
        return LONGEST
    offset = pad_id(config) + 1 if rows % STICK else 0
    return max(1, rows - offset)


def alone_batches(probe: ProbeBatch) -> list[ProbeBatch]:
    """Each text of `probe` alone and without padding, batch 1, in order."""
    found: list[ProbeBatch] = []
    for row, length in enumerate(probe.lengths):
        keep = probe.mask[row].bool()
        inputs = {name: tensor[row : row + 1, keep] for name, tensor in probe.inputs.items()}
        found.append(ProbeBatch(f"{probe.name}-alone{row}", probe.draw, probe.side, "alone", inputs, (length,)))
    return found
