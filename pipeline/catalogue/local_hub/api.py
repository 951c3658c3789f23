"""What the local Hub answers, without HTTP: routes, listings with filters and pages, model documents, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.catalogue.local_hub.repository import Blob, HubModel

PAGE = 1000
"""Rows per page at most, as on the Hub."""

Query = dict[str, list[str]]

_ID = r"(?P<id>[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)?)"
_ROUTES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("list", re.compile(r"/api/models")),
    ("discussions", re.compile(rf"/api/models/{_ID}/discussions")),
    ("tree", re.compile(rf"/api/models/{_ID}/tree/(?P<rev>refs/pr/\d+|[^/]+)")),
    ("info", re.compile(rf"/api/models/{_ID}/revision/(?P<rev>.+)")),
    ("resolve", re.compile(rf"/{_ID}/resolve/(?P<rev>refs/pr/\d+|[^/]+)/(?P<file>.+)")),
    ("info", re.compile(rf"/api/models/{_ID}")),
)


class Route(NamedTuple):
    """What a path asks for; `kind` is "none" for a path the Hub does not have."""

    kind: str
    model_id: str | None = None
    revision: str = "main"
    file: str = ""


class Refusal(NamedTuple):
    """An error answer: HTTP status, the Hub's `X-Error-Code` if it has one, and the message."""

    status: int
    code: str | None
    message: str


class Answer(NamedTuple):
    """A JSON answer; `next_query` is the query of the next page, `commit` the revision it speaks of."""

    body: Any
    next_query: Query | None = None
    commit: str | None = None


NO_MODEL = Refusal(404, "RepoNotFound", "Repository not found")
NO_REVISION = Refusal(404, "RevisionNotFound", "Invalid rev id")
NO_FILE = Refusal(404, "EntryNotFound", "Entry not found")
NO_ROUTE = Refusal(404, None, "Not found")


@dataclass
class Router:
    """Finds answers among the models. `page` bounds the rows per page."""

    models: dict[str, HubModel]
    page: int = PAGE

    def route(self, path: str) -> Route:
        """The route of a decoded path."""
        for kind, pattern in _ROUTES:
            if match := pattern.fullmatch(path):
                found = match.groupdict()
                return Route(kind, found.get("id"), found.get("rev") or "main", found.get("file") or "")
        return Route("none")

    def answer(self, route: Route, query: Query) -> Answer | Refusal | tuple[Blob, str]:
        """JSON, a refusal, or a blob with its commit."""
        if route.kind == "none":
            return NO_ROUTE
        if route.kind == "list":
            return self._list(query)
        model = self.models.get(route.model_id or "")
        if model is None:
            return NO_MODEL
        ref = model.resolve(route.revision)
        if ref is None:
            return NO_REVISION
        return _HANDLERS[route.kind](model, ref, route, query)

    def _list(self, query: Query) -> Answer:
        rows = sorted((m for m in self.models.values() if _matches(m, query)), key=_sort_key(query))
        start = int(_one(query, "cursor") or 0)
        limit = min(self.page, int(_one(query, "limit") or self.page))
        rest = rows[start : start + limit]
        more = {**query, "cursor": [str(start + limit)]} if start + limit < len(rows) else None
        return Answer([_summary(m, query) for m in rest], more)


def _one(query: Query, name: str) -> str | None:
    return query.get(name, [None])[0]


def _sort_key(query: Query) -> Callable[[HubModel], Any]:
    by_likes = _one(query, "sort") == "likes"
    return lambda m: (-(m.likes if by_likes else m.downloads), m.model_id)


def _matches(model: HubModel, query: Query) -> bool:
    tags = {*model.tags, model.pipeline_tag, model.library_name}
    author, search, pipeline_tag = (_one(query, n) for n in ("author", "search", "pipeline_tag"))
    return (
        (pipeline_tag is None or model.pipeline_tag == pipeline_tag)
        and (author is None or model.model_id.startswith(author + "/"))
        and (search is None or search.lower() in model.model_id.lower())
        and all(tag in tags for tag in query.get("filter", []))
    )


def _summary(model: HubModel, query: Query) -> dict[str, Any]:
    document = _document(model, "main")
    wanted = query.get("expand")
    return {k: v for k, v in document.items() if k == "id" or wanted is None or k in wanted}


def _document(model: HubModel, ref: str, *, sizes: bool = False) -> dict[str, Any]:
    counts = model.tensor_counts()
    document = {
        "id": model.model_id,
        "modelId": model.model_id,
        "author": model.model_id.rpartition("/")[0] or None,
        "sha": model.commit(ref),
        "private": False,
        "gated": model.gated,
        "disabled": False,
        "downloads": model.downloads,
        "likes": model.likes,
        "tags": [t for t in (*model.tags, model.pipeline_tag, model.library_name) if t],
        "pipeline_tag": model.pipeline_tag,
        "library_name": model.library_name,
        "config": _config_summary(model.config()),
        "siblings": [_sibling(name, blob, sizes) for name, blob in model.trees[ref].items()],
    }
    return document | ({"safetensors": {"parameters": counts, "total": sum(counts.values())}} if counts else {})


def _config_summary(config: dict[str, Any]) -> dict[str, Any]:
    kept = ("architectures", "model_type", "auto_map", "quantization_config")
    return {key: config[key] for key in kept if key in config}


def _sibling(name: str, blob: Blob, sizes: bool) -> dict[str, Any]:
    if not sizes:
        return {"rfilename": name}
    lfs = {"sha256": blob.sha256, "size": blob.size, "pointerSize": 134} if blob.sha256 else None
    return {"rfilename": name, "size": blob.size, "blobId": blob.sha1} | ({"lfs": lfs} if lfs else {})


def _info(model: HubModel, ref: str, route: Route, query: Query) -> Answer:
    return Answer(_document(model, ref, sizes="blobs" in query), commit=model.commit(ref))


def _tree(model: HubModel, ref: str, route: Route, query: Query) -> Answer:
    rows = [{"type": "file", "path": n, "size": b.size, "oid": b.sha1} for n, b in model.trees[ref].items()]
    return Answer(rows, commit=model.commit(ref))


def _discussions(model: HubModel, ref: str, route: Route, query: Query) -> Answer:
    author = _one(query, "author")
    pulls = [r for r in model.refs if r.startswith("refs/pr/") and author in (None, model.author_of_refs)]
    rows = [_pull_request(model, int(ref.rpartition("/")[2])) for ref in pulls]
    return Answer({"discussions": rows, "count": len(rows), "start": 0, "numClosedDiscussions": 0})


def _pull_request(model: HubModel, number: int) -> dict[str, Any]:
    return {
        "num": number,
        "title": "Adding `safetensors` variant of this model",
        "author": {"name": model.author_of_refs},
        "status": "open",
        "isPullRequest": True,
        "createdAt": "2023-01-01T00:00:00.000Z",
        "repo": {"name": model.model_id, "type": "model"},
    }


def _resolve(model: HubModel, ref: str, route: Route, query: Query) -> tuple[Blob, str] | Refusal:
    blob = model.trees[ref].get(route.file)
    return NO_FILE if blob is None else (blob, model.commit(ref))


_HANDLERS: dict[str, Callable[[HubModel, str, Route, Query], Answer | Refusal | tuple[Blob, str]]] = {
    "info": _info,
    "tree": _tree,
    "discussions": _discussions,
    "resolve": _resolve,
}
