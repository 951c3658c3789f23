"""How a worker starts a stage's child: forked from a prepared process of its slot, or as a command.

Forked are the stages that hold no secret of the service: a prepared process could show one stage what another was
given. There are two such processes per slot: whether the Hub may be asked is read when its client is imported.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pipeline.settings import Settings
from pipeline.work.prepared import ForkServer
from pipeline.work.process import ChildResult, run_child
from pipeline.work.stages import Stage, prepared_env, stage_argv, stage_env

_servers: dict[tuple[int, str, str], ForkServer] = {}
"""By process, child module and what they are for. They end with the process that started them, however it ends."""


def run_stage_child(
    settings: Settings,
    stage: Stage,
    files: tuple[Path, Path],
    environment: str,
    tick: Callable[[], None],
    tick_s: float,
) -> ChildResult:
    """Runs a stage for the SPEC and OUT of `files` to its end, in the SPEC's folder, within the stage's limits."""
    spec, out = files
    workdir = spec.parent
    env = stage_env(settings, stage, workdir, environment)
    run: Callable[..., ChildResult] = run_child
    argv = stage_argv(settings, stage.name, spec, out)
    if not (stage.service_settings or settings.child_module.endswith(".py")):
        what = stage.name if stage.trusted else ""
        run, argv = prepared_server(settings.child_module, what, prepared_env(settings, stage)).run, argv[-3:]
    return run(
        argv,
        timeout_s=stage.timeout_s,
        memory_mb=stage.memory_mb,
        env=env,
        cwd=workdir,
        network=stage.trusted,
        tick=tick,
        tick_s=tick_s,
    )


def prepared_server(module: str, what: str, env: Mapping[str, str]) -> ForkServer:
    """The server of this process for `module`, one for each `what`; made with `env` when it is first asked for."""
    key = (os.getpid(), module, what)
    if key not in _servers:
        _servers[key] = ForkServer(module, env)
        atexit.register(_servers[key].close)
    return _servers[key]
