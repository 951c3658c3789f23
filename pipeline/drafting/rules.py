"""Rules proposed from accepted patches of language models. It changes nothing: a person puts it into the table."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from pipeline.database.facts import is_demo
from pipeline.drafting import repository
from pipeline.review.models import PatchRow


def proposals(session: Session) -> list[dict[str, Any]]:
    """Of each released document that a model drafted: the proposed rule with its tests, or why there is none."""
    rows = repository.released_patches(session, is_demo(session))
    return [
        {"candidate": candidate.id, "model": patch.model, "scripted": candidate.scripted, **proposal_of(patch)}
        for patch, candidate in rows
        if "document" in patch.data.get("parameters", {})
    ]


def proposal_of(patch: PatchRow) -> dict[str, Any]:
    """The proposal of one patch as plain data."""
    from agents.drafters.generalise import NoRule, propose_rule
    from agents.drafters.rules.documents import NotRewritable, capture_stock

    parameters = patch.data["parameters"]
    try:
        found = propose_rule(capture_stock(parameters["module_class"]), parameters["document"])
    except (NoRule, NotRewritable) as reason:
        return {"rule": None, "reason": str(reason)}
    return {"rule": found.to_dict(), "reason": ""}
