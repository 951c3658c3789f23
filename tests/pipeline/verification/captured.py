"""Documents captured by a script of the tests, in a child without the device, as the product captures them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

CHILD_S = 850
"""A child captures some twenty models: how long it may hang on a busy machine."""


def captured_by(script: ModuleType, out: Path, *more: str) -> dict[str, Any]:
    """What `python SCRIPT OUT.json MORE...` wrote to `out`."""
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    argv = [sys.executable, str(script.__file__), str(out), *more]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=CHILD_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(out.read_text()))
