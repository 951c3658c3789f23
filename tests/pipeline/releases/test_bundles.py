"""What an installation exports is signed, loads for who pinned its key, and stops loading once it is withdrawn."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from adapters import distrust_signer, load_bundle, load_withdrawals, trust_signer, trust_successor
from adapters.errors import AdapterWithdrawn, BundleTampered, SignerRefused, UnknownSigner
from adapters.releases import lookup
from adapters.releases.signed import HANDOVER
from adapters.releases.trust import Trust, fingerprint_of
from pipeline.cli import adapters as adapters_cli
from pipeline.cli import keys
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import BadInput, EnvironmentProblem
from pipeline.releases.bundles import bundle_of, withdrawal_list
from pipeline.releases.errors import AlreadyWithdrawn
from pipeline.releases.service import bundled_manifests, sync_bundled, withdraw
from pipeline.releases.signing import former_key, handover, key_path, public_pem, rotate_key, signing_key
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


def test_a_new_key_is_taken_by_the_word_of_the_former_one(run: Callable[..., str], tmp_path: Path) -> None:
    public, word, bundle, listed = (tmp_path / name for name in ("public", "word", "a.bundle", "withdrawn"))
    former = json.loads(run("keys", "show", "--file", str(public), "--json"))["fingerprint"]
    trust_signer(public, former)
    new = json.loads(run("keys", "rotate", "--handover", str(word), "--json"))
    assert (new["former"], new["fingerprint"] != former) == (former, True)
    run("adapters", "export", "1", str(bundle))
    with pytest.raises(UnknownSigner):
        load_bundle(bundle)
    assert trust_successor(word) == new["fingerprint"]
    digest = load_bundle(bundle).digest
    with unit_of_work() as session:
        withdraw(session, 1, "wrong")
    run("adapters", "withdrawals", str(listed), "--signer", former)
    assert load_withdrawals(listed) == {digest: "wrong"}
    distrust_signer(former)
    with pytest.raises(UnknownSigner):
        trust_successor(word)
    with pytest.raises(SignerRefused, match="not pinned"):
        distrust_signer(former)


def test_a_handover_that_a_stranger_signed_pins_nothing(run: Callable[..., str], tmp_path: Path) -> None:
    public, word = tmp_path / "public", tmp_path / "word"
    trust_signer(public, run("keys", "show", "--file", str(public)).strip())
    strangers = [Ed25519PrivateKey.generate() for _ in range(2)]
    word.write_bytes(handover(*strangers))
    with pytest.raises(UnknownSigner):
        trust_successor(word)
    word.write_bytes(withdrawal_list_as_handover())
    with pytest.raises(BundleTampered):
        trust_successor(word)


def withdrawal_list_as_handover() -> bytes:
    """What the pinned key signed for another purpose, under the name of a handover."""
    with unit_of_work() as session:
        return withdrawal_list(session, signing_key(get_settings())).replace(b"spyre-withdrawals-1", HANDOVER.encode())


def test_a_key_that_may_be_known_to_others_names_no_successor(run: Callable[..., str], tmp_path: Path) -> None:
    assert "--compromised" in run("keys", "rotate", status=1)
    before = json.loads(run("keys", "show", "--json"))["fingerprint"]
    assert "Cannot write" in run("keys", "rotate", "--handover", str(tmp_path / "no" / "file"), status=1)
    assert json.loads(run("keys", "show", "--json"))["fingerprint"] == before
    assert "unpin the former" in run("keys", "rotate", "--compromised")
    with pytest.raises(EnvironmentProblem, match="set from outside"):
        rotate_key(Settings(data_dir=tmp_path, signing_key=tmp_path / "key"))
    with pytest.raises(BadInput, match="no fingerprint"):
        former_key(Settings(data_dir=tmp_path), "../key")


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
