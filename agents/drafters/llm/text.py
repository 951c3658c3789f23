"""Text on its way to and from models: templates with undefined variables forbidden, data marked as data, cuts said."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

MAX_DATA = 12_000
"""Characters of one piece of data shown to a model."""

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


def as_data(text: str, source: str, limit: int = MAX_DATA) -> str:
    """`text` marked as data from `source`; it cannot close its own mark."""
    body = cut(text, limit).replace("</data", "<\\/data")
    return f'<data from="{source}">\n{body}\n</data>'
