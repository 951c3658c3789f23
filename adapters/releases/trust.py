"""Whose bundles are accepted here: public keys that a person has pinned by their fingerprint, in a folder or in memory.

The folder (`SPYRE_ADAPTERS_TRUST`, else `spyre-adapters` in the user's configuration folder) holds one PEM file per
signer in `signers` and the newest withdrawal list of each in `withdrawals`. No key is ever taken from a bundle.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from ..errors import BundleTampered, SignerRefused, UnknownSigner

VARIABLE = "SPYRE_ADAPTERS_TRUST"
SIGNERS, WITHDRAWALS = "signers", "withdrawals"


def fingerprint_of(key: Ed25519PublicKey) -> str:
    """`sha256:` and 64 hex digits over the 32 bytes of the public key."""
    return "sha256:" + hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def read_public_key(pem: bytes) -> Ed25519PublicKey:
    """The Ed25519 key in a PEM file's bytes. Raises SignerRefused for anything else."""
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SignerRefused(
            "that is no public key in PEM form; get the file that `spyre-factory keys show` wrote"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise SignerRefused(f"a {type(key).__name__} is no Ed25519 key; bundles are signed with Ed25519 only")
    return key


@dataclass
class Trust:
    """Pinned signers by fingerprint, and the newest withdrawal list (as signed bytes) of each.

    With a `folder`, newer withdrawal lists are kept there, so that an old one cannot return in another process.
    """

    signers: dict[str, Ed25519PublicKey] = field(default_factory=dict)
    withdrawals: dict[str, bytes] = field(default_factory=dict)
    folder: Path | None = None

    def pin(self, pem: bytes, fingerprint: str) -> str:
        """Accepts a key whose fingerprint was learnt on another way. Raises SignerRefused if they differ."""
        key = read_public_key(pem)
        actual = fingerprint_of(key)
        if fingerprint.strip().lower() != actual:
            raise SignerRefused(
                f"the key's fingerprint is {actual}, not {fingerprint!r}; ask the signer for both again"
            )
        self.signers[actual] = key
        return actual

    def check(self, fingerprint: str, signature: bytes, signed: bytes) -> None:
        """Raises UnknownSigner unless the key is pinned, BundleTampered unless the signature is that key's."""
        key = self.signers.get(fingerprint)
        if key is None:
            raise UnknownSigner(
                f"signer {fingerprint!r} is not pinned here; if you know it, call trust_signer(public_key, fingerprint)"
            )
        try:
            key.verify(signature, signed)
        except InvalidSignature as error:
            raise BundleTampered(f"the signature of {fingerprint} does not hold; get the file again") from error

    def keep_withdrawals(self, fingerprint: str, document: bytes) -> None:
        """Keeps the newest list of a signer, in the folder too where there is one."""
        self.withdrawals[fingerprint] = document
        if self.folder is not None:
            _write(self.folder / WITHDRAWALS / _file_name(fingerprint, "json"), document)


def default_folder() -> Path:
    """Where this user's pinned signers are."""
    named = os.environ.get(VARIABLE)
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(named) if named else Path(config) / "spyre-adapters"


def stored_trust(folder: str | Path | None = None) -> Trust:
    """The trust kept in the folder. Raises SignerRefused for a file whose name is not its key's fingerprint."""
    root = Path(folder) if folder is not None else default_folder()
    trust = Trust(folder=root)
    for path in sorted((root / SIGNERS).glob("*.pem")):
        trust.pin(path.read_bytes(), f"sha256:{path.stem}")
    for path in sorted((root / WITHDRAWALS).glob("*.json")):
        trust.withdrawals[f"sha256:{path.stem}"] = path.read_bytes()
    return trust


def trust_signer(public_key: str | Path, fingerprint: str, *, folder: str | Path | None = None) -> str:
    """Pins a signer for this user: the PEM file of its public key, and the fingerprint learnt on another way.

    Returns the fingerprint. Raises SignerRefused if they do not belong together.
    """
    return pin_key(Path(public_key).read_bytes(), fingerprint, folder)


def pin_key(pem: bytes, fingerprint: str, folder: str | Path | None = None) -> str:
    """As `trust_signer`, of the PEM file's bytes."""
    actual = Trust().pin(pem, fingerprint)
    root = Path(folder) if folder is not None else default_folder()
    _write(root / SIGNERS / _file_name(actual, "pem"), pem)
    return actual


def distrust_signer(fingerprint: str, *, folder: str | Path | None = None) -> None:
    """Unpins a signer for this user, for a key that others may have. Raises SignerRefused if it is not pinned."""
    root = Path(folder) if folder is not None else default_folder()
    try:
        (root / SIGNERS / _file_name(fingerprint, "pem")).unlink()
    except FileNotFoundError as error:
        raise SignerRefused(f"signer {fingerprint!r} is not pinned in {root}; nothing is changed") from error


def _file_name(fingerprint: str, ending: str) -> str:
    return f"{fingerprint.removeprefix('sha256:')}.{ending}"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
