"""The language model as settings, environment and the last `agents doctor` say: where it is and how it is spoken to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from pipeline.database import migrate
from pipeline.database.errors import DatabaseUnavailable, SchemaOutdated
from pipeline.database.facts import get_fact, set_fact
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review.drafting import Budgets
from pipeline.settings import get_settings
from pipeline.verification.policy import current_policy

if TYPE_CHECKING:
    from agents.drafters.llm import LlmSettings
    from agents.drafters.llm.doctor import Examination
    from agents.drafters.rules import RulesDrafter

EXAMINED = "llm_endpoint"
"""The fact that keeps what `agents doctor` found out."""


def budgets() -> Budgets:
    """The budgets of the settings."""
    settings = get_settings()
    return Budgets(settings.llm_daily_budget_usd, settings.llm_requester_budget_usd, settings.llm_request_budget_usd)


def llm_settings() -> LlmSettings:
    """The drafter's settings without what the doctor found."""
    from agents.drafters.llm import LlmSettings, Price

    settings = get_settings()
    return LlmSettings.from_environment(
        model=settings.llm_model,
        daily_budget_usd=settings.llm_daily_budget_usd,
        price=Price(*settings.llm_price) if settings.llm_price else None,
        protocol=settings.llm_protocol,
        parallel=settings.llm_parallel,
        reviewer=settings.llm_reviewer,
    )


def language_model(rules: RulesDrafter | None = None) -> Any:
    """The llm drafter as it is set up, the other causes cured by `rules`; None where no model is named.

    Its protocol and context are those that the doctor found for this endpoint and model, its submissions at most the
    gate's.
    """
    if get_settings().llm_model is None:
        return None
    from agents.drafters.llm import LlmDrafter

    llm = llm_settings()
    submissions = min(llm.limits.submissions, current_policy().guards["final_submissions"])
    found = _last_examination(llm) if is_ready() else {}
    limits = replace(llm.limits, submissions=submissions, context_tokens=found.get("context_tokens"))
    protocol = found.get("protocol") if llm.protocol == "auto" else None
    return LlmDrafter(replace(llm, protocol=protocol or llm.protocol, limits=limits), rules)


def is_ready() -> bool:
    """True if there is a database with this version's tables."""
    try:
        migrate.require_current()
    except (SchemaOutdated, DatabaseUnavailable, OperationalError):
        return False
    return True


def remember(settings: LlmSettings, found: Examination) -> None:
    """Keep what the doctor found out about the endpoint; the address without a password."""
    value = {
        "endpoint": _address(settings),
        "model": found.model,
        "protocol": found.protocol,
        "context_tokens": found.context_tokens,
    }
    with unit_of_work() as session:
        set_fact(session, EXAMINED, value, "agents doctor")


def examined(session: Session, settings: LlmSettings) -> dict[str, Any]:
    """What was found out about this endpoint and model; empty if nothing was, or about another."""
    fact: dict[str, Any] = get_fact(session, EXAMINED, {})
    same = fact.get("endpoint") == _address(settings) and fact.get("model") == settings.model
    return fact if same else {}


def _last_examination(settings: LlmSettings) -> dict[str, Any]:
    with reading() as session:
        return examined(session, settings)


def _address(settings: LlmSettings) -> str:
    from agents.redact import redactor_of

    return redactor_of(settings.api_key, settings.base_url).text(settings.base_url or "")
