"""A replay with today's machinery: the sandbox, the gate's judges and the pattern library of this installation."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from agents.types import DraftContext
from pipeline.drafting.replay import Replayed, replay
from pipeline.drafting.trials import candidate_tester, capture_validated, reproducer_runner
from pipeline.errors import BadInput
from pipeline.execution.subject import Subject


def replay_document(document: dict[str, Any]) -> Replayed:
    """Replay an exported conversation. Raises BadInput if it lacks what a replay needs."""
    start: dict[str, Any] = next((s for s in document["steps"] if s["kind"] in ("start", "resumed")), {})
    task, config = start.get("task") or {}, start.get("config")
    if not task or not isinstance(config, dict):
        raise BadInput("The trajectory does not hold its task and the model's configuration: it cannot be run again.")
    with tempfile.TemporaryDirectory(prefix="spyre-replay-") as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        subject = Subject("replay", Path(folder), task["profile"], Path(folder))
        context = DraftContext(
            family=task["family"],
            profile=task["profile"],
            dtype=task["dtype"],
            hidden_patterns=frozenset(task.get("hidden_patterns") or ()),
            capture=capture_validated,
            test=candidate_tester(subject),
            reproduce=reproducer_runner(task["profile"]),
            model_class=task["target"] if task["form"] == "model" else None,
        )
        return replay(document, context)
