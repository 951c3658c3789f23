"""Bundles: adapters that an installation released, signed by it, with a lockfile; and its list of withdrawals.

A bundle's payload is {"manifest", "lock", "withdrawals"}. The lock holds digests of the adapter and its patches, the
versions it was verified with, and the digests of its evidence; it must agree with the manifest and with what is
installed. `withdrawals` is the signer's own signed list at the time of the export; of this and the lists that were
loaded before the newest is honoured. Loading fails closed: after an error no adapter is offered.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import AdapterWithdrawn, BundleTampered, ManifestRefused, VersionsDiffer
from .lookup import forget_manifest, loaded_manifests, use_manifest, withdraw_adapters
from .manifest import Manifest, manifest_from_dict
from .signed import BUNDLE, HANDOVER, WITHDRAWALS, Signed, unseal
from .trust import Trust, fingerprint_of, pin_key, read_public_key, stored_trust

LOCKED = ("torch", "transformers")
PARTS = {"manifest": dict, "lock": dict, "withdrawals": str}


def load_bundle(path: str | Path, *, trust: Trust | None = None, other_versions: bool = False) -> Manifest:
    """Checks a bundle and offers its adapter to later look-ups in this process, before the adapters of the package.

    `trust` defaults to the signers pinned for this user. `other_versions=True` accepts torch and transformers of other
    versions than the lock's; the evidence then does not hold for them, and moved sources are still refused by `adapt`.
    Raises BundleTampered, UnknownSigner, VersionsDiffer, AdapterWithdrawn, ManifestRefused.
    """
    manifest = open_bundle(_read(path), trust or stored_trust(), other_versions=other_versions)
    use_manifest(manifest)
    return manifest


def open_bundle(document: bytes, trust: Trust, *, other_versions: bool = False) -> Manifest:
    """The checked manifest of a bundle's bytes; the newest withdrawal list is kept. Raises as `load_bundle`."""
    signed = unseal(document, BUNDLE, trust)
    payload = signed.payload
    if {name: type(part) for name, part in payload.items()} != PARTS:
        raise BundleTampered(f"the payload does not have exactly the parts {sorted(PARTS)}; get the file again")
    manifest = manifest_from_dict(payload["manifest"])
    if payload["lock"].get("digests") != locked_digests(manifest):
        raise BundleTampered(f"{manifest.name}: the lockfile does not agree with the manifest; get the bundle again")
    reasons = accept_withdrawals(payload["withdrawals"].encode(), trust, signer=signed.signer)
    if manifest.digest in reasons:
        raise AdapterWithdrawn(
            f"{manifest.name} {manifest.version} is withdrawn: {reasons[manifest.digest]}; ask for a newer bundle"
        )
    if not other_versions:
        _check_versions(manifest, payload["lock"].get("versions"))
    return manifest


def load_withdrawals(path: str | Path, *, trust: Trust | None = None) -> dict[str, str]:
    """Honours a signer's withdrawal list: its adapters are forgotten in this process and refused from now on.

    Returns digest → reason. Raises BundleTampered, UnknownSigner. An older list than one known is passed over.
    """
    trust = trust or stored_trust()
    document = _read(path)
    reasons = accept_withdrawals(document, trust, signer=unseal(document, WITHDRAWALS, trust).signer)
    for manifest in loaded_manifests():
        if manifest.digest in reasons:
            forget_manifest(manifest)
    return reasons


def trust_successor(path: str | Path, *, folder: str | Path | None = None) -> str:
    """Pins the key that a pinned signer named as its successor, in the file of `keys rotate`; the former stays pinned.

    Returns the successor's fingerprint. Raises UnknownSigner, BundleTampered, SignerRefused; then nothing is pinned.
    """
    signed = unseal(_read(path), HANDOVER, stored_trust(folder))
    pem = str(signed.payload.get("public_key", "")).encode()
    return pin_key(pem, fingerprint_of(read_public_key(pem)), folder)


def accept_withdrawals(document: bytes, trust: Trust, *, signer: str) -> dict[str, str]:
    """Keeps the newer of this list and the one known of the same signer, and honours it: digest → reason.

    Raises BundleTampered for a list that is damaged, of another signer, or known and no longer readable.
    """
    newest, document = max(
        ((_withdrawal_list(text, trust, signer), text) for text in (document, trust.withdrawals.get(signer)) if text),
        key=lambda pair: pair[0].payload["serial"],
    )
    if document != trust.withdrawals.get(signer):
        trust.keep_withdrawals(signer, document)
    reasons = {entry["digest"]: entry["reason"] for entry in newest.payload["withdrawn"]}
    withdraw_adapters(reasons)
    return reasons


def locked_digests(manifest: Manifest) -> dict[str, Any]:
    """What a lockfile holds of a manifest: digests of the adapter, of its patches with their targets, of evidence."""
    parts = [manifest.for_family(family) for family in manifest.families]
    return {
        "adapter": manifest.digest,
        "patches": [[p["pattern"], p.get("digest"), p.get("target_digest")] for part in parts for p in part.patches],
        "evidence": list(manifest.evidence),
    }


def installed_versions() -> dict[str, str | None]:
    """Versions of the locked packages here, without local parts (`2.13.0+cpu` is `2.13.0`); None where missing."""
    return {name: _version(name) for name in LOCKED}


def _version(name: str) -> str | None:
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return None


def _check_versions(manifest: Manifest, locked: Any) -> None:
    here = installed_versions()
    if locked == here:
        return
    then = locked if isinstance(locked, dict) else {}
    changes = ", ".join(f"{n} {then.get(n)} (here {here[n]})" for n in LOCKED if then.get(n) != here[n])
    raise VersionsDiffer(
        f"{manifest.name} {manifest.version} was verified with {changes or 'other packages'}; install those versions, "
        "ask for a newer bundle, or call load_bundle(..., other_versions=True) and do without its evidence"
    )


def _withdrawal_list(document: bytes, trust: Trust, signer: str) -> Signed:
    signed = unseal(document, WITHDRAWALS, trust)
    payload = signed.payload
    if signed.signer != signer:
        raise BundleTampered(f"the withdrawal list is of {signed.signer}, not of {signer}; get the file again")
    if not isinstance(payload.get("serial"), int) or not _are_withdrawals(payload.get("withdrawn")):
        raise BundleTampered(f"the withdrawal list of {signer} cannot be read; get it again")
    return signed


def _are_withdrawals(entries: Any) -> bool:
    return isinstance(entries, list) and all(
        isinstance(e, dict) and isinstance(e.get("digest"), str) and isinstance(e.get("reason"), str) for e in entries
    )


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ManifestRefused(f"{str(path)!r} cannot be read: {error.strerror}; give the path of the file") from error
