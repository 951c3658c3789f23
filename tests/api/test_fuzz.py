"""Whatever is sent to the REST API, it never fails, and it answers as its own document says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import create_app

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
EXAMPLES = 12


application = create_app()
api = schemathesis.openapi.from_dict(application.openapi())
api.app = application
api.config.update(base_url="http://127.0.0.1:8000")


@pytest.fixture
def story(sweep: Callable[..., int]) -> None:
    """One of each noun: a sweep, its runs, a model that passes, a candidate that waits."""
    sweep("acme/albert-one", "acme/bert-stock-real")


@api.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_route_answers_as_the_document_says(
    case: schemathesis.Case, story: None, reviewer: dict[str, str]
) -> None:
    case.call_and_validate(headers=reviewer, checks=CHECKS)
