"""Every page: readable without script, safe from hostile texts, small however many models there are."""

from __future__ import annotations

import html
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from .conftest import HOSTILE, HOSTILE_NAME, HOSTILE_TEXT, LONGEST_NAME, MODEL, Story, Watched

pytestmark = pytest.mark.browser

MOST_ROWS = 500
EMPTY_HERE = ("/audit", "/requests", "/scores")
"""Pages about events, requests and measurements, of which the generated database has none."""


def rows(page: Page) -> int:
    return page.locator("tr").count()


# --- without script
def test_every_page_can_be_read_without_script(story: str, told: Story, visitor: Callable[..., Watched]) -> None:
    watched = visitor(story, reviewer="reader", java_script_enabled=False)
    for path in told.paths:
        page = watched.open(path)
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("footer")).to_contain_text("Simulated Spyre, profile-2026-08")
        words = page.get_by_role("main").inner_text()
        assert len(words) > 40, path
        assert page.locator("main [hidden]:not(.keys):not([data-copy])").count() == 0, path


def test_the_main_tasks_need_no_script(story: str, visitor: Callable[..., Watched]) -> None:
    page = visitor(story, reviewer="reader", java_script_enabled=False).open("/models")
    page.get_by_role("searchbox").fill("albert")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name=MODEL).click()
    page.get_by_role("link", name="Review candidate").click()
    page.get_by_label("Reason").fill("Mathematics and evidence agree")
    page.get_by_role("button", name="Approve and release").click()
    expect(page.locator(".lead")).to_contain_text("released")
    page.goto(f"{story}/requests?model={MODEL}")
    page.get_by_role("button", name="Request").click()
    expect(page.locator(".verdict")).to_be_visible()


# --- hostile texts
def test_hostile_texts_run_on_no_page(story: str, told: Story, visitor: Callable[..., Watched]) -> None:
    watched = visitor(story, reviewer=HOSTILE_TEXT[:60])
    seen = set()
    for path in (
        *told.paths,
        f"/models/{HOSTILE_NAME}",
        f"/models?q={HOSTILE_TEXT}",
        f"/models?op={HOSTILE_TEXT[:100]}",
    ):
        page = watched.open(path)
        page.wait_for_function("document.readyState === 'complete'")
        assert page.title() != "owned", path
        assert page.locator("img, main script, iframe, object").count() == 0, path
        if "<script>document.title" in html.unescape(page.content()):
            seen.add(path)
    wanted = {"/", "/models", f"/models/{HOSTILE}", "/review?state=all", "/audit", f"/sweeps/{told.sweep}", "/ops"}
    assert wanted <= seen
    assert any(path.startswith("/review/") for path in seen)


# --- ten thousand models
def test_no_page_of_ten_thousand_models_holds_more_than_500_rows(large: str, visitor: Callable[..., Watched]) -> None:
    watched = visitor(large)
    paths = ("/", "/models", "/models?sort=family&columns=family", "/coverage", "/coverage?by=op", "/review",
             "/review?state=all", "/adapters", "/sweeps/1", "/sweeps/2", "/sweeps/compare?first=1&second=2", "/audit",
             "/requests", "/scores")  # fmt: skip
    for path in paths:
        page = watched.open(path)
        assert rows(page) <= MOST_ROWS, path
        assert rows(page) > 1 or path in EMPTY_HERE, path
    expect(watched.open("/").locator("h1")).to_contain_text("of 10\u202f000 models run")


def test_ten_thousand_models_are_searched_sorted_and_paged(large: str, visitor: Callable[..., Watched]) -> None:
    page = visitor(large).open("/models")
    page.get_by_role("searchbox").press_sequentially("multilingual-cased")
    expect(page.locator("#results .name a")).to_have_text([LONGEST_NAME])
    page.get_by_role("searchbox").fill("")
    expect(page.locator("#results .name a")).to_have_count(100)
    page.get_by_role("link", name="Model", exact=True).click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Model")
    first = page.locator("#results .name a").all_inner_texts()
    page.get_by_role("link", name="Next 100").click()
    page.wait_for_url("**after=**")
    second = page.locator("#results .name a").all_inner_texts()
    assert first == sorted(first)
    assert first[-1] < second[0]
    assert rows(page) <= MOST_ROWS


def test_the_causes_of_ten_thousand_models_appear_when_they_are_ranked(
    large: str, visitor: Callable[..., Watched]
) -> None:
    page = visitor(large).open("/ops")
    expect(page.get_by_role("region", name="Cheapest sets")).to_be_visible(timeout=60_000)
    assert rows(page) <= MOST_ROWS
