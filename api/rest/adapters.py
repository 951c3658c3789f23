"""/adapters, their manifests, and stored artefacts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from api import repository
from api.presentation import adapter_item
from api.rest import PREFIX
from api.rest.schemas import AdapterDetails, Adapters
from api.security.identity import Reader, require_reviewer
from pipeline.database.artefacts import read_artefact
from pipeline.database.unit_of_work import reading
from pipeline.errors import NotFound
from pipeline.releases.bundles import bundle_for_download
from pipeline.releases.repository import get_adapter, list_adapters
from pipeline.settings import get_settings
from pipeline.verification.evidence import EVIDENCE_MEDIA

router = APIRouter(prefix=PREFIX, tags=["adapters"])
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
BUNDLE = "application/json"
PYTHON = "text/x-python; charset=utf-8"
KEEP = "private, max-age=31536000, immutable"


@router.get("/adapters", response_model=Adapters)
def get_adapters(_caller: Reader) -> dict[str, Any]:
    """Every adapter, newest first, withdrawn ones too."""
    with reading() as session:
        return {"adapters": [adapter_item(adapter) for adapter in list_adapters(session)]}


@router.get("/adapters/{number}", response_model=AdapterDetails)
def get_one_adapter(_caller: Reader, number: Number) -> dict[str, Any]:
    """One adapter with its manifest."""
    with reading() as session:
        return adapter_item(get_adapter(session, number))


@router.get(
    "/adapters/{number}/manifest", response_class=Response, responses={200: {"content": {"application/json": {}}}}
)
def get_manifest(_caller: Reader, number: Number) -> Response:
    """The manifest as it was stored at release, to be given to `spyre_adapters`."""
    with reading() as session:
        adapter = get_adapter(session, number)
        if adapter.artefact_digest is None:
            raise NotFound(f"Adapter {number} has no stored manifest.")
        content = read_artefact(adapter.artefact_digest)
        return download(content, "application/json", f"{adapter.name}-v{adapter.version}.json")


@router.get("/adapters/{number}/bundle", response_class=Response, responses={200: {"content": {BUNDLE: {}}}})
def get_bundle(_caller: Reader, number: Number) -> Response:
    """The adapter as a signed bundle for `load_bundle`: manifest, lockfile and the list of withdrawals.

    The first download of an adapter takes some seconds. Users pin the signer's fingerprint, which no bundle tells.
    """
    content = bundle_for_download(number, get_settings())
    with reading() as session:
        adapter = get_adapter(session, number)
    return download(content, BUNDLE, f"{adapter.name}-v{adapter.version}.bundle.json")


@router.get("/artefacts/{digest}", response_class=Response, responses={200: {"content": {"*/*": {}}}})
def get_artefact(caller: Reader, digest: Digest) -> Response:
    """A stored file by the sha256 of its content, always as a download.

    Evidence holds hidden seeds: it is given to reviewers only.
    """
    with reading() as session:
        row = repository.get_artefact(session, digest)
        if row.media_type == EVIDENCE_MEDIA:
            require_reviewer(caller)
        found = download(read_artefact(digest), row.media_type, f"{row.kind}-{digest[:12]}")
    found.headers["Cache-Control"] = KEEP
    return found


def download(content: bytes, media_type: str, name: str) -> Response:
    """A file that browsers save and never show: its content may come from a model."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name if c.isascii())
    headers = {"Content-Disposition": f'attachment; filename="{safe}"', "Content-Security-Policy": "sandbox"}
    return Response(content, media_type=media_type, headers=headers)
