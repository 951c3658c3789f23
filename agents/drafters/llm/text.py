"""Text on its way to and from models: templates with undefined variables forbidden, data marked as data, cuts said."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

MAX_DATA = 12_000
"""Characters of one piece of data shown to a model."""

CLOSING = re.compile(r"<\s*/\s*(data)", re.IGNORECASE)
NAME = re.compile(r"[^\w. ,:/#-]")

MAX_STORED = 40_000
"""Characters of one text kept in a trajectory."""


@lru_cache(maxsize=1)
def _templates() -> Environment:
    loader = PackageLoader("agents.drafters.llm", "prompts")
    # The output is a prompt, never a page: escaping would change the code that the model reads.
    return Environment(loader=loader, undefined=StrictUndefined, autoescape=False, keep_trailing_newline=False)  # noqa: S701


def render(name: str, **values: Any) -> str:
    """The prompt `name` with its variables filled. Raises jinja2.UndefinedError for a variable that is not given."""
    return _templates().get_template(f"{name}.j2").render(**values)


def cut(text: str, limit: int) -> str:
    """`text` if it is short enough, else its beginning and a note of what was cut."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut here: {limit} of {len(text)} characters shown]"


def cut_bytes(text: str, limit: int) -> str:
    """As `cut`, by UTF-8 bytes; the result, note included, has at most `limit`."""
    if len(text.encode()) <= limit:
        return text
    note = f"\n[cut here: of {len(text.encode())} bytes]"
    kept = text.encode()[: max(0, limit - len(note.encode()))].decode("utf-8", "ignore")
    return kept + note


def as_data(text: str, source: str, limit: int = MAX_DATA) -> str:
    """`text` marked as data from `source`; it cannot close its own mark."""
    body = CLOSING.sub(r"<\\/\1", cut(text, limit))
    return f'<data from="{NAME.sub("_", source)[:200]}">\n{body}\n</data>'


@lru_cache(maxsize=1)
def prompt_digest() -> str:
    """sha256 over all prompt templates: stored with each trajectory, so that scores name the prompts they are of."""
    folder = files("agents.drafters.llm") / "prompts"
    texts = sorted((entry.name, entry.read_text(encoding="utf-8")) for entry in folder.iterdir() if entry.is_file())
    return hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in texts).encode()).hexdigest()
