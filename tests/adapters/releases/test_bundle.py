"""Bundles are accepted from pinned signers only, whole and unchanged; withdrawal lists are honoured."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from torch import nn

from adapters import adapt, find, load_bundle, load_withdrawals, trust_signer
from adapters.errors import (
    AdapterWithdrawn,
    BundleError,
    BundleTampered,
    ManifestRefused,
    SignerRefused,
    UnknownSigner,
    VersionsDiffer,
)
from adapters.releases import lookup
from adapters.releases.bundle import installed_versions, locked_digests
from adapters.releases.manifest import Manifest, record_digests
from adapters.releases.signed import BUNDLE, WITHDRAWALS, seal
from adapters.releases.trust import Trust, fingerprint_of, stored_trust

CPU: dict[str, Any] = {"device": "cpu", "compile": False, "dtype": "float32"}


class Factory:
    """A signer as the factory is one: seals bundles and withdrawal lists with its key."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.pem = self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.fingerprint = fingerprint_of(self.key.public_key())

    def seal(self, kind: str, payload: dict[str, Any]) -> bytes:
        return seal(kind, payload, self.key, self.fingerprint)

    def withdrawals(self, serial: int = 1, **reasons: str) -> bytes:
        return self.seal(
            WITHDRAWALS, {"serial": serial, "withdrawn": [{"digest": k, "reason": v} for k, v in reasons.items()]}
        )

    def bundle(self, manifest: Manifest, /, **changes: Any) -> bytes:
        lock = {"digests": locked_digests(manifest), "versions": installed_versions()}
        parts = {"manifest": manifest.to_dict(), "lock": lock, "withdrawals": self.withdrawals().decode()}
        return self.seal(BUNDLE, {**parts, **changes})


@pytest.fixture
def factory() -> Factory:
    return Factory()


@pytest.fixture
def trust(factory: Factory, tmp_path: Path) -> Trust:
    (tmp_path / "key.pem").write_bytes(factory.pem)
    trust_signer(tmp_path / "key.pem", factory.fingerprint, folder=tmp_path / "trust")
    return stored_trust(tmp_path / "trust")


@pytest.fixture
def manifest(make_model: Callable[[str], nn.Module]) -> Manifest:
    patches = [{"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}, "drafter": "rules"}]
    recorded = tuple(record_digests(make_model("bert"), patches))
    predicate = {"block": "transformers.models.bert.modeling_bert.BertLayer", "head_dim": 32}
    return Manifest("tiny", "1", "tiny", "profile-2026-08", predicate, recorded, origin="service", evidence=("e" * 64,))


@pytest.fixture(autouse=True)
def _clean_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_loaded", [])
    monkeypatch.setattr(lookup, "_withdrawn", {})


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_loaded_bundle_is_found_before_the_bundled_adapters(
    factory: Factory, trust: Trust, manifest: Manifest, make_model: Callable[[str], nn.Module], tmp_path: Path
) -> None:
    model = make_model("bert")
    assert find(model) != manifest
    loaded = load_bundle(write(tmp_path / "b", factory.bundle(manifest)), trust=trust)
    assert loaded == manifest == find(model)
    with adapt(model, **CPU) as handle:
        assert handle.report()["adapter"]["origin"] == "service"
        assert "e" * 12 in str(handle.report())


def test_the_users_own_trust_is_the_default(
    factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_ADAPTERS_TRUST", str(tmp_path / "trust"))
    path = write(tmp_path / "b", factory.bundle(manifest))
    assert load_bundle(path) == manifest
    monkeypatch.delenv("SPYRE_ADAPTERS_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "empty"))
    with pytest.raises(UnknownSigner):
        load_bundle(path)


def test_an_unknown_signer_is_refused_and_nothing_is_offered(trust: Trust, manifest: Manifest, tmp_path: Path) -> None:
    path = write(tmp_path / "b", Factory().bundle(manifest))
    with pytest.raises(UnknownSigner, match=r"not pinned here.*trust_signer"):
        load_bundle(path, trust=trust)
    assert lookup.loaded_manifests() == []


def envelope(document: bytes, **changes: Any) -> bytes:
    return json.dumps({**json.loads(document), **changes}).encode()


def flipped(document: bytes, part: str) -> bytes:
    content = bytearray(base64.b64decode(json.loads(document)[part]))
    content[len(content) // 2] ^= 1
    return envelope(document, **{part: base64.b64encode(content).decode()})


TAMPERINGS: dict[str, Callable[[bytes, Factory], bytes]] = {
    "a byte of the payload": lambda d, f: flipped(d, "payload"),
    "a byte of the signature": lambda d, f: flipped(d, "signature"),
    "another format": lambda d, f: envelope(d, format=WITHDRAWALS),
    "a key inside": lambda d, f: envelope(d, public_key="..."),
    "no signature": lambda d, f: envelope(d, signature=""),
    "not base64": lambda d, f: envelope(d, payload="*"),
    "not JSON": lambda d, f: d[:-20],
    "a list": lambda d, f: b"[]",
    "nested": lambda d, f: b"[" * 100_000,
    "too large": lambda d, f: d + b" " * (8 * 1024 * 1024),
    "a number as payload": lambda d, f: envelope(d, payload=3),
    "the signer's list as a bundle": lambda d, f: envelope(f.withdrawals(), format=BUNDLE),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_changed_bundle_is_refused(
    name: str, factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path
) -> None:
    path = write(tmp_path / "b", TAMPERINGS[name](factory.bundle(manifest), factory))
    with pytest.raises(BundleTampered):
        load_bundle(path, trust=trust)
    assert lookup.loaded_manifests() == []


def test_another_key_under_the_pinned_fingerprint_is_refused(
    factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path
) -> None:
    forged = envelope(Factory().bundle(manifest), signer=factory.fingerprint)
    with pytest.raises(BundleTampered, match="signature"):
        load_bundle(write(tmp_path / "b", forged), trust=trust)


@pytest.mark.parametrize("part", ["manifest", "lock", "withdrawals"])
def test_every_part_of_a_signed_payload_is_needed(
    part: str, factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path
) -> None:
    with pytest.raises(BundleTampered, match="parts"):
        load_bundle(write(tmp_path / "b", factory.bundle(manifest, **{part: None})), trust=trust)


def test_a_lockfile_of_another_manifest_is_refused(
    factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path
) -> None:
    other = replace(manifest, version="2")
    lock = {"digests": locked_digests(other), "versions": installed_versions()}
    with pytest.raises(BundleTampered, match="lockfile"):
        load_bundle(write(tmp_path / "b", factory.bundle(manifest, lock=lock)), trust=trust)


def test_other_versions_are_refused_unless_accepted(
    factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path
) -> None:
    lock = {"digests": locked_digests(manifest), "versions": {**installed_versions(), "transformers": "4.0.0"}}
    path = write(tmp_path / "b", factory.bundle(manifest, lock=lock))
    with pytest.raises(VersionsDiffer, match=r"transformers 4\.0\.0 \(here 5.*other_versions=True"):
        load_bundle(path, trust=trust)
    assert load_bundle(path, trust=trust, other_versions=True) == manifest


def test_a_manifest_that_was_changed_before_signing_is_refused(
    factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path
) -> None:
    changed = {**manifest.to_dict(), "profile": "profile-ideal"}
    with pytest.raises(ManifestRefused, match="digest"):
        load_bundle(write(tmp_path / "b", factory.bundle(manifest, manifest=changed)), trust=trust)


def test_a_withdrawn_adapter_is_refused_even_in_a_bundle_from_before(
    factory: Factory, trust: Trust, manifest: Manifest, make_model: Callable[[str], nn.Module], tmp_path: Path
) -> None:
    bundle = write(tmp_path / "b", factory.bundle(manifest))
    load_bundle(bundle, trust=trust)
    newer = write(tmp_path / "w", factory.withdrawals(5, **{manifest.digest: "wrong at length 65"}))
    assert load_withdrawals(newer, trust=trust) == {manifest.digest: "wrong at length 65"}
    assert lookup.loaded_manifests() == []
    with pytest.raises(AdapterWithdrawn, match=r"wrong at length 65.*newer bundle"):
        load_bundle(bundle, trust=trust)
    with pytest.raises(AdapterWithdrawn, match="tiny 1 is withdrawn"):
        adapt(make_model("bert"), manifest=manifest, **CPU)


def test_a_newer_list_is_remembered_by_the_next_process_and_an_older_one_passed_over(
    factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_withdrawals(write(tmp_path / "w", factory.withdrawals(5, **{manifest.digest: "wrong"})), trust=trust)
    monkeypatch.setattr(lookup, "_withdrawn", {})
    again = stored_trust(tmp_path / "trust")
    load_withdrawals(write(tmp_path / "old", factory.withdrawals(2)), trust=again)
    with pytest.raises(AdapterWithdrawn):
        load_bundle(write(tmp_path / "b", factory.bundle(manifest)), trust=again)


def test_a_damaged_stored_list_closes_the_door(
    factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path
) -> None:
    bundle = write(tmp_path / "b", factory.bundle(manifest))
    load_bundle(bundle, trust=trust)
    (stored,) = (tmp_path / "trust" / "withdrawals").iterdir()
    stored.write_bytes(stored.read_bytes()[:-9])
    with pytest.raises(BundleTampered):
        load_bundle(bundle, trust=stored_trust(tmp_path / "trust"))


def test_a_list_of_another_signer_inside_a_bundle_is_refused(
    factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path
) -> None:
    other = Factory()
    trust.pin(other.pem, other.fingerprint)
    bundle = factory.bundle(manifest, withdrawals=other.withdrawals().decode())
    with pytest.raises(BundleTampered, match="withdrawal list is of"):
        load_bundle(write(tmp_path / "b", bundle), trust=trust)


@pytest.mark.parametrize("withdrawn", [None, [3], [{"digest": 3, "reason": "x"}], [{"digest": "x"}]])
def test_a_list_that_cannot_be_read_is_refused(
    withdrawn: Any, factory: Factory, trust: Trust, manifest: Manifest, tmp_path: Path
) -> None:
    listed = factory.seal(WITHDRAWALS, {"serial": 9, "withdrawn": withdrawn})
    with pytest.raises(BundleTampered, match="cannot be read"):
        load_withdrawals(write(tmp_path / "w", listed), trust=trust)


def test_pinning_needs_the_right_fingerprint_and_kind_of_key(factory: Factory, tmp_path: Path) -> None:
    path = write(tmp_path / "key.pem", factory.pem)
    with pytest.raises(SignerRefused, match="ask the signer"):
        trust_signer(path, "sha256:" + "0" * 64, folder=tmp_path)
    other = generate_private_key(SECP256R1()).public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(SignerRefused, match="no Ed25519 key"):
        trust_signer(write(tmp_path / "ec.pem", pem), "sha256:x", folder=tmp_path)
    with pytest.raises(SignerRefused, match="PEM"):
        trust_signer(write(tmp_path / "no.pem", b"nothing"), "sha256:x", folder=tmp_path)
    assert not (tmp_path / "signers").exists()


def test_a_key_file_under_another_name_closes_the_door(trust: Trust, tmp_path: Path) -> None:
    (stored,) = (tmp_path / "trust" / "signers").iterdir()
    stored.rename(stored.with_name("0" * 64 + ".pem"))
    with pytest.raises(SignerRefused):
        stored_trust(tmp_path / "trust")


def test_a_missing_file_is_one_sentence(trust: Trust, tmp_path: Path) -> None:
    with pytest.raises(ManifestRefused, match="cannot be read"):
        load_bundle(tmp_path / "none", trust=trust)


def test_every_refusal_of_a_bundle_is_a_bundle_error() -> None:
    for kind in (BundleTampered, UnknownSigner, SignerRefused, VersionsDiffer, AdapterWithdrawn):
        assert issubclass(kind, BundleError)
        assert kind.code != BundleError.code
