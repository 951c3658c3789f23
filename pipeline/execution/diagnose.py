"""The diagnose stage: weights prepared here, causes found in a device child."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.diagnosis.reproducer.check import Checked, judged
from pipeline.diagnosis.reproducer.signature import Signature
from pipeline.diagnosis.unsearched import sentence
from pipeline.execution.children import call_device_child
from pipeline.execution.reproduce import kept_if_same
from pipeline.execution.scripts import ScriptRuns, code_file, said_file, task_of
from pipeline.execution.subject import Subject
from pipeline.execution.weights import prepare
from pipeline.work.forked import Standby


def diagnose(subject: Subject, *, reproducers: bool = False, budget_s: float | None = None) -> dict[str, Any]:
    """OUT of the stage: `diagnoses`, `predicted`, `fingerprint`, `curves` and `unsearched` (the run's evidence).

    With `reproducers`, each diagnosis's evidence holds a script that failed the same way in a fresh process, or why
    there is none; the scripts are `artefacts` too. This process must have one thread then: it forks.
    """
    standby = Standby(ScriptRuns(), SCRIPTS_MB) if reproducers else None
    try:
        return _diagnosed(subject, standby, budget_s)
    finally:
        if standby is not None:
            standby.dismiss()


def _diagnosed(subject: Subject, standby: Standby | None, budget_s: float | None) -> dict[str, Any]:
    """OUT of the stage; with a child that stands by for scripts, those that fail alike are kept."""
    prepared = prepare(subject)
    spec = {
        "model": subject.model,
        "checkpoint_dir": str(subject.folder),
        "weights_dir": str(prepared.folder),
        "profile": subject.profile,
        "device": subject.device,
        "workdir": str(subject.workdir),
        "reproducers": standby is not None,
        "reproducers_s": budget_s,
    }
    answer = call_device_child("pipeline.execution.diagnose_run", spec, subject.workdir)
    kept = [] if standby is None else keep_what_fails(answer["diagnoses"], subject.workdir, standby)
    return {
        "outcome": "passed",
        "reason": "; ".join(filter(None, (f"{len(answer['diagnoses'])} causes", sentence(answer["unsearched"])))),
        "diagnoses": answer["diagnoses"],
        "predicted": answer["predicted"],
        "fingerprint": answer["fingerprint"],
        "curves": answer["curves"],
        "unsearched": answer["unsearched"],
        "evidence": {name: answer[name] for name in ("curves", "unsearched")},
        "artefacts": kept,
        "weights": subject.weights_word,
        "depth": prepared.depth,
    }


SCRIPTS_S = 240.0
"""All scripts of one model together. What has not ended by then is not kept."""
SCRIPTS_MB = 8_192


def keep_what_fails(diagnoses: list[dict[str, Any]], folder: Path, standby: Standby) -> list[dict[str, str]]:
    """Run the reproducer of each diagnosis in a fresh process; its evidence keeps what failed in the same way.

    Returns the scripts that are kept, as artefacts of the stage.
    """
    entries = [d["evidence"]["reproducer"] for d in diagnoses]
    scripts = {n: folder / f"reproducer-{n}.py" for n, entry in enumerate(entries) if entry["script"] is not None}
    for number, script in scripts.items():
        script.write_text(entries[number]["script"])
    if scripts:
        standby.run(task_of(list(scripts.values())), SCRIPTS_S)
    artefacts = []
    for number, script in scripts.items():
        kept = kept_if_same(entries[number], ended(script, Signature(**entries[number]["signature"])))
        diagnoses[number]["evidence"]["reproducer"] = kept
        if kept["script"] is not None:
            artefacts.append({"path": script.name, "kind": "reproducer", "media_type": "text/x-python"})
    return artefacts


def ended(script: Path, expected: Signature) -> Checked:
    """How a script's process ended."""
    if not code_file(script).exists():
        return Checked(None, False, "it did not end in time", 0.0)
    return judged(int(code_file(script).read_text()), said_file(script).read_text(), expected)
