"""The stages as data: what runs, how long, with how much memory, and what of the environment it may see.

Every stage body is `python -m <child module> STAGE SPEC.json OUT.json` in a child process; what follows a stage is
decided in `pipeline.work.flow`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.settings import Settings
from pipeline.weights.children_env import children_env
from pipeline.work.models import StageName

HUB_VARIABLES = ("HF_ENDPOINT", "HF_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")
HUB_AT_IMPORT = ("HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""What the Hub's client reads once, when it is imported; the rest it reads when it is used."""
MODEL_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_KEY")
SETTINGS_PREFIX = "SPYRE_FACTORY_"
LLM_SETTINGS = tuple(name for name in Settings.model_fields if name.startswith("llm_"))
DRAFTING_SETTINGS = ("database_url", "drafters", "fault", "test_mode", *LLM_SETTINGS)
"""What drafting reads of the service's settings: no token, no secret of log-ins, webhooks or signatures, no broker."""


@dataclass(frozen=True)
class Stage:
    """How one stage is run. `trusted` stages run no model code and may use the network and the variables named."""

    name: StageName
    timeout_s: float
    memory_mb: int
    base_mb: int = 1_500
    bytes_per_parameter: int = 0
    """With `base_mb`, what a run of the stage is expected to need before one has been measured."""
    trusted: bool = False
    variables: tuple[str, ...] = ()
    service_settings: tuple[str, ...] = ()
    """The service's own settings that are handed on to a stage that writes to the database itself."""


STAGES: dict[StageName, Stage] = {
    stage.name: stage
    for stage in (
        Stage(StageName.INSPECT, 900, 4_096, base_mb=500, trusted=True, variables=HUB_VARIABLES),
        Stage(StageName.CAPTURE, 300, 8_192),
        Stage(StageName.EXECUTE, 900, 12_288, bytes_per_parameter=16),
        Stage(StageName.DIAGNOSE, 600, 12_288, bytes_per_parameter=16),
        Stage(StageName.DRAFT, 900, 8_192, trusted=True, variables=MODEL_VARIABLES, service_settings=DRAFTING_SETTINGS),
        Stage(StageName.VERIFY, 1_500, 12_288, bytes_per_parameter=24),
        Stage(StageName.REPLAY, 2_700, 20_480, base_mb=3_000, bytes_per_parameter=24),
    )
}


def stage_argv(settings: Settings, stage: StageName, spec: Path, out: Path) -> list[str]:
    """The command of a stage's child. A child module that ends in `.py` is run as a file."""
    module = settings.child_module
    how = [module] if module.endswith(".py") else ["-m", module]
    return [sys.executable, *how, stage.value, str(spec), str(out)]


def stage_env(settings: Settings, stage: Stage, workdir: Path, environment: str) -> dict[str, str]:
    """All a stage's child sees of the environment. Model stages see no token, no proxy and no setting of ours."""
    cache = settings.data_dir / "cache" / "inductor" / environment[:16]
    env = children_env(workdir, threads=_threads(settings), extra={"TORCHINDUCTOR_CACHE_DIR": str(cache)})
    ours = {f"{SETTINGS_PREFIX}DATA_DIR": str(settings.data_dir)} if stage.service_settings else {}
    return env | _let_through(stage, os.environ) | ours


def prepared_env(settings: Settings, stage: Stage) -> dict[str, str]:
    """What a process is started with that forks children of this stage: no secret, and what is read at import."""
    seen = _let_through(stage, os.environ)
    at_import = {name: seen[name] for name in HUB_AT_IMPORT if name in seen}
    return children_env(settings.data_dir / "work", threads=_threads(settings)) | at_import


def _threads(settings: Settings) -> int:
    return max(1, (os.cpu_count() or 1) // settings.workers)


def _let_through(stage: Stage, outside: Mapping[str, str]) -> dict[str, str]:
    if not stage.trusted:
        return {}
    named = {name: outside[name] for name in stage.variables if name in outside}
    if "HF_TOKEN" in stage.variables or "HF_ENDPOINT" in stage.variables:
        named |= {"HF_HUB_OFFLINE": outside.get("HF_HUB_OFFLINE", "0"), "TRANSFORMERS_OFFLINE": "1"}
    ours = [f"{SETTINGS_PREFIX}{name.upper()}" for name in stage.service_settings]
    return named | {name: outside[name] for name in ours if name in outside}
