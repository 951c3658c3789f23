"""The key that signs what this installation releases: a file outside the database, readable by its owner alone."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from pipeline.errors import BadInput, EnvironmentProblem
from pipeline.settings import Settings

OWNER_ONLY = 0o600
FORMER = "former"


def key_path(settings: Settings) -> Path:
    """Where the private key is: `SPYRE_FACTORY_SIGNING_KEY`, else in the data directory."""
    return settings.signing_key or settings.data_dir / "keys" / "signing-key.pem"


def signing_key(settings: Settings) -> Ed25519PrivateKey:
    """The installation's key, made at the first call. Raises EnvironmentProblem, one sentence with the remedy.

    A key that was set by the setting is never made: it must be there.
    """
    path = key_path(settings)
    if not path.exists() and settings.signing_key is None:
        _make(path)
    return _read(path)


def rotate_key(settings: Settings) -> Ed25519PrivateKey:
    """Make a new key that signs from now on; the former one, which is returned, stays for its withdrawal lists.

    Raises EnvironmentProblem if the key was set by the setting: then it is for who set it to replace.
    """
    if settings.signing_key is not None:
        raise EnvironmentProblem(
            f"The signing key {settings.signing_key} is set from outside: replace that file itself."
        )
    former, path = signing_key(settings), key_path(settings)
    kept = former_path(settings, fingerprint(former))
    kept.parent.mkdir(exist_ok=True, mode=0o700)
    path.replace(kept)
    _make(path)
    return former


def former_key(settings: Settings, named: str) -> Ed25519PrivateKey:
    """The key with this fingerprint, today's or a former one. Raises EnvironmentProblem if there is none."""
    today = signing_key(settings)
    return today if fingerprint(today) == named else _read(former_path(settings, named))


def former_path(settings: Settings, named: str) -> Path:
    """Where a former key is kept. Raises BadInput for what is no fingerprint."""
    if not re.fullmatch("sha256:[0-9a-f]{64}", named):
        raise BadInput(f"{named!r} is no fingerprint: it begins with sha256: and has 64 hexadecimal digits.")
    return key_path(settings).parent / FORMER / f"{named.removeprefix('sha256:')}.pem"


def fingerprint(key: Ed25519PrivateKey) -> str:
    """What users pin it by."""
    from adapters.releases.trust import fingerprint_of

    return fingerprint_of(key.public_key())


def handover(former: Ed25519PrivateKey, successor: Ed25519PrivateKey) -> bytes:
    """The former key's word for its successor: who has pinned the one can pin the other with it."""
    from adapters.releases.signed import HANDOVER, seal

    return seal(HANDOVER, {"public_key": public_pem(successor).decode()}, former, fingerprint(former))


def public_pem(key: Ed25519PrivateKey) -> bytes:
    """What users pin."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _make(path: Path) -> None:
    """Writes a new key beside its place and links it there: of two processes one wins, and both read its key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        content = path.read_bytes()
    except OSError as error:
        raise EnvironmentProblem(f"The signing key {path} cannot be read: {error.strerror}.") from error
    if mode & ~OWNER_ONLY:
        raise EnvironmentProblem(f"The signing key {path} has mode {mode:o}: others may read it; run chmod 600 on it.")
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError) as error:
        raise EnvironmentProblem(f"The signing key {path} is no unencrypted PEM key: {error}.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise EnvironmentProblem(f"The signing key {path} is no Ed25519 key.")
    return key
