"""Stored conversations: listed, shown, written to one JSON file and read back."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from pipeline.database.unit_of_work import database_now
from pipeline.drafting import repository
from pipeline.errors import BadInput, NotFound
from pipeline.review.models import SCRIPTED, Trajectory, TrajectoryStep

FORMAT = "spyre-factory trajectory 1"
MAX_STEPS, MAX_STEP_BYTES = 2_000, 4_000_000
NEEDED = frozenset({"format", "id", "model", "steps"})


def summaries(session: Session, limit: int = 50) -> list[dict[str, Any]]:
    """The newest conversations: for what, by which model, how they ended, what they cost (None is unknown)."""
    return [_summary(t, [s.data for s in t.steps]) for t in repository.list_trajectories(session, limit)]


def export(session: Session, trajectory_id: str) -> dict[str, Any]:
    """The conversation as one JSON document; `trajectory_id` may be its beginning. Raises NotFound."""
    trajectory = get(session, trajectory_id)
    steps = [step.data for step in repository.steps_of(session, trajectory.id)]
    return {"format": FORMAT, **_summary(trajectory, steps), "steps": steps}


def get(session: Session, trajectory_id: str) -> Trajectory:
    """The conversation whose id begins so. Raises NotFound if there is none or more than one."""
    found = repository.find_trajectories(session, trajectory_id)
    if len(found) != 1:
        raise NotFound(f"There are {'no' if not found else 'several'} trajectories {trajectory_id!r}.")
    return found[0]


def import_document(session: Session, document: Any) -> Trajectory:
    """Store a document that `export` wrote, under its id. Raises BadInput if it is none or the id is taken."""
    steps = checked(document)
    if repository.find_trajectories(session, document["id"]):
        raise BadInput(f"There is a trajectory {document['id']!r} already.")
    now = database_now(session)
    trajectory = Trajectory(
        id=document["id"], run_id=None, model=str(document["model"])[:120], scripted=document["model"] == SCRIPTED,
        cost_usd=_number(document.get("cost_usd")), tokens=_whole(document.get("tokens")), created_at=now,
    )  # fmt: skip
    session.add(trajectory)
    session.flush()
    for position, data in enumerate(steps):
        session.add(TrajectoryStep(trajectory_id=trajectory.id, position=position, data=data, created_at=now))
    session.flush()
    return trajectory


def checked(document: Any) -> list[dict[str, Any]]:
    """The steps of a document, without secrets. Raises BadInput if it is no document of `export`."""
    from agents.redact import redactor_of

    if not isinstance(document, dict) or document.get("format") != FORMAT or not set(document) >= NEEDED:
        raise BadInput(f"The file is no trajectory: it needs {', '.join(sorted(NEEDED))} and the format {FORMAT!r}.")
    steps, name = document["steps"], document["id"]
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not name.isalnum():
        raise BadInput("The trajectory's id is not one.")
    if not isinstance(steps, list) or len(steps) > MAX_STEPS or not all(_is_step(step) for step in steps):
        raise BadInput(f"The trajectory's steps are not at most {MAX_STEPS} steps with a kind and messages.")
    cleaned: list[dict[str, Any]] = redactor_of(None).data(steps)
    return cleaned


def _is_step(step: Any) -> bool:
    if not isinstance(step, dict) or not isinstance(step.get("kind"), str):
        return False
    messages = step.get("messages")
    return isinstance(messages, list) and all(isinstance(m, dict) for m in messages)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 31 else None


def _summary(trajectory: Trajectory, steps: list[dict[str, Any]]) -> dict[str, Any]:
    first, last = (steps[0], steps[-1]) if steps else ({}, {})
    task = first.get("task") or {}
    return {
        "id": trajectory.id,
        "run": trajectory.run_id,
        "model": trajectory.model,
        "scripted": trajectory.scripted,
        "role": first.get("role", "drafter"),
        "target": task.get("target") or first.get("target"),
        "profile": task.get("profile"),
        "prompts": first.get("prompts"),
        "protocol": first.get("protocol"),
        "count": len(steps),
        "turns": sum(s["kind"] == "answer" and not s.get("replayed") for s in steps),
        "outcome": last.get("outcome") if last.get("kind") == "end" else None,
        "reason": last.get("reason") if last.get("kind") == "end" else None,
        "tokens": trajectory.tokens,
        "cost_usd": trajectory.cost_usd,
        "created_at": trajectory.created_at.isoformat(),
    }
