"""Probe inputs: hidden texts of many lengths, in company and alone, padded on the side that shows mistakes.

Everything follows from (seed, draw): the same seed gives the same batches again, which is how evidence is replayed.
With a tokenizer texts come from the grammar, with special tokens, in every script, the empty one among them; without
one they are random plain token ids, and what needs text is not run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import torch
import yaml
from torch import Tensor

from pipeline.verification.measurements import Place
from pipeline.verification.parts import pad_id, plain_ids
from pipeline.verification.texts import one_of_each_script, probe_text, signed, single_character

RANKED = "ranking"
STICK = 64  # lengths around a stick and a length bucket are where layouts change
LONGEST = 512  # longest probe, tokens
SHORT = 48  # longest single sentence in the batches of scripts and of ranking
RANKED_BATCH, PAIRS_PER_LANGUAGE = 12, 2  # as many rows as the batch of scripts: one shape to capture and compile
FEWER_TEXTS = 5


@lru_cache(maxsize=1)
def probe_pairs() -> dict[str, list[tuple[str, str]]]:
    """Language to its pairs of sentences for ranking."""
    text = files(__package__).joinpath("probe_pairs.yaml").read_text("utf-8")
    return {language: [(a, b) for a, b in pairs] for language, pairs in yaml.safe_load(text).items()}


@dataclass(frozen=True)
class ProbeBatch:
    """One batch: `inputs` are (batch, length) int64 on the CPU; `purpose` is "case", "scripts", "ranking" or "alone".

    `scripts` names the scripts whose sentences are whole in it; `empty_texts` counts texts of no character.
    """

    name: str
    draw: int
    side: str
    purpose: str
    inputs: dict[str, Tensor]
    lengths: tuple[int, ...]
    scripts: tuple[str, ...] = ()
    empty_texts: int = 0

    @property
    def mask(self) -> Tensor:
        """(batch, length) int64, 1 where a token is real."""
        return self.inputs["attention_mask"]


def case_name(probe: ProbeBatch, place: Place) -> str:
    """How a verdict names a probe that was run at a place."""
    return f"{probe.name}-{place}"


class Text(NamedTuple):
    """Token ids of one text. `script` is that of a sentence that was not cut, "" for any other text."""

    ids: list[int]
    script: str = ""
    empty: bool = False


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

    `sweep`: one batch of five texts within a stick, one of them of one token, and two texts of the next length bucket
    where the model has one. `full`: draw 0 has that and the longest text allowed, draw 1 a batch beyond a stick; causal
    models also get the first batch padded on the left; with a tokenizer both draws have a sentence of every script, the
    empty text and a single character, and draw 0 the pairs that are ranked.
    Raises ValueError if the model allows fewer than 8 tokens.
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
    if tier == "sweep" and limit >= 2 * STICK:
        longer = [make.text(n) for n in (rng.randrange(STICK + 2, 2 * STICK), 2)]
        batches.append(make.batch(f"{_name(draw)}-longer", longer, side))
    if tier == "full":
        batches += _extra(make, texts, draw, limit, causal)
    if tier == "full" and tokenizer is not None:
        batches += make.text_batches(min(limit, SHORT), side, ranked=draw % 2 == 0)
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


def _extra(make: _Maker, texts: list[Text], draw: int, limit: int, causal: bool) -> list[ProbeBatch]:
    found: list[ProbeBatch] = []
    if causal:
        found.append(make.batch(f"{_name(draw)}-right", texts, "right"))
    if draw % 2 == 0 and limit > 2 * STICK:
        found.append(make.batch(f"draw{draw}-longest", [make.text(limit)], "right"))
    return found


class _Maker:
    """Makes texts and batches of one draw."""

    def __init__(self, config: Any, tokenizer: Any | None, rng: random.Random, draw: int) -> None:
        self.rng, self.draw, self.tokenizer = rng, draw, tokenizer
        self.pad = tokenizer.pad_token_id if tokenizer is not None else pad_id(config)
        self.pad = pad_id(config) if self.pad is None else self.pad
        self.types = tokenizer is not None and "token_type_ids" in tokenizer.model_input_names
        self.source: Source = _tokenized(tokenizer) if tokenizer is not None else _random_ids(config)

    def text(self, length: int) -> Text:
        """Token ids of one text of `length` tokens (more only if special tokens alone are more)."""
        return self.source(self.rng, length)

    def batch(
        self, name: str, texts: Sequence[Text], side: str, purpose: str = "case", width: int | None = None
    ) -> ProbeBatch:
        """The texts padded on `side` to `width` tokens, or to the longest of them."""
        lengths = tuple(len(text.ids) for text in texts)
        longest = width or max(lengths)
        ids = torch.full((len(texts), longest), self.pad, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(texts):
            columns = slice(0, lengths[row]) if side == "right" else slice(longest - lengths[row], None)
            ids[row, columns] = torch.tensor(text.ids)
            mask[row, columns] = 1
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.types:
            inputs["token_type_ids"] = torch.zeros_like(ids)
        scripts = tuple(sorted({text.script for text in texts if text.script}))
        empty = sum(text.empty for text in texts)
        return ProbeBatch(name, self.draw, side, purpose, inputs, lengths, scripts, empty)

    def text_batches(self, longest: int, side: str, ranked: bool) -> list[ProbeBatch]:
        """A sentence of every script with the texts that are hardly one; if `ranked`, the pairs that are ranked."""
        sentences = [self._short(signed(self.rng, text), longest, script) for script, text in self._scripts()]
        odd = [self._short(text, longest) for text in ("", single_character(self.rng))]
        texts = [text for text in [*sentences, *odd] if text.ids]
        batches = [self.batch(f"draw{self.draw}-scripts", texts, side, "scripts", longest)]
        return [*batches, *self._ranking(longest, side)] if ranked else batches

    def _scripts(self) -> list[tuple[str, str]]:
        return one_of_each_script(self.rng)

    def _short(self, text: str, longest: int, script: str = "") -> Text:
        """A text of at most `longest` tokens; one that is cut no longer counts as a sentence of its script."""
        assert self.tokenizer is not None
        whole = list(self.tokenizer(text)["input_ids"])
        if len(whole) <= longest:
            return Text(whole, script, empty=not text)
        return Text(list(self.tokenizer(text, truncation=True, max_length=longest)["input_ids"]))

    def _ranking(self, longest: int, side: str) -> list[ProbeBatch]:
        """Batches of the sentences of hidden pairs, as many of each language, whose pooled vectors are ranked."""
        chosen = [pair for pairs in probe_pairs().values() for pair in self.rng.sample(pairs, PAIRS_PER_LANGUAGE)]
        self.rng.shuffle(chosen)
        texts = [self._short(text, longest) for pair in chosen for text in pair]
        groups = [texts[i : i + RANKED_BATCH] for i in range(0, len(texts), RANKED_BATCH)]
        return [
            self.batch(f"draw{self.draw}-ranking{i}", group, side, RANKED, longest) for i, group in enumerate(groups)
        ]


def _random_ids(config: Any) -> Source:
    ids = plain_ids(config, config.vocab_size)
    return lambda rng, length: Text([int(ids[rng.randrange(len(ids))]) for _ in range(length)])


def _tokenized(tokenizer: Any) -> Source:
    special = tokenizer.num_special_tokens_to_add()

    def make(rng: random.Random, length: int) -> Text:
        if length <= special:
            return Text(list(tokenizer("")["input_ids"]), empty=True)
        characters, found = length, list[int]()
        while len(found) < length:
            found = list(tokenizer(probe_text(rng, characters), truncation=True, max_length=length)["input_ids"])
            characters = 2 * characters + 1
        return Text(found)

    return make


def texts_missing(tokenizer: Any | None) -> dict[str, str]:
    """The oracles that need text and cannot be had of this tokenizer (None: there is none), with the reason."""
    if tokenizer is None:
        return dict.fromkeys(("empty_text", "scripts", "ranking"), "the checkpoint has no tokenizer")
    if not tokenizer("")["input_ids"]:
        return {"empty_text": "the tokenizer gives no token for it"}
    return {}


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
