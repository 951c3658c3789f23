"""The Hub as a catalogue: lists embedding models by downloads and reads the small files of one model, pinned.

Uses `huggingface_hub`. `HF_ENDPOINT` and `HF_TOKEN` are read here and in the fetcher, nowhere else; no token file of
the user is used. A fault of the network or of the Hub is an EnvironmentProblem and never becomes a row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agents.types import FailureKind
from pipeline.catalogue.entry import CatalogueEntry, WeightsForm
from pipeline.catalogue.hub_errors import Unauthorised, hub_errors, missing
from pipeline.errors import EnvironmentProblem
from pipeline.inspection.files import CONFIG, MAX_SMALL_BYTES, is_root_weights, python_files, weights_form
from pipeline.inspection.sources import FileTooLargeError, ListedFiles

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import ModelInfo

PUBLIC_ENDPOINT = "https://huggingface.co"
CONVERSION_BOT = "SFconvertbot"
"""The Hub account that proposes safetensors conversions as pull requests."""

PIPELINE_TAGS = ("feature-extraction", "sentence-similarity")
_EXPAND = ("config", "downloads", "gated", "library_name", "likes", "pipeline_tag", "safetensors", "sha", "siblings")

SMALL_FILE_TIMEOUT_S = 20.0
"""Seconds without a byte after which the Hub counts as unreachable."""


@dataclass(frozen=True)
class HubFile:
    """A file at a revision: name, size in bytes, and the digest the Hub promises (sha256, or git's blob sha1)."""

    name: str
    size: int
    sha256: str | None
    blob_sha1: str | None


@dataclass(frozen=True)
class HubListing:
    """A model at one revision: 40-hex commit, files, gate, and the named ref it was asked by, if that matters."""

    model_id: str
    revision: str
    files: dict[str, HubFile]
    gated: bool
    ref: str | None = None


@dataclass(frozen=True)
class HubClient:
    """A Hub and the rights to read it. Make one with `hub_client()`; both values are explicit so that tests can be."""

    endpoint: str
    token: str | None = None

    @property
    def api(self) -> HfApi:
        """The client of `huggingface_hub`; without a token it sends none, whatever the machine has stored."""
        from huggingface_hub import HfApi

        return HfApi(endpoint=self.endpoint, token=self.token or False, library_name="spyre-adapter-factory")

    def list_top(self, top: int) -> list[CatalogueEntry]:
        """The `top` most downloaded models of both pipeline tags: one row each, ranked from 1, drops with a reason.

        Raises EnvironmentProblem if the Hub cannot be used or lists nothing, ValueError for `top` below 1.
        """
        if top < 1:
            raise ValueError(f"top is {top}; it must be at least 1")
        self.probe()
        with hub_errors("the model listing", self.endpoint):
            infos = {info.id: info for tag in PIPELINE_TAGS for info in self._listed(tag, top)}
        if not infos:
            raise EnvironmentProblem(f"the Hub at {self.endpoint} lists no embedding models; check HF_ENDPOINT")
        ranked = sorted(infos.values(), key=lambda info: (-(info.downloads or 0), info.id))[:top]
        return [entry_of(info, rank) for rank, info in enumerate(ranked, start=1)]

    def probe(self) -> None:
        """One cheap request without retries, so that a Hub that is down is known at once. Raises EnvironmentProblem."""
        from huggingface_hub.utils import get_session, hf_raise_for_status

        with hub_errors("the model listing", self.endpoint):
            url = f"{self.endpoint}/api/models"
            answer = get_session().get(url, params={"limit": 1}, headers=self.headers(), timeout=SMALL_FILE_TIMEOUT_S)
            hf_raise_for_status(answer)

    def listing(self, model_id: str, revision: str | None = None) -> HubListing:
        """Files of a model at `revision` (newest if None), with the commit they belong to.

        Raises NotFound, CheckpointProblem("gated") or EnvironmentProblem.
        """
        try:
            with hub_errors(model_id, self.endpoint):
                info = self.api.model_info(
                    model_id, revision=revision, files_metadata=True, timeout=SMALL_FILE_TIMEOUT_S
                )
        except Unauthorised:
            if self.token is None:
                self.probe()  # a Hub that answers the anonymous refuses this model only: it is missing or private
                raise missing(model_id, self.endpoint) from None
            raise
        if not info.sha:
            raise EnvironmentProblem(
                f"the Hub at {self.endpoint} names no commit for {model_id!r}; it is tried again later"
            )
        files = {s.rfilename: _file(s) for s in info.siblings or []}
        return HubListing(model_id, info.sha, files, bool(info.gated))

    def read_small(self, model_id: str, revision: str, name: str) -> bytes | None:
        """One small file, None if there is none of that name. Raises as `listing`, FileTooLargeError above 4 MB."""
        import httpx2
        from huggingface_hub import hf_hub_url

        url = hf_hub_url(model_id, name, revision=revision, endpoint=self.endpoint)
        with hub_errors(model_id, self.endpoint):
            try:
                return self._read_url(url, name)
            except (httpx2.RemoteProtocolError, httpx2.ReadError):
                return self._read_url(url, name)  # a connection that was kept open may have been closed meanwhile

    def _read_url(self, url: str, name: str) -> bytes | None:
        from huggingface_hub import errors
        from huggingface_hub.utils import get_session, hf_raise_for_status

        with get_session().stream("GET", url, headers=self.headers(), timeout=SMALL_FILE_TIMEOUT_S) as answer:
            try:
                hf_raise_for_status(answer)
            except errors.EntryNotFoundError:
                return None
            return _bounded(answer.iter_bytes(), name)

    def conversion(self, found: HubListing) -> HubListing | None:
        """The Hub's safetensors conversion of exactly these pickle weights: a pull request of its bot, pinned.

        A pull request counts only if its pickle files and configuration are byte for byte those of `found`.
        """
        with hub_errors(found.model_id, self.endpoint):
            pulls = self.api.get_repo_discussions(found.model_id, author=CONVERSION_BOT, discussion_type="pull_request")
            refs = [p.git_reference for p in pulls if p.is_pull_request and p.author == CONVERSION_BOT]
        listings = (replace(self.listing(found.model_id, ref), ref=ref) for ref in refs if ref)
        return next((pull for pull in listings if _converts(pull, found)), None)

    def source(self, model_id: str, revision: str | None = None) -> ListedFiles:
        """What `inspect_checkpoint` reads for this model, fetched on demand, at a pinned revision."""
        return self.source_of(self.listing(model_id, revision))

    def source_of(self, found: HubListing) -> ListedFiles:
        """As `source`, for a listing that is at hand."""
        model_id = found.model_id
        return ListedFiles(
            name=model_id,
            files=tuple(found.files),
            revision=found.revision,
            gated=found.gated and not self.token,
            read=lambda name: self.read_small(model_id, found.revision, name),
        )

    def headers(self) -> dict[str, str]:
        """Request headers, with the token only if this client has one."""
        from huggingface_hub.utils import build_hf_headers

        return build_hf_headers(token=self.token or False, library_name="spyre-adapter-factory")

    def _listed(self, tag: str, top: int) -> Iterator[ModelInfo]:
        expand: Any = list(_EXPAND)
        return iter(self.api.list_models(pipeline_tag=tag, sort="downloads", limit=top, expand=expand))


def hub_client() -> HubClient:
    """The client for `HF_ENDPOINT` (the public Hub if unset) with `HF_TOKEN`, if there is one."""
    endpoint = (os.environ.get("HF_ENDPOINT") or PUBLIC_ENDPOINT).rstrip("/")
    return HubClient(endpoint, os.environ.get("HF_TOKEN") or None)


def pin(entry: CatalogueEntry, client: HubClient) -> CatalogueEntry:
    """The entry with its newest revision and weights form from the Hub. Raises as `HubClient.listing`."""
    found = client.listing(entry.model_id)
    return replace(entry, revision=found.revision, weights_form=weights_form(found.files))


def entry_of(info: ModelInfo, rank: int) -> CatalogueEntry:
    """The row of a listed model. What the listing does not say stays None."""
    names = None if info.siblings is None else [s.rfilename for s in info.siblings]
    summary = info.config or {}
    row = CatalogueEntry(
        model_id=info.id,
        rank=rank,
        downloads=info.downloads or 0,
        likes=info.likes or 0,
        revision=info.sha,
        pipeline_tag=info.pipeline_tag,
        library=info.library_name,
        model_type=summary.get("model_type"),
        architectures=tuple(summary.get("architectures") or ()),
        parameters=info.safetensors.total if info.safetensors else None,
        gated=bool(info.gated),
        custom_code=bool(summary.get("auto_map")) or bool(python_files(names or ())),
        weights_form=WeightsForm.UNKNOWN if names is None else weights_form(names),
    )
    kind, reason = _drop(row, names) or (None, None)
    return replace(row, dropped_kind=kind, dropped_reason=reason)


_UNUSABLE = {
    WeightsForm.GGUF: "GGUF",
    WeightsForm.ONNX: "ONNX",
    WeightsForm.ADAPTER: "PEFT adapter",
    WeightsForm.OTHER: "another framework's",
}


def _drop(row: CatalogueEntry, names: list[str] | None) -> tuple[str, str] | None:
    """Only what the listing alone can decide; everything else is for the inspection to judge."""
    if names is None:
        return None
    if row.weights_form in _UNUSABLE:
        text = (
            f"{row.model_id!r}: it has {_UNUSABLE[row.weights_form]} weights only; use the model they were made from."
        )
        return str(FailureKind.NO_NATIVE_WEIGHTS), text
    if CONFIG not in names and not any(n.startswith("0_") for n in names):
        return str(
            FailureKind.UNKNOWN_ARCHITECTURE
        ), f"{row.model_id!r}: it has no config.json, so its architecture is unknown."
    return None


def _converts(pull: HubListing, found: HubListing) -> bool:
    """True if `pull` adds safetensors and leaves what they were made from as it is in `found`."""
    made_from = [n for n in found.files if n == CONFIG or weights_form([n]) is WeightsForm.PICKLE]
    same = all(n in pull.files and _content(pull.files[n]) == _content(found.files[n]) for n in made_from)
    return same and any(is_root_weights(n) for n in pull.files)


def _content(file: HubFile) -> str | None:
    return file.sha256 or file.blob_sha1


def _file(sibling: Any) -> HubFile:
    return HubFile(sibling.rfilename, sibling.size or 0, sibling.lfs.sha256 if sibling.lfs else None, sibling.blob_id)


def _bounded(chunks: Iterable[bytes], name: str) -> bytes:
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > MAX_SMALL_BYTES:
            raise FileTooLargeError(f"its {name} is larger than {MAX_SMALL_BYTES:,} bytes")
    return bytes(data)
