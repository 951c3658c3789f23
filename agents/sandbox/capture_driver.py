"""Runs inside the sandbox: imports the drafted code and captures it as an operator document. Not imported outside.

Reads `drafted.py` and `target.json` from the work folder, writes `answer.json`: {"document": ...} or {"refused": why}.
The drafted code runs in this very process and may write any answer it likes; that is why the answer is only data and
the trusted side validates it by itself.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENTRY_POINTS = ("patched", "forward")
"""Names under which drafted code may define its function, in order of preference."""

WORK = Path("/work")


def main() -> None:
    """Capture and answer. A refusal is an answer too."""
    target = json.loads((WORK / "target.json").read_text())
    (WORK / "answer.json").write_text(json.dumps(answer(target)))


def answer(target: dict[str, Any]) -> dict[str, Any]:
    """The document, or the reason why there is none, in words for whoever drafted the code."""
    try:
        function = drafted_function((WORK / "drafted.py").read_text())
        return {"document": capture(function, target)}
    except BaseException as error:  # noqa: BLE001 - drafted code may raise anything, SystemExit included
        return {"refused": explain(error)}


def drafted_function(code: str) -> Callable[..., Any]:
    """Execute the drafted file with torch in scope; the function it defines. Raises ValueError if it defines none."""
    import torch

    scope: dict[str, Any] = {"torch": torch, "__name__": "drafted"}
    exec(compile(code, "drafted.py", "exec"), scope)  # noqa: S102 - this is what the sandbox is for
    for name in ENTRY_POINTS:
        if callable(scope.get(name)):
            return scope[name]
    raise ValueError(f"the code defines no function `{ENTRY_POINTS[0]}(x)`")


def capture(function: Callable[..., Any], target: dict[str, Any]) -> dict[str, Any]:
    """Export the function on fake tensors of the target's shape and dtype."""
    import torch

    from adapters.document import capture_module

    class Drafted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    example = torch.empty(target["shape"], dtype=getattr(torch, target["dtype"]), device="meta")
    return capture_module(Drafted(), example)


def explain(error: BaseException) -> str:
    """Type and message, and the line of the drafted file that raised it."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "drafted.py"]
    place = f" (drafted.py, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {str(error)[:1500]}{place}"


if __name__ == "__main__":
    main()
    sys.stdout.flush()
