"""The child that judges batches: `python -m pipeline.verification.selftest.worker`.

It reads lines [BATCH.json, OUT.json] and answers each by `done`, or by one line that says what went wrong.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.verification.selftest.entry import Stage
from pipeline.verification.selftest.judge import Candidate, Judgement, judge_all, judge_alone
from pipeline.verification.selftest.mutation import judge_mutants
from pipeline.verification.selftest.run import REFUSE, Item, Outcome
from pipeline.verification.selftest.whole import judge_whole

RULES = r"may not be|keeps state|written out|assigns|does not parse"
"""What the rules on sources say."""


def judge_items(items: list[Item], seed: int) -> list[Outcome]:
    """The outcomes of items, in order: most share sandbox starts, some have their own, some a whole verification."""
    found = {i.name: _alone(i, seed) for i in items if i.alone or i.whole}
    shared = [i for i in items if i.name not in found]
    judged = judge_all([candidate_of(i) for i in shared], seed) if shared else []
    found |= {i.name: j for i, j in zip(shared, judged, strict=True)}
    return [outcome_of(i, found[i.name]) for i in items]


def candidate_of(item: Item) -> Candidate:
    """The item as the judge takes it."""
    return Candidate(item.subject, item.patches, item.cases, item.with_source)


def _alone(item: Item, seed: int) -> Judgement:
    if item.whole:
        return judge_whole(item.subject, item.patches, item.pooling)
    return judge_alone(candidate_of(item), seed)


def outcome_of(item: Item, judged: Judgement) -> Outcome:
    """The outcome; a refusal that does not say what is wrong is marked."""
    stage = str(judged.stage or "accepted")
    expected = RULES if judged.stage is Stage.SOURCE else item.says
    if item.expected == REFUSE and not judged.accepted and not re.search(expected, judged.reason):
        stage = "wrong reason"
    return Outcome(item.name, item.group, item.expected, judged.accepted, stage, judged.reason[:500])


def item_from(data: dict[str, Any]) -> Item:
    """The item that `Batch.to_dict` wrote."""
    return Item(**{**data, "patches": tuple(data["patches"])})


def judge_batch(task: Path, out: Path) -> None:
    """Judge one batch."""
    batch = json.loads(task.read_text())
    items = [item_from(data) for data in batch["items"]]
    found = judge_items(items, batch["seed"]) if items else judge_mutants(batch["mutants"], batch["seed"])
    out.write_text(json.dumps([asdict(o) for o in found]))


def main() -> None:
    """Judge batches until there are no more. What is printed meanwhile goes to standard error."""
    import torch

    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            judge_batch(*map(Path, json.loads(line)))
            said = "done"
        except Exception as error:  # noqa: BLE001 - the boundary: the batch is not judged, the next one may be
            said = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        answers.write(said + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
