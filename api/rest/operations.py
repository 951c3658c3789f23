"""/healthz, /readyz, /metrics: for whoever operates the service."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.repository import review_load
from api.rest.schemas import Health, Readiness
from api.security.identity import Reader
from pipeline.database.migrate import require_current
from pipeline.database.unit_of_work import reading
from pipeline.errors import FactoryError
from pipeline.work.chores import last_failure
from pipeline.work.control import is_paused
from pipeline.work.repository import count_by_state, oldest_claimable_age_s

router = APIRouter(tags=["operations"])


@router.get("/healthz", response_model=Health)
def healthz() -> dict[str, str]:
    """The process answers; nothing else is asked."""
    return {"status": "ok"}


@router.get("/readyz", response_model=Readiness)
def readyz() -> dict[str, Any]:
    """The database can be used and has this version's tables; 503 with the reason if not."""
    require_current()
    with reading() as session:
        age_s, runs = oldest_claimable_age_s(session), count_by_state(session)
        paused, chore = is_paused(session), last_failure(session)
    told = {"paused": paused, "failed_chore": f"{chore.name}: {chore.reason}" if chore else None}
    return {"status": "ok", "oldest_claimable_age_s": age_s, "runs": runs, **told}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(_caller: Reader, request: Request) -> Response:
    """Prometheus metrics of this process and of the database."""
    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)


class DatabaseCollector(Collector):
    """Gauges read from the database when somebody asks; of one that cannot be read it says only that."""

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first scrape."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The gauges."""
        try:
            with reading() as session:
                runs, age_s = count_by_state(session), oldest_claimable_age_s(session)
                waiting = review_load(session).waiting
        except FactoryError:
            yield GaugeMetricFamily("spyre_factory_database_up", "Whether the database can be read", value=0)
            return
        yield GaugeMetricFamily("spyre_factory_database_up", "Whether the database can be read", value=1)
        states = GaugeMetricFamily("spyre_factory_runs", "Runs by state", labels=["state"])
        for state, count in runs.items():
            states.add_metric([state], count)
        yield states
        yield GaugeMetricFamily(
            "spyre_factory_oldest_claimable_seconds", "Wait of the oldest claimable run", value=age_s or 0
        )
        yield GaugeMetricFamily("spyre_factory_reviews_waiting", "Candidates that wait for a human", value=waiting)


class Metrics:
    """What this process counts about itself, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(DatabaseCollector())
        labels = ["method", "route", "status"]
        self.requests = Counter("spyre_factory_http_requests", "Requests answered", labels, registry=self.registry)
        self.seconds = Histogram("spyre_factory_http_seconds", "Time to answer", ["route"], registry=self.registry)


class CountRequests:
    """ASGI middleware: counts every answer under its route's template, so that ids make no series."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on and count."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(known_method(scope["method"]), route, status).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - began)


def install_metrics(app: FastAPI) -> None:
    """Count this app's answers."""
    app.state.metrics = Metrics()
    app.add_middleware(CountRequests, metrics=app.state.metrics)


def known_method(method: str) -> str:
    """The method as a label; one that HTTP does not know is `other`."""
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"
