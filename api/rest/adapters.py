"""/adapters, their manifests, and stored artefacts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from api import repository
from api.errors import PreconditionFailed
from api.presentation import adapter_item, adapter_link
from api.rest import PREFIX
from api.rest.reviews import IfMatch, seen_in
from api.rest.schemas import AdapterDetails, Adapters, DecisionBody, ReleasedAnswer
from api.security.identity import Decider, Reader, principal_of, require_reviewer
from pipeline.database.artefacts import read_artefact
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.errors import NotFound
from pipeline.releases.bundles import bundle_for_download
from pipeline.releases.models import Adapter
from pipeline.releases.repository import get_adapter, list_adapters, lock_adapter
from pipeline.review.service import withdraw_adapter
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
def get_one_adapter(_caller: Reader, number: Number, response: Response) -> dict[str, Any]:
    """One adapter with its manifest. Its ETag is what a withdrawal must name."""
    with reading() as session:
        adapter = get_adapter(session, number)
        response.headers["ETag"] = f'"{tag_of(adapter)}"'
        return adapter_item(adapter)


def tag_of(adapter: Adapter) -> str:
    """What was released, and whether it still is."""
    return f"{adapter.digest}-{adapter.state}"


@router.post("/adapters/{number}/withdraw", response_model=ReleasedAnswer)
def withdraw(caller: Decider, number: Number, body: DecisionBody, if_match: IfMatch = None) -> dict[str, Any]:
    """Take the adapter that If-Match names back; exactly the models that it served run again, without it."""
    seen = seen_in(if_match)
    with unit_of_work() as session:
        adapter = lock_adapter(session, number)
        if seen != tag_of(adapter):
            raise PreconditionFailed(f"Adapter {number} is not what If-Match names: look again.")
        done = withdraw_adapter(session, number, principal_of(session, caller), reason=body.reason)
        return {"adapter": adapter_link(adapter), "runs": [run.id for run in done.runs]}


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
