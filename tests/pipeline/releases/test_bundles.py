"""What an installation exports is signed, loads for who pinned its key, and stops loading once it is withdrawn."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from adapters import load_bundle, load_withdrawals
from adapters.errors import AdapterWithdrawn, UnknownSigner
from adapters.releases import lookup
from adapters.releases.trust import Trust, fingerprint_of
from pipeline.cli import adapters as adapters_cli
from pipeline.cli import keys
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import BadInput, EnvironmentProblem
from pipeline.releases.bundles import bundle_of
from pipeline.releases.errors import AlreadyWithdrawn
from pipeline.releases.service import bundled_manifests, sync_bundled, withdraw
from pipeline.releases.signing import key_path, public_pem, signing_key
from pipeline.settings import Settings, get_settings


@pytest.fixture
def run(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    monkeypatch.setattr(lookup, "_loaded", [])
    monkeypatch.setattr(lookup, "_withdrawn", {})
    monkeypatch.setenv("SPYRE_ADAPTERS_TRUST", str(tmp_path / "trust"))
    with unit_of_work() as session:
        sync_bundled(session, bundled_manifests())
    app = typer.Typer()
    adapters_cli.register(app)
    keys.register(app)

    def invoke(*arguments: str, status: int = 0) -> str:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == status, result.output
        return result.stdout if status == 0 else result.stderr

    return invoke


def test_export_verify_load_withdraw(run: Callable[..., str], tmp_path: Path) -> None:
    bundle, listed = tmp_path / "a.bundle", tmp_path / "withdrawn"
    run("adapters", "export", "1", str(bundle))
    digest = json.loads(run("adapters", "verify", str(bundle), "--json"))["digest"]
    shown = json.loads(run("keys", "show", "--json"))
    trust = Trust()
    with pytest.raises(UnknownSigner):
        load_bundle(bundle, trust=trust)
    trust.pin(shown["public_key"].encode(), shown["fingerprint"])
    assert load_bundle(bundle, trust=trust).digest == digest
    with unit_of_work() as session:
        withdraw(session, 1, "wrong at length 65")
        with pytest.raises(AlreadyWithdrawn, match="not exported"):
            bundle_of(session, 1, signing_key(get_settings()))
    run("adapters", "withdrawals", str(listed))
    assert load_withdrawals(listed, trust=trust) == {digest: "wrong at length 65"}
    with pytest.raises(AdapterWithdrawn):
        load_bundle(bundle, trust=trust)


def test_a_tampered_or_missing_file_is_one_sentence(run: Callable[..., str], tmp_path: Path) -> None:
    bundle = tmp_path / "a.bundle"
    run("adapters", "export", "1", str(bundle))
    bundle.write_bytes(bundle.read_bytes().replace(b'"payload": "e', b'"payload": "f'))
    assert "bundle_tampered" in run("adapters", "verify", str(bundle), status=1)
    assert "Cannot read" in run("adapters", "verify", str(tmp_path / "none"), status=1)
    assert "Cannot write" in run("keys", "show", "--file", str(tmp_path / "no" / "key"), status=1)


def test_a_demonstration_is_never_signed(run: Callable[..., str]) -> None:
    from pipeline.releases.repository import get_adapter

    with unit_of_work() as session:
        get_adapter(session, 1).scripted = True
        with pytest.raises(BadInput, match="demonstration"):
            bundle_of(session, 1, signing_key(get_settings()))


def test_the_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    first = signing_key(settings)
    assert stat.S_IMODE(key_path(settings).stat().st_mode) == 0o600
    assert public_pem(signing_key(settings)) == public_pem(first)
    assert fingerprint_of(first.public_key()).startswith("sha256:")
    assert [p.name for p in key_path(settings).parent.iterdir()] == ["signing-key.pem"]


def test_a_key_that_others_may_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    signing_key(settings)
    key_path(settings).chmod(0o640)
    with pytest.raises(EnvironmentProblem, match="chmod 600"):
        signing_key(settings)
    key_path(settings).write_text("nothing")
    key_path(settings).chmod(0o600)
    with pytest.raises(EnvironmentProblem, match="PEM"):
        signing_key(settings)
    with pytest.raises(EnvironmentProblem, match="cannot be read"):
        signing_key(Settings(data_dir=tmp_path, signing_key=tmp_path / "none"))
