"""axe-core finds nothing against WCAG 2.2 AA on any page, light and wide, dark and narrow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe

from .conftest import Story, Watched

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_no_page_breaks_a_rule(
    story: str, told: Story, visitor: Callable[..., Watched], theme: str, width: int
) -> None:
    watched = visitor(story, reviewer="axe", color_scheme=theme, viewport={"width": width, "height": 850})
    found = {}
    for path in told.paths:
        page = watched.open(path)
        page.evaluate("document.querySelectorAll('details:not(.menu)').forEach((element) => { element.open = true; })")
        violations = Axe().run(page, options=RULES).response["violations"]
        found[path] = [f"{v['id']}: {node['html']}" for v in violations for node in v["nodes"]]
    assert {path: said for path, said in found.items() if said} == {}


def test_the_help_for_keys_breaks_none_either(story: str, visitor: Callable[..., Watched]) -> None:
    page = visitor(story, reviewer="axe").open("/review")
    page.locator(".keys").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys of this page").wait_for()
    assert Axe().run(page, options=RULES).response["violations"] == []
