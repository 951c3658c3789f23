"""The main road in a real browser: log in by the link, look, decide. Nothing on the console, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

Sweep = Callable[..., int]
MODEL = "acme/albert-one"
PATHS = (
    "/",
    "/models",
    f"/models/{MODEL}",
    "/review",
    "/review/1",
    "/requests",
    "/adapters",
    "/sweeps",
    "/sweeps/1",
    "/coverage",
    "/ops",
    "/profiles",
    "/profiles/latest",
    "/profiles/compare?a=profile-2026-04&b=latest",
    "/sweeps/compare?first=1&second=1",
    "/scores",
    "/audit",
    "/settings",
)

pytestmark = pytest.mark.browser


class Watched:
    """A page whose console and requests are kept."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.page: Page = context.new_page()
        self.address = address
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.address}{path}")
        return self.page

    def check(self) -> None:
        assert self.said == []
        assert {urlsplit(url).netloc for url in self.asked} == {urlsplit(self.address).netloc}


def log_in(watched: Watched, token: str) -> Page:
    page = watched.open(f"/login?t={token}")
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    return page


def press(page: Page, key: str) -> None:
    """A key of the review, once the page's script listens for keys: it shows their names then."""
    expect(page.locator(".keys")).to_be_visible()
    page.keyboard.press(key)


def has_no_sideways_scroll(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_from_the_link_to_a_release(
    chromium: Browser, dashboard: str, sweep: Sweep, login_token: str, theme: str, width: int
) -> None:
    sweep(MODEL, "acme/bert-stock-real", "d/mpnet-hostile", "b/nomic-remote")
    context = chromium.new_context(color_scheme=theme, viewport={"width": width, "height": 850})  # type: ignore[arg-type]
    watched = Watched(context, dashboard)
    page = log_in(watched, login_token)
    expect(page.locator("h1")).to_contain_text("1 of 4 models run")
    for path in PATHS:
        watched.open(path)
        assert has_no_sideways_scroll(page), path
    watched.open("/review/1")
    press(page, "a")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("Mathematics and evidence agree")
    page.get_by_role("button", name="Approve and release").click()
    expect(page.locator(".lead")).to_contain_text("released")
    watched.check()
    context.close()


def test_the_list_follows_what_is_typed(chromium: Browser, dashboard: str, entries: Callable[..., int]) -> None:
    entries([("a/albert-one", 3), ("b/mpnet-two", 2)], finish=False)
    context = chromium.new_context()
    watched = Watched(context, dashboard)
    page = watched.open("/models")
    page.get_by_role("searchbox").press_sequentially("mpnet")
    expect(page.get_by_role("link", name="a/albert-one")).to_have_count(0)
    expect(page.get_by_role("link", name="b/mpnet-two")).to_be_visible()
    assert page.url.startswith(f"{dashboard}/models?q=mpnet&")
    assert "after=" not in page.url
    watched.check()
    context.close()


def test_a_running_sweep_is_followed(chromium: Browser, dashboard: str, sweep: Sweep, work: Callable[[], int]) -> None:
    sweep("a/bert-stock", finish=False)
    context = chromium.new_context()
    watched = Watched(context, dashboard)
    page = watched.open("/sweeps/1")
    expect(page.locator("#progress .lead")).to_contain_text("running")
    work()
    expect(page.locator("#progress .lead")).to_contain_text("done", timeout=20_000)
    expect(page.locator("table.models")).to_contain_text("passes")
    watched.check()
    context.close()


def test_reading_needs_no_script(chromium: Browser, dashboard: str, sweep: Sweep) -> None:
    sweep(MODEL)
    context = chromium.new_context(java_script_enabled=False)
    watched = Watched(context, dashboard)
    page = watched.open("/models?q=albert")
    page.get_by_role("link", name=MODEL).click()
    expect(page.locator(".verdict")).to_contain_text("waits for your review")
    page.get_by_role("link", name="Review candidate 1").click()
    expect(page.locator("#evidence")).to_contain_text("passed on 8 cases")
    watched.check()
    context.close()


def test_a_review_needs_no_mouse(chromium: Browser, dashboard: str, sweep: Sweep, login_token: str) -> None:
    sweep(MODEL)
    context = chromium.new_context()
    watched = Watched(context, dashboard)
    page = log_in(watched, login_token)
    watched.open("/review")
    press(page, "j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Candidate 1")
    press(page, "c")
    expect(page.locator(".lead")).to_contain_text("claimed by local")
    press(page, "j")
    expect(page.locator(".patch.here h3")).to_contain_text("P56")
    press(page, "r")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("The bound is too wide")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("rejected")
    expect(page.locator("#decide")).to_contain_text("The bound is too wide")
    watched.check()
    context.close()


def test_whoever_was_slower_is_told_and_nothing_is_lost(
    chromium: Browser, dashboard: str, sweep: Sweep, login_token: str
) -> None:
    sweep(MODEL)
    context = chromium.new_context()
    page = log_in(Watched(context, dashboard), login_token)
    slower = Watched(context, dashboard).open("/review/1")
    page.goto(f"{dashboard}/review/1")
    page.get_by_label("Reason").fill("Mathematics and evidence agree")
    page.get_by_role("button", name="Approve and release").click()
    expect(page.locator(".lead")).to_contain_text("released")
    slower.get_by_label("Reason").fill("Too late")
    slower.get_by_role("button", name="Reject for good").click()
    expect(slower.get_by_role("main")).to_contain_text("does not wait for a decision")
    slower.get_by_role("link", name="Read it again").click()
    expect(slower.locator(".lead")).to_contain_text("released")
    context.close()


def test_a_session_that_ended_leads_to_the_log_in(
    chromium: Browser, dashboard: str, sweep: Sweep, login_token: str
) -> None:
    sweep(MODEL)
    context = chromium.new_context()
    watched = Watched(context, dashboard)
    page = log_in(watched, login_token)
    watched.open("/review/1")
    page.get_by_label("Reason").fill("Mathematics and evidence agree")
    context.clear_cookies()
    page.get_by_role("button", name="Approve and release").click()
    expect(page.get_by_role("main").get_by_role("link", name="Log in")).to_be_visible()
    context.close()


def test_hostile_texts_run_nowhere(chromium: Browser, dashboard: str, sweep: Sweep, login_token: str) -> None:
    sweep("a/mpnet-hostile", "x/<img src=x onerror=document.title='owned'>-hostile")
    context = chromium.new_context()
    watched = Watched(context, dashboard)
    page = log_in(watched, login_token)
    for path in (*PATHS, "/models/a/mpnet-hostile", "/review/1"):
        if path != f"/models/{MODEL}":
            watched.open(path)
            assert "owned" not in page.title(), path
            assert page.locator("img").count() == 0, path
    watched.check()
    context.close()
