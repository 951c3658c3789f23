"""Captures the stock models of the tasks that a language model is asked: `stock_documents.py OUT.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Subject to the document of the unchanged model, placed as a drafted one would be."""
    from agents.capture.case import Case
    from agents.capture.model import capture_patched
    from pipeline.bench.language import measurable
    from pipeline.bench.structural import SUBJECTS, ModelTask
    from pipeline.bench.tasks import load_tasks

    subjects = {task.subject for task in measurable(load_tasks()) if isinstance(task, ModelTask)}
    found = {name: capture_patched(SUBJECTS[name], [], [Case(2, 40, "float16")]) for name in sorted(subjects)}
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
