"""Speed and size of the simulator: `python -m benchmarks.simulator [--json] [--only PATTERN]`.

Every sample is taken in a fresh process (`benchmarks.simulator_child`), imports excluded. Ratios are of two times of
the same process, taken by turns, so that a noisy machine hits both. Weights are random: only times count here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, main, median_figure

SAMPLES = 5
# (name in the child's table of models, target of the forward ratio, target of the first compile in seconds)
BLOCK_FORM = (("bert-base", 1.3, 3.0), ("minilm-l6", 1.6, 2.0))
LARGER = BLOCK_FORM[0][0]
CAPABILITY = (("bert-base", 1.0), ("qwen3-8b", 1.5), ("gemma3", 4.0))


def child(task: str, *arguments: str, cache: Path | None = None, environment: dict[str, str] | None = None) -> Any:
    """The JSON that the measurement `task` prints, run in a fresh process with Inductor's cache in `cache`.

    Raises subprocess.CalledProcessError if it fails.
    """
    with tempfile.TemporaryDirectory() as fresh:
        folder = str(cache or fresh)
        full = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "HF_HUB_OFFLINE": "1", **(environment or {})}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.simulator_child", task, *arguments],
            env=full, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return json.loads(done.stdout.splitlines()[-1])


def forward() -> list[Figure]:
    """Forward in block form on the device against the eager fp32 forward of the same adapted module on the CPU."""
    return [
        median_figure(f"forward {model}, 2 x 64", child("forward", model)["ratios"], "x", target)
        for model, target, _ in BLOCK_FORM
    ]


def compile_block_form() -> list[Figure]:
    """The first forward in block form: with an empty cache, then with what it left on disk; and its memory."""
    figures, memory = [], []
    for model, _, target in BLOCK_FORM:
        cold, warm = _cold_and_warm("first", model)
        figures.append(median_figure(f"first compile {model}, block form, cold", _each(cold, "seconds"), "s", target))
        figures.append(median_figure(f"first compile {model}, warm from disk", _each(warm, "seconds"), "s", 1.0))
        if model == LARGER:
            memory = _each(cold, "memory")
    return [*figures, median_figure(f"peak memory of the device child over fp32 weights, {LARGER}", memory, "x", 2.0)]


def compile_graph_form() -> list[Figure]:
    """The whole of BERT-base as one graph, and what each further identical layer costs."""
    cold, warm = (_each(samples, "seconds") for samples in _cold_and_warm("graph", "bert-base"))
    half = [child("graph", "bert-base-6")["seconds"] for _ in range(SAMPLES)]
    layer = [(whole - part) / 6 for whole, part in zip(cold, half, strict=True)]
    return [
        median_figure("first compile bert-base, graph form, cold", cold, "s", 5.0),
        median_figure("first compile bert-base, graph form, warm from disk", warm, "s", 2.5),
        median_figure("each further identical layer, graph form", layer, "s", 0.1),
    ]


def _cold_and_warm(task: str, model: str) -> tuple[list[Any], list[Any]]:
    cold, warm = [], []
    for _ in range(SAMPLES):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(child(task, model, cache=Path(folder)))
            warm.append(child(task, model, cache=Path(folder)))
    return cold, warm


def _each(samples: list[Any], key: str) -> list[float]:
    return [sample[key] for sample in samples]


def capability() -> list[Figure]:
    """The capability report at full size in a process that has made one of another model."""
    return [
        median_figure(f"capability {model}", child("capability", model)["seconds"], "s", target)
        for model, target in CAPABILITY
    ]


def import_time() -> list[Figure]:
    """What the package adds to `import torch`: torch's step over installed backends, without it an empty one."""
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    samples = [child("import", environment=off)["milliseconds"] for _ in range(SAMPLES)]
    return [median_figure("import torch, with the package more than without", samples, "ms", 20.0)]


FIGURES: dict[str, Callable[[], list[Figure]]] = {
    "forward": forward,
    "block": compile_block_form,
    "graph": compile_graph_form,
    "capability": capability,
    "import": import_time,
}


if __name__ == "__main__":
    sys.exit(main(FIGURES, __doc__))
