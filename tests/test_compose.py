"""docker-compose.yml, the Dockerfile and `up` take their commands from one table."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pipeline.settings import Settings
from pipeline.work.commands import COMMANDS, shell_words

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
IN_CONTAINER = Settings(host="0.0.0.0", port=8000, workers=1)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_compose_service_runs_the_command_of_the_table(name: str) -> None:
    service = COMPOSE["services"][COMMANDS[name].service]
    assert service["command"] == shell_words(name, IN_CONTAINER)


def test_the_database_is_upgraded_before_anything_starts() -> None:
    for command in COMMANDS.values():
        assert "migrate" in COMPOSE["services"][command.service]["depends_on"]
    assert COMPOSE["services"]["migrate"]["command"] == ["spyre-factory", "db", "upgrade"]


def test_settings_in_the_compose_file_exist() -> None:
    known = {f"SPYRE_FACTORY_{name.upper()}" for name in Settings.model_fields}
    assert set(COMPOSE["services"]["api"]["environment"]) <= known


def test_the_image_installs_torch_before_the_lock() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert text.index("torch==2.13.0") < text.index("--require-hashes --no-deps -r requirements/lock.txt")
