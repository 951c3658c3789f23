"""Rules proposed from released patches of language models, also of those that were drafted without one.

Nothing is used by it: proposals wait in the review queue (`pipeline.rules`).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from pipeline.database.facts import is_demo
from pipeline.drafting import repository
from pipeline.review.models import PatchRow
from pipeline.rules.service import store_rule


def proposals(session: Session) -> list[dict[str, Any]]:
    """Of each released document that a model drafted: the proposed rule with its tests, or why there is none.

    A rule that is not in the queue yet is added to it.
    """
    found = []
    for patch, candidate in repository.released_patches(session, is_demo(session)):
        if "document" in patch.data.get("parameters", {}):
            proposal = proposal_of(patch)
            if proposal["rule"] is not None:
                store_rule(session, candidate, patch, proposal["rule"])
            found.append({"candidate": candidate.id, "model": patch.model, "scripted": candidate.scripted, **proposal})
    return found


def proposal_of(patch: PatchRow) -> dict[str, Any]:
    """The proposal of one patch as plain data."""
    from agents.drafters.generalise import generalised

    parameters = patch.data["parameters"]
    return patch.data.get("generalised") or generalised(parameters["module_class"], parameters["document"])
