"""Hidden texts from a grammar of our own: templates, word lists and invented words in ten scripts (`grammar.yaml`).

Invented words and numbers make the space of texts too large to prepare for; templates need no inflection, so that a
word list is all a language needs. Signs, mixed scripts, the empty text, single characters and long texts are drawn too.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

SIGNS = (
    "🙂", "🚀", "🌧️", "№", "§", "→", "±", "x=1", "NULL", "https://example.org/a?b=1", "e\u0301", "…", "—", "\t", "(!)",
)  # fmt: skip
SINGLE = "aZ7?éжΩمאनは中한ก€🙂."
MIXED, SIGNED = 0.2, 0.25
"""Shares of texts whose sentences are of several languages, and of sentences that carry a sign."""
_SLOT = re.compile(r"\{(\w+)\}")
_LISTS = {"n": "nouns", "p": "places", "q": "qualities"}
DEFAULT_JOIN = " "


@lru_cache(maxsize=1)
def grammar() -> dict[str, dict[str, Any]]:
    """The languages of the grammar by name."""
    text = files(__package__).joinpath("grammar.yaml").read_text("utf-8")
    return dict(sorted(yaml.safe_load(text).items()))


def scripts() -> dict[str, list[str]]:
    """Script to the languages written in it."""
    found: dict[str, list[str]] = {}
    for name, language in grammar().items():
        found.setdefault(language["script"], []).append(name)
    return found


def sentence(rng: random.Random, language: str) -> str:
    """One sentence of a language, its slots filled at random."""
    rules = grammar()[language]
    return _SLOT.sub(lambda slot: _fill(rng, rules, slot[1]), rng.choice(rules["templates"]))


def _fill(rng: random.Random, rules: dict[str, Any], slot: str) -> str:
    if slot in _LISTS:
        return str(rng.choice(rules[_LISTS[slot]]))
    return {"w": _invented, "num": _number, "date": _date, "time": _time}[slot](rng, rules)


def _invented(rng: random.Random, rules: dict[str, Any]) -> str:
    word = "".join(rng.choice(rules["syllables"]) for _ in range(rng.randrange(2, 5)))
    return word.capitalize() if rng.randrange(2) else word


def _number(rng: random.Random, rules: dict[str, Any]) -> str:
    value = rng.randrange(10 ** rng.randrange(1, 7))
    return rng.choice((f"{value}", f"{value:,}", f"{value / 100:.2f}", f"{value}%", f"-{value}"))


def _date(rng: random.Random, rules: dict[str, Any]) -> str:
    day, month, year = rng.randrange(1, 29), rng.randrange(1, 13), rng.randrange(1900, 2100)
    return rng.choice((f"{day}.{month}.{year}", f"{year}-{month:02}-{day:02}", f"{month}/{day}/{year % 100:02}"))


def _time(rng: random.Random, rules: dict[str, Any]) -> str:
    return f"{rng.randrange(24)}:{rng.randrange(60):02}"


def probe_text(rng: random.Random, characters: int) -> str:
    """A text of at least so many characters: sentences of one language, sometimes of several, some with a sign."""
    names = sorted(grammar())
    mixed, main = rng.random() < MIXED, rng.choice(names)
    parts: list[str] = []
    while sum(map(len, parts)) < characters:
        parts.append(signed(rng, sentence(rng, rng.choice(names) if mixed else main)))
    join = DEFAULT_JOIN if mixed else grammar()[main].get("join", DEFAULT_JOIN)
    return str(join).join(parts)


def signed(rng: random.Random, text: str) -> str:
    """The text, now and then with a sign before or behind it."""
    if rng.random() >= SIGNED:
        return text
    sign = rng.choice(SIGNS)
    return f"{sign} {text}" if rng.randrange(2) else f"{text} {sign}"


def one_of_each_script(rng: random.Random) -> list[tuple[str, str]]:
    """(script, sentence) for every script of the grammar, in random order."""
    found = [(script, sentence(rng, rng.choice(languages))) for script, languages in scripts().items()]
    rng.shuffle(found)
    return found


def single_character(rng: random.Random) -> str:
    """A text of one character."""
    return rng.choice(SINGLE)
