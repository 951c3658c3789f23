"""The script of a reproducer: torch and the device's package only, seeded data, exit status 1 where it fails."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agents.types import Failure, FailureKind
from pipeline.diagnosis.reproducer.data import SEED, call_text, helpers
from pipeline.diagnosis.wrong_values.programs import Program

LONGEST, WIDEST = 40, 120
"""Lines a script may have, and characters in a line of it."""
SILENT = frozenset({FailureKind.WRONG_VALUES, FailureKind.NON_FINITE})


@dataclass(frozen=True)
class Setting:
    """Where a failure was seen: the model, the device's profile, and the versions its script names."""

    model: str
    profile: str

    @property
    def versions(self) -> str:
        """torch's version and Python's."""
        import platform

        return f"torch {torch.__version__}, Python {platform.python_version()}"


def script_for(failure: Failure, program: Program, setting: Setting, *, limit: float = 0.0, eager: bool = False) -> str:
    """The text of the script. `limit` is the relative error that 16-bit rounding still explains.

    Operations stand one on a line, or several where the script would be too long.
    """
    texts = [call_text(i) for i in program.inputs]
    run = _run(program, eager)
    end = _border(failure, run, limit) if failure.op == "block" else _end(failure, run, limit)
    for body in (program.source().splitlines(), _tight(program.source().splitlines())):
        parts = [_head(failure, setting), *helpers(texts), _build(body), _data(program, texts), end]
        text = "\n".join(parts) + "\n"
        if len(text.splitlines()) < LONGEST:
            break
    return text


def _tight(source: Sequence[str]) -> list[str]:
    """The lines of a function with as many statements on each as it holds."""
    head, *body = source
    lines: list[str] = []
    for statement in (line.strip() for line in body):
        fits = bool(lines) and len(lines[-1]) + len(statement) + 6 <= WIDEST
        lines = [*lines[:-1], f"{lines[-1]}; {statement}"] if fits else [*lines, f"    {statement}"]
    return [head, *lines]


def _head(failure: Failure, setting: Setting) -> str:
    condition = f", condition {failure.scalars[0]!r}" if failure.kind in SILENT and failure.scalars else ""
    lines = [
        f'"""{failure.kind} in {failure.op}{condition}.',
        "",
        f"From {failure.source} ({failure.module}) of {setting.model}.",
        f"{setting.profile}, {setting.versions}; data from torch.manual_seed({SEED}) on the CPU. Status 1: it fails.",
        '"""',
        "import operator, os, sys, warnings",
        f'os.environ.setdefault("SPYRE_SIM_PROFILE", "{setting.profile}")',
        "import torch",
        "import sim_backend  # on a card: import torch_spyre",
    ]
    return "\n".join(lines)


def _build(source: Sequence[str]) -> str:
    body = textwrap.indent("\n".join(source), "    ")
    return f"def build(half, device):\n{body}\n    return run"


def _data(program: Program, texts: list[str]) -> str:
    dtypes = ", ".join(str(i.dtype) for i in program.inputs)
    lines = [f"torch.manual_seed({SEED})", "inputs = [", *packed(texts), "]"]
    lines.append(f"dtypes = [{dtypes}]")
    if any(i.value.storage_offset() for i in program.inputs):
        lines += [
            "whole = [torch.as_strided(x, (x.untyped_storage().nbytes() // x.itemsize,), (1,), 0) for x in inputs]",
            'moved = [torch.as_strided(w.to(t).to("spyre"), x.shape, x.stride(), x.storage_offset())',
            "         for w, x, t in zip(whole, inputs, dtypes)]",
        ]
    else:
        lines.append('moved = [x.to(t).to("spyre") for x, t in zip(inputs, dtypes)]')
    return "\n".join(lines)


def packed(texts: Sequence[str]) -> list[str]:
    """The texts as items of a list, as many on a line as it holds."""
    lines: list[str] = []
    for text in texts:
        fits = bool(lines) and len(lines[-1]) + len(text) + 2 <= WIDEST
        lines = [*lines[:-1], f"{lines[-1]} {text},"] if fits else [*lines, f"    {text},"]
    return lines


def _run(program: Program, eager: bool) -> str:
    built = f'build({program.run_dtype}, "spyre")'
    return built if eager else f"torch.compile({built}, fullgraph=True, dynamic=False)"


def _end(failure: Failure, run: str, limit: float) -> str:
    return _silent(failure, run, limit) if failure.kind in SILENT else _loud(failure, run)


def _border(failure: Failure, run: str, limit: float) -> str:
    return f'''first = {run}
second = torch.compile(lambda x: x + 1.0, fullgraph=True, dynamic=False)
handed = first(*moved)
got, wanted = (second(x).to("cpu", torch.float32) for x in (handed, handed.cpu().to("spyre")))
error = ((got - wanted).norm() / wanted.norm()).item()
if not error <= {limit:.3g}:
    sys.exit(f"{failure.kind} in {failure.op}: relative error {{error:.3g}}")'''


def _silent(failure: Failure, run: str, limit: float) -> str:
    return f'''wanted = build(torch.float32, "cpu")(*inputs)
got = {run}(*moved)
pairs = list(zip(*[x if isinstance(x, tuple) else (x,) for x in (wanted, got)]))
errors = [((g.to("cpu", torch.float32) - w.float()).norm() / w.float().norm()).item() for w, g in pairs]
error = max(errors, key=lambda e: e if e == e else float("inf"))
if not error <= {limit:.3g}:
    sys.exit(f"{failure.kind} in {failure.op}: relative error {{error:.3g}}")'''


def _loud(failure: Failure, run: str) -> str:
    if failure.kind is FailureKind.CPU_FALLBACK:
        return f'''with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    {run}(*moved)
if any(w.category.__name__ == "FallbackWarning" for w in caught):
    sys.exit("{failure.kind} in {failure.op}: " + str(caught[0].message))'''
    return f"""try:
    {run}(*moved)
except Exception as error:
    inner = getattr(error, "inner_exception", None) or error
    sys.exit(f"{{type(inner).__name__}} in {failure.op}: {{str(inner).splitlines()[0][:500]}}")"""
