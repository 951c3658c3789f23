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


def test_the_image_is_made_by_the_scripts_that_ci_runs() -> None:
    image, ci, make = ((ROOT / name).read_text() for name in ("Dockerfile", ".ci/run", "Makefile"))
    assert "/tmp/system.sh run" in image
    assert "requirements/system.sh test" in ci
    assert "RUN requirements/setup.sh" in image
    assert "requirements/setup.sh" in make
    assert "pip install" not in image


def test_torch_comes_before_the_lock_that_leaves_it_out() -> None:
    text = (ROOT / "requirements" / "setup.sh").read_text()
    assert text.index('install "$TORCH"') < text.index("--require-hashes --no-deps -r requirements/lock.txt")
    assert not any(line.startswith("torch==") for line in (ROOT / "requirements" / "lock.txt").read_text().splitlines())


@pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
def test_a_container_cannot_write_its_root_and_keeps_no_needless_right(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


def test_there_is_no_default_password() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert text.count("${POSTGRES_PASSWORD") == text.count("${POSTGRES_PASSWORD:?") > 0
    assert "${POSTGRES_PASSWORD:-" not in text


def test_only_the_worker_may_make_user_namespaces() -> None:
    loose = [name for name, service in COMPOSE["services"].items() if "seccomp=unconfined" in service["security_opt"]]
    assert loose == ["worker"]
