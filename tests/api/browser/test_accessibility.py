"""axe-core finds nothing against WCAG 2.2 AA on any page, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from .test_dashboard import MODEL, PATHS, Watched, log_in

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_no_page_breaks_a_rule(
    chromium: Browser, dashboard: str, sweep: Callable[..., int], login_token: str, theme: str, width: int
) -> None:
    sweep(MODEL, "acme/bert-stock-real", "d/mpnet-hostile", "b/nomic-remote")
    context = chromium.new_context(color_scheme=theme, viewport={"width": width, "height": 850})  # type: ignore[arg-type]
    watched = Watched(context, dashboard)
    page = log_in(watched, login_token)
    found = {}
    for path in (*PATHS, "/login", "/nope"):
        watched.open(path)
        violations = Axe().run(page, options=RULES).response["violations"]
        found[path] = [f"{v['id']}: {node['html']}" for v in violations for node in v["nodes"]]
    assert {path: said for path, said in found.items() if said} == {}
    context.close()
