"""What a stage's child sees of the environment: nothing of ours but what its stage is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.settings import Settings
from pipeline.work.models import StageName
from pipeline.work.stages import SETTINGS_PREFIX, STAGES, prepared_env, stage_env

CANARY = "canary"
HUB = {"HF_ENDPOINT", "HF_TOKEN", "HTTPS_PROXY"}
ENDPOINT = {"OPENAI_BASE_URL", "OPENAI_API_KEY"}
DRAFTING = {f"{SETTINGS_PREFIX}{name}" for name in ("DATABASE_URL", "DRAFTERS", "FAULT", "TEST_MODE")}
LLM = {f"{SETTINGS_PREFIX}{name.upper()}" for name in Settings.model_fields if name.startswith("llm_")}
SEEN: dict[str, set[str]] = {StageName.INSPECT: HUB, StageName.DRAFT: ENDPOINT | DRAFTING | LLM}
"""By stage what reaches its child; of every other stage nothing does."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An environment in which every variable that somebody may set is a canary."""
    given = Settings(data_dir=tmp_path)
    ours = {f"{SETTINGS_PREFIX}{name.upper()}" for name in Settings.model_fields}
    for name in {*HUB, *ENDPOINT, *ours, "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"}:
        monkeypatch.setenv(name, CANARY)
    return given


@pytest.mark.parametrize("name", list(STAGES))
def test_a_child_sees_what_its_stage_is_for_and_no_more(name: StageName, settings: Settings, tmp_path: Path) -> None:
    env = stage_env(settings, STAGES[name], tmp_path, "e" * 64)
    assert {key for key, value in env.items() if CANARY in value} == SEEN.get(name, set())


@pytest.mark.parametrize("name", list(STAGES))
def test_a_process_that_children_are_forked_from_holds_no_secret(name: StageName, settings: Settings) -> None:
    env = prepared_env(settings, STAGES[name])
    assert {key for key, value in env.items() if CANARY in value} <= {"HF_ENDPOINT"}


@pytest.mark.parametrize("secret", ["TOKEN", "BROKER_URL", "OIDC_CLIENT_SECRET", "WEBHOOK_KEY", "SIGNING_KEY"])
def test_drafting_holds_no_secret_of_the_service(secret: str, settings: Settings, tmp_path: Path) -> None:
    assert f"{SETTINGS_PREFIX}{secret}" not in stage_env(settings, STAGES[StageName.DRAFT], tmp_path, "e" * 64)
