"""Where an operation comes from: the line of the model's code and the module path, from a traced node's record."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FRAME = re.compile(r'File "([^"]+)", line (\d+)')
MODEL_CODE = ("transformers", "sentence_transformers", "pipeline/execution")


def source_line(meta: dict[str, Any]) -> str:
    """The innermost line of the model's code as "file.py:line", of any code if none is the model's, "" if untraced."""
    frames = FRAME.findall(meta.get("stack_trace") or "")
    ours = [f for f in frames if any(part in f[0] for part in MODEL_CODE)]
    chosen = (ours or frames)[-1:]
    return f"{Path(chosen[0][0]).name}:{chosen[0][1]}" if chosen else ""


def module_path(prefix: str, meta: dict[str, Any]) -> str:
    """The module path below the model with layer numbers as `*`; `prefix` is the path of the traced block."""
    stack = list((meta.get("nn_module_stack") or {}).values())
    inner = stack[-1][0] if stack else ""
    inner = inner.removeprefix("L['self']").lstrip(".")
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", ".".join(p for p in (prefix, inner) if p))
