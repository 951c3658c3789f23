"""What a diagnosis of wrong values costs in BERT-base: `python -m benchmarks.diagnosis_base [--json]`.

One device child (`pipeline.execution.diagnose_run`), as the stage starts it, on the default profile with two threads
and an empty compile cache; weights are synthetic and made before. Seconds count from the start of the interpreter to
the answer, imports included, scripts left out (the stage runs those beside each other afterwards). Memory is the
child's peak less that of a process with the same imports, over the fp32 weights. Run it alone: a busy machine measures
itself.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, main, median_figure

SAMPLES = 3
PROFILE = "profile-2026-08"
SECONDS, MEMORY = 60.0, 3.0
IDLE = """
import resource
import torch._inductor.compile_fx, transformers.models.bert.modeling_bert
import pipeline.execution.diagnose_run, sim_backend.capabilities, sim_backend.compiler.lowerings
import torch
torch.zeros(1).to("spyre")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def checkpoint(folder: Path) -> int:
    """A BERT-base of the default config with weights from a seed; bytes of its fp32 weights."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig())
    model.save_pretrained(folder)
    return 4 * sum(p.numel() for p in model.parameters())


def measured(folder: Path, weights: int, idle_kb: int, *, reproducers: bool) -> dict[str, float]:
    """One diagnosis in a process of its own: wall and CPU seconds, memory over the weights, causes found."""
    with tempfile.TemporaryDirectory(prefix="spyre-base-") as work:
        spec = {"model": "bert-base, synthetic weights", "checkpoint_dir": str(folder), "weights_dir": str(folder),
                "profile": PROFILE, "workdir": work, "reproducers": reproducers}  # fmt: skip
        asked, out = Path(work, "spec.json"), Path(work, "out.json")
        asked.write_text(json.dumps(spec))
        environment = {**os.environ, "OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1", "TORCHINDUCTOR_CACHE_DIR": work}
        argv = [sys.executable, "-m", "pipeline.execution.diagnose_run", str(asked), str(out)]
        started = time.monotonic()
        process = subprocess.Popen(argv, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"the diagnosis ended with {process.returncode}")
        kinds = [d["failure"]["kind"] for d in json.loads(out.read_text())["diagnoses"]]
        return {
            "seconds": time.monotonic() - started,
            "cpu": usage.ru_utime + usage.ru_stime,
            "memory": (usage.ru_maxrss - idle_kb) * 1024 / weights,
            "wrong_values": kinds.count("wrong_values"),
        }


def base() -> Iterator[Figure]:
    """The diagnosis by itself, and with the making of its scripts."""
    with tempfile.TemporaryDirectory(prefix="spyre-base-") as folder:
        weights = checkpoint(Path(folder))
        idle = int(subprocess.run([sys.executable, "-c", IDLE], check=True, capture_output=True, text=True).stdout)
        for name, scripts in (("", False), (", scripts made too", True)):
            runs = [measured(Path(folder), weights, idle, reproducers=scripts) for _ in range(SAMPLES)]
            cpu = _each(runs, "cpu")
            yield median_figure(f"wrong values in BERT-base{name}", _each(runs, "seconds"), "s", SECONDS, cpu)
            yield median_figure(f"memory over the fp32 weights{name}", _each(runs, "memory"), "x", MEMORY)
        yield Figure("causes of wrong values that are named", min(_each(runs, "wrong_values")), "", 3.0, at_least=True)


def _each(runs: list[dict[str, Any]], name: str) -> list[float]:
    return [run[name] for run in runs]


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main({"base": base}, __doc__))
