"""Settings of the `llm` drafter. The only place that reads OPENAI_BASE_URL and OPENAI_API_KEY."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCRIPTED_MODEL = "scripted"
"""The model name of the scripted endpoint. It costs nothing, and what it drafts counts in no figure."""


@dataclass(frozen=True)
class Price:
    """USD per million tokens, read and written."""

    prompt: float
    completion: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The cost in USD of so many tokens."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


FREE = Price(0.0, 0.0)
ASSUMED = Price(30.0, 120.0)
"""Reserved for a model whose price is not set: deliberately high, because an unknown cost is not zero."""


@dataclass(frozen=True)
class Limits:
    """Of one draft; checked before each call."""

    turns: int = 20
    tokens: int = 200_000
    seconds: float = 900.0
    cost_usd: float = 2.0
    submissions: int = 3
    tests: int = 6
    unusable: int = 5
    """Answers in a row that could not be used."""
    context_tokens: int | None = None
    """What the endpoint can read and write in one call; None is not known."""
    answer_tokens: int = 4_000
    call_seconds: float = 120.0
    answer_bytes: int = 400_000


@dataclass(frozen=True)
class LlmSettings:
    """Where the model is and what it may use. `model` None means: the only model that the endpoint lists."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None
    daily_budget_usd: float = 0.0
    price: Price | None = None
    protocol: Literal["auto", "tools", "text"] = "auto"
    limits: Limits = Limits()
    retries: int = 2
    parallel: int = 1
    """Drafts of one target at a time; the first accepted one ends the others."""
    reviewer: bool = False
    """Ask for advice on an accepted patch, in a conversation of its own that sees no author's opinion."""

    @classmethod
    def from_environment(
        cls,
        *,
        model: str | None,
        daily_budget_usd: float,
        price: Price | None = None,
        limits: Limits | None = None,
        environ: Mapping[str, str] = os.environ,
        **more: Any,
    ) -> LlmSettings:
        """Settings with the endpoint and key of the environment; `more` are fields of this class."""
        return cls(
            base_url=environ.get("OPENAI_BASE_URL") or None,
            api_key=environ.get("OPENAI_API_KEY") or None,
            model=model,
            daily_budget_usd=daily_budget_usd,
            price=price,
            limits=limits or Limits(),
            **more,
        )

    def why_off(self) -> str | None:
        """Why the drafter does not start, with the remedy; None if it is on."""
        if not self.base_url:
            return "no LLM endpoint is set: set OPENAI_BASE_URL to an OpenAI-compatible endpoint"
        if self.daily_budget_usd <= 0:
            return "no daily LLM budget is set: set SPYRE_FACTORY_LLM_DAILY_BUDGET_USD above 0"
        return None


def price_of(model: str, settings: LlmSettings) -> Price | None:
    """The model's price; None if it is not known. The scripted model costs nothing."""
    return FREE if model == SCRIPTED_MODEL else settings.price
