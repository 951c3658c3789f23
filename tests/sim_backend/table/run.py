"""Runs every call of cells.yaml on the device in this process, eager and compiled, and prints one JSON line per cell.

    python run.py profile-2026-08 [substring of row]

It knows what each letter of facts 3.2 looks like from outside and never asks the profile. Used by test_table.py, in a
process per profile, because the eager path takes its profile when the device starts.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import yaml

CELLS = Path(__file__).with_name("cells.yaml")
FORMS = ("eager", "compiled")
CELL = re.compile(r"(?P<letter>[A-Z?-])(?P<unknown>\??)(?: \((?P<erratum>E-\d+) (?P<effect>wrong|raises)\))?")
# How a letter looks from outside.
OUTCOMES = {**dict.fromkeys("NDKVSH", "works"), "F": "falls back", "X": "raises", "U": "raises at call"}
# The documented refusals of facts 3.7 that are plain RuntimeErrors.
REFUSALS = re.compile(
    r"Spyre backend does not support|Error: In-device copy not implemented|Unsupported data format types"
    r"|Unsupported tensor rank|TOOO: implement SDSC generation for constants|matmul: unsupported input"
)


@dataclass(frozen=True)
class Cell:
    """What one call is to do in one form. `source` is Python over the names of `inputs`."""

    row: str
    call: str
    form: str
    source: str
    letter: str
    unknown: bool
    erratum: str
    effect: str
    check: str
    data_dependent: bool
    breaks: bool
    owed: str

    @property
    def expected(self) -> str:
        """works, falls back, raises, raises at call; or what the erratum makes of it."""
        return self.effect or OUTCOMES.get(self.letter, "?")


@cache
def _drawn() -> dict[str, torch.Tensor]:
    """Host tensors by name, never written. Values are multiples of 1/32 below 4 in size, which DL16 holds exactly."""
    generator = torch.Generator().manual_seed(5)

    def grid(*shape: int) -> torch.Tensor:
        return (torch.randint(-60, 61, shape, generator=generator) / 32).half()

    x, y = grid(6, 128), grid(6, 128)
    index = torch.tensor([0, 2, 5, 1])
    fp8 = [grid(64, 128).to(torch.float8_e4m3fn) for _ in range(2)]
    return {
        "x": x, "y": y, "y3": grid(3, 128), "y4": grid(4, 128), "p": grid(6, 128).abs() + 0.5, "v": grid(128),
        "four": grid(4), "positive": grid(128).abs() + 0.5, "half": torch.full((6, 128), 0.5).half(),
        "w": grid(128, 128), "b": grid(3, 2, 128), "c": grid(3, 128, 64), "q": grid(1, 2, 64, 64),
        "image": grid(1, 2, 8, 8), "kernel": grid(2, 2, 3, 3), "signal": grid(1, 2, 8), "taps": grid(2, 2, 3),
        "m": x > 0, "n": y > 0, "rows": (torch.arange(6) % 2 == 0)[:, None],
        "i": index, "i32": index.int(), "i2": torch.arange(6 * 128).reshape(6, 128) % 6, "two": torch.tensor([2, 3]),
        "a8": fp8[0], "b8": fp8[1], "one": torch.tensor(1.0), "host": grid(6, 128),
        "z": grid(6, 64), "z4": grid(4, 64),
        "distinct": (torch.randperm(6 * 64, generator=generator).reshape(6, 64) / 64).half(),
        "long_row": torch.arange(192).reshape(1, 192).half(),
    }  # fmt: skip


def inputs(names: Iterable[str]) -> list[torch.Tensor]:
    """Fresh host tensors of these names."""
    return [_drawn()[n].clone() for n in names]


def cells(profile: str) -> Iterator[Cell]:
    """The cells of one column of the table."""
    table = yaml.safe_load(CELLS.read_text(encoding="utf-8"))
    column = table["columns"].index(profile)
    for row in table["rows"]:
        for name, call in row["calls"].items():
            entry = {"both": call} if isinstance(call, str) else call
            letters = _resolved(entry.get("cells", row["cells"]))[column].split("/")
            for form, text in zip(FORMS, letters if len(letters) == 2 else letters * 2, strict=True):
                source = entry.get(form) or entry.get("both")
                found = CELL.fullmatch(text.strip())
                if found is None:
                    raise ValueError(f"{CELLS.name}: {row['row']}: {text!r} is no cell")
                if source and found["letter"] != "-":
                    yield _cell(row["row"], name, form, source, found, entry, profile)


def _cell(
    row: str, call: str, form: str, source: str, found: re.Match[str], entry: dict[str, Any], profile: str
) -> Cell:
    return Cell(
        row, call, form, source, found["letter"], bool(found["unknown"]) or found["letter"] == "?",
        found["erratum"] or "", found["effect"] or "", entry.get("check", "values"),
        bool(entry.get("shape_of_values")), bool(entry.get("breaks")), entry.get("owed", {}).get(profile, ""),
    )  # fmt: skip


def _resolved(columns: list[str]) -> list[str]:
    resolved: list[str] = []
    for text in columns:
        resolved.append(resolved[-1] if text == "same" else text)
    return resolved


def run(cell: Cell) -> dict[str, Any]:
    """The record of one cell: expected and found outcome, whether it holds, and the error's or deviation's text."""
    from sim_backend.errors import FallbackWarning

    function, names = _function(cell.source)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.spyre.reset_fallback_counts()
        try:
            device = [t if n == "host" else t.to("spyre") for n, t in zip(names, inputs(names), strict=True)]
            result = _to_host(_form(cell, function)(*device))
        except Exception as error:  # noqa: BLE001 every error there is is judged
            result = error
    said = [str(w.message) for w in caught]
    fell_back = any(issubclass(w.category, FallbackWarning) for w in caught)
    if isinstance(result, Exception):
        got, detail = _refusal(result, said, cell), f"{type(result).__name__}: {result}".split("\n\n")[0][:300]
    else:
        detail = _deviation(cell, function, inputs(names), result)
        got = "wrong" if detail else "falls back" if fell_back else "works"
        if fell_back != bool(sum(torch.spyre.fallback_counts().values())):
            got, detail = "uncounted fallback", str(torch.spyre.fallback_counts())
    return {
        "row": cell.row, "call": cell.call, "form": cell.form, "letter": cell.letter, "unknown": cell.unknown,
        "erratum": cell.erratum, "expected": cell.expected, "got": got, "ok": got == cell.expected, "owed": cell.owed,
        "detail": detail,
    }  # fmt: skip


def _function(source: str) -> tuple[Callable[..., Any], list[str]]:
    known = _drawn()
    names = {n.id for n in ast.walk(ast.parse(source, mode="eval")) if isinstance(n, ast.Name)} & known.keys()
    ordered = sorted(names, key=lambda n: (n == "host", list(known).index(n)))
    text = f"lambda {', '.join(ordered) or '*_'}: {source}"
    return eval(text, {"torch": torch, "F": F}), ordered


def _form(cell: Cell, function: Callable[..., Any]) -> Callable[..., Any]:
    if cell.form == "eager":
        return function
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=not cell.breaks, dynamic=False)


def _to_host(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.cpu()
    return [_to_host(r) for r in result] if isinstance(result, tuple | list) else result


def _refusal(error: Exception, said: list[str], cell: Cell) -> str:
    """raises or raises at call, if the error is one of facts 3.7; else its class."""
    from torch._inductor.exc import InductorError

    from sim_backend.errors import Unsupported

    cause = getattr(error, "inner_exception", error) if isinstance(error, InductorError) else error
    text = str(cause)
    if re.search(r"Invoked sdsc_fused_\w+ which contains unimplemented operation \w+", text):
        warned = any(re.fullmatch(r"Compiling unimplemented \w+ to runtime exception", s) for s in said)
        return "raises at call" if warned or cell.form == "eager" else "raises at call without its warning"
    if cell.form == "compiled" and cell.data_dependent and type(cause).__module__.startswith("torch._dynamo"):
        return "raises"
    in_graph = cell.form == "eager" or isinstance(error, InductorError) or text == "Unsupported data format types"
    no_kernel = isinstance(cause, NotImplementedError) and re.search(r"Could not run 'aten::|scan", text)
    refused = isinstance(cause, Unsupported) or no_kernel or (type(cause) is RuntimeError and REFUSALS.search(text))
    return "raises" if refused and in_graph else type(cause).__name__


def _deviation(cell: Cell, function: Callable[..., Any], host: list[torch.Tensor], result: Any) -> str:
    """ "" if `result` is what the CPU gives in fp32, within DL16's rounding; else where it is not."""
    wide = {torch.float16: torch.float32, torch.float8_e4m3fn: torch.float32, torch.int32: torch.int64}
    exact = [t.to(wide.get(t.dtype, t.dtype)) for t in host]
    if cell.call == "scaled_mm":
        expected: Any = exact[0] @ exact[1].t()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = function(*exact)
    check = {"values": _values, "shape": _shapes, "dropout": _dropped}[cell.check]
    pairs = zip(_leaves(result), _leaves(expected), strict=True)
    return next((problem for got, want in pairs if (problem := check(got, want))), "")


def _leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, tuple | list):
        return [leaf for v in value for leaf in _leaves(v)]
    return [torch.as_tensor(value)]


def _values(got: torch.Tensor, want: torch.Tensor) -> str:
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)} instead of {tuple(want.shape)}"
    got, want = got.double(), want.double()
    if torch.allclose(got, want, rtol=0.02, atol=0.03):
        return ""
    return f"off by {(got - want).abs().max():.3g}"


def _shapes(got: torch.Tensor, want: torch.Tensor) -> str:
    return "" if got.shape == want.shape else f"shape {tuple(got.shape)} instead of {tuple(want.shape)}"


def _dropped(got: torch.Tensor, want: torch.Tensor) -> str:
    """Every element is 0 or twice the input, and both occur. `want` is the CPU's draw from the same input."""
    x = _drawn()["x"].float()
    kept = got.float() != 0
    right = torch.equal(got.float()[kept], 2 * x[kept]) and 0.3 < kept.float().mean() < 0.7
    return "" if right and got.shape == want.shape else "not a mask times two"


def main(profile: str, part: str = "") -> None:
    """Print the records of `profile`."""
    import sim_backend

    # What ends the process is a refusal like others here: one process takes all cells.
    sim_backend.use_profile(profile, {"copies.refusal": "raise"})
    torch.spyre.set_downcast_warning(False)
    importlib.import_module("torch._inductor.compile_fx")  # its import warns once
    for cell in cells(profile):
        if part in cell.row:
            sys.stdout.write(json.dumps(run(cell)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
