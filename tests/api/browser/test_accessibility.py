"""axe-core finds nothing against WCAG 2.2 AA on any page, light and wide, dark and narrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from .conftest import Story, Watched

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "target-size"]}, "resultTypes": ["violations"]}
"""What may differ in another theme and width; all else is the same document."""

pytestmark = pytest.mark.browser


def test_no_page_breaks_a_rule(story: str, told: Story, visitor: Callable[..., Watched]) -> None:
    """Every rule, light and wide; then what another theme and width may change. No colour is caught in between."""
    watched = visitor(story, reviewer="axe", viewport={"width": 1280, "height": 850}, reduced_motion="reduce")
    found = {}
    for path in told.paths:
        page = watched.open(path)
        page.evaluate("document.querySelectorAll('details:not(.menu)').forEach((element) => { element.open = true; })")
        found[path] = _violations(page, RULES)
        page.set_viewport_size({"width": 390, "height": 850})
        page.emulate_media(color_scheme="dark")
        found[f"{path} dark and narrow"] = _violations(page, COLOURS)
        page.set_viewport_size({"width": 1280, "height": 850})
        page.emulate_media(color_scheme="light")
    assert {path: said for path, said in found.items() if said} == {}


def _violations(page: Page, options: dict[str, Any]) -> list[str]:
    violations = Axe().run(page, options=options).response["violations"]
    return [f"{v['id']}: {node['html']}" for v in violations for node in v["nodes"]]


def test_the_help_for_keys_breaks_none_either(story: str, visitor: Callable[..., Watched]) -> None:
    page = visitor(story, reviewer="axe").open("/review")
    page.locator(".keys").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys of this page").wait_for()
    assert Axe().run(page, options=RULES).response["violations"] == []
