"""Search among the known replacements: what the pattern library says, as ideas. Hidden ones are left out."""

from __future__ import annotations

import re

from agents.drafters.rules.patterns import PATTERNS

MAX_FOUND = 6
WORD = re.compile(r"[a-z0-9]{2,}")


def search_library(query: str, hidden: frozenset[str] = frozenset()) -> str:
    """The patterns that share most words with the query, one per paragraph; says so where there is none."""
    wanted = set(WORD.findall(query.lower()))
    scored = [(len(wanted & set(WORD.findall(text.lower()))), text) for text in _texts(hidden)]
    found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[:MAX_FOUND]
    return "\n\n".join(text for _, text in found) or "No known replacement holds any of these words."


def _texts(hidden: frozenset[str]) -> list[str]:
    from adapters.patches.registry import PATTERNS as PATCHES

    texts = []
    for row in PATTERNS.values():
        patch = PATCHES.get(row.id)
        if row.id in hidden or patch is None:
            continue
        words = " ".join((patch.__doc__ or "").split())
        texts.append(f"{row.id} ({row.exactness.value}): {row.text}. {patch.mathematics} {words}"[:900])
    return texts
