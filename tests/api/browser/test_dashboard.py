"""What people do on the pages, in a real browser. What it says and whom it asks is checked by the fixture `visitor`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import update

from pipeline.database.models import LoginSession
from pipeline.database.unit_of_work import database_now, unit_of_work

from ..conftest import drain
from .conftest import MODEL, RELEASED, Story, Watched, press

Visit = Callable[..., Watched]
SIZES = {"wide": {"width": 1280, "height": 850}, "phone": {"width": 390, "height": 850}}

pytestmark = pytest.mark.browser


def decide(page: Page, button: str, reason: str) -> None:
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name=button).click()


@pytest.mark.parametrize("size", SIZES)
def test_from_the_link_to_a_release(story: str, visitor: Visit, login_link: str, size: str) -> None:
    page = visitor(story, viewport=SIZES[size]).open(login_link)
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    expect(page.locator("h1")).to_contain_text("models run on the simulated Spyre")
    page.get_by_role("main").get_by_role("link", name="candidates").click()
    page.get_by_role("link", name=f"1: {MODEL}").click()
    decide(page, "Approve and release", "Mathematics and evidence agree")
    expect(page.locator(".lead")).to_contain_text("released")
    page.get_by_role("link", name="Adapter", exact=False).last.click()
    expect(page.locator("h1")).to_contain_text("albert")


# --- each page's main task
def test_the_overview_leads_to_what_blocks_most(story: str, visitor: Visit) -> None:
    page = visitor(story).open("/")
    expect(page.get_by_role("region", name="Cheapest sets")).to_be_visible()
    page.locator("#above").get_by_role("link", name="aten.").click()
    expect(page.locator(".chips .on")).to_contain_text("op aten.")
    expect(page.get_by_role("link", name=MODEL)).to_be_visible()


def test_the_list_is_searched_sorted_and_its_columns_chosen(story: str, visitor: Visit) -> None:
    page = visitor(story).open("/models")
    page.get_by_role("searchbox").press_sequentially("stock")
    expect(page.get_by_role("link", name=MODEL)).to_have_count(0)
    expect(page.get_by_role("link", name="acme/bert-stock-real")).to_be_visible()
    page.wait_for_url("**/models?q=stock&**")
    page.locator("summary", has_text="Columns and order").click()
    page.get_by_label("Family", exact=True).check()
    expect(page.get_by_role("columnheader", name="Family")).to_be_visible()
    page.locator("summary", has_text="Columns and order").click()
    page.get_by_role("columnheader", name="Family").get_by_role("link").click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Family")
    page.get_by_role("columnheader", name="Family").get_by_role("link").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Family")
    with page.expect_download() as found:
        page.get_by_role("link", name="All of these as CSV").click()
    assert found.value.suggested_filename == "models.csv"


def test_a_model_gives_its_code_and_its_failures(story: str, visitor: Visit) -> None:
    watched = visitor(story, permissions=["clipboard-read", "clipboard-write"])
    page = watched.open(f"/models/{RELEASED}")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "enable_sentence_transformers" in page.evaluate("navigator.clipboard.readText()")
    page = watched.open(f"/models/{MODEL}")
    page.get_by_text("Source, transformers/activations.py:66").click()
    expect(page.locator(".finding .gone").first).to_be_visible()


def test_a_request_leads_to_a_page_that_follows_it(story: str, visitor: Visit) -> None:
    page = visitor(story, reviewer="asker").open("/requests?model=c/xlm-unsure")
    page.get_by_role("button", name="Request").click()
    expect(page.locator("h1")).to_have_text("c/xlm-unsure")
    drain()
    expect(page.locator("#request .lead")).to_contain_text("unknown", timeout=20_000)


def test_an_adapter_is_withdrawn(story: str, visitor: Visit) -> None:
    page = visitor(story, reviewer="keeper").open("/adapters")
    page.get_by_role("main").locator("table").get_by_role("link").first.click()
    page.get_by_text("Withdraw it").click()
    page.get_by_label("Why").fill("A customer saw wrong ranks")
    page.get_by_role("button", name="Withdraw", exact=True).click()
    expect(page.locator(".lead")).to_contain_text("withdrawn")


def test_sweeps_and_profiles_are_compared(story: str, told: Story, visitor: Visit) -> None:
    watched = visitor(story)
    page = watched.open("/sweeps")
    page.get_by_label("Compare sweep").select_option("1")
    page.get_by_label("with sweep").select_option(str(told.sweep))
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("group", name="Change").get_by_role("link", name="only in the first").click()
    expect(page.locator("table.models .status").first).to_contain_text("only in the first")
    page = watched.open("/profiles")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/profiles/compare?**")
    expect(page.locator("h1")).to_be_visible()


def test_a_token_is_made_and_ended_and_the_audit_is_narrowed(story: str, visitor: Visit) -> None:
    watched = visitor(story, reviewer="owner")
    page = watched.open("/settings")
    page.get_by_label("What the token is for").fill("nightly export")
    page.get_by_role("button", name="Make a token").click()
    expect(page.locator("#token")).to_be_visible()
    page = watched.open("/settings")
    page.get_by_role("button", name="End token nightly export").click()
    expect(page.get_by_role("button", name="End token nightly export")).to_have_count(0)
    page = watched.open("/audit")
    page.get_by_role("group", name="About").get_by_role("link", name="adapters").click()
    expect(page.get_by_role("region", name="What happened")).to_contain_text("released")


# --- following what runs
@pytest.mark.parametrize("where", ["the sweep's page", "the overview"])
def test_a_running_sweep_is_followed(story: str, told: Story, visitor: Visit, where: str) -> None:
    path, lead = {
        "the sweep's page": (f"/sweeps/{told.sweep}", "#progress .lead"),
        "the overview": ("/", "#sweep"),
    }[where]
    page = visitor(story).open(path)
    expect(page.locator("progress")).to_be_visible()
    drain()
    expect(page.locator("progress")).to_have_count(0, timeout=30_000)
    expect(page.locator(lead)).to_be_visible()


# --- reviewing
def test_a_review_needs_no_mouse(story: str, visitor: Visit) -> None:
    page = visitor(story, reviewer="hands").open("/review")
    press(page, "j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Candidate 1")
    press(page, "?")
    expect(page.get_by_role("dialog")).to_contain_text("approve")
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press(page, "c")
    expect(page.locator(".lead")).to_contain_text("claimed by hands")
    press(page, "j")
    expect(page.locator(".patch.here h3")).to_contain_text("P56")
    press(page, "r")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("The bound is too wide: j, k, a, r and ? are only letters here")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("rejected")
    expect(page.locator("#decide")).to_contain_text("The bound is too wide: j, k, a, r and ? are only letters here")


def test_two_reviewers_at_once_see_each_other_and_one_decides(story: str, visitor: Visit) -> None:
    first, second = (visitor(story, reviewer=name).open("/review/1") for name in ("first", "second"))
    first.get_by_role("button", name="Claim for 30 min").click()
    expect(first.locator(".lead")).to_contain_text("claimed by first")
    decide(second, "Approve and release", "I was here too")
    expect(second.get_by_role("main")).to_contain_text("Another reviewer is at work on it")
    second.get_by_role("link", name="Read it again").click()
    expect(second.locator("#decide")).to_contain_text("first is at work on it")
    expect(second.get_by_role("button", name="Approve and release")).to_have_count(0)
    decide(first, "Ask for changes", "State the bound")
    expect(first.locator(".lead")).to_contain_text("changes asked for")
    second.reload()
    expect(second.locator("#decide")).to_contain_text("first: changes. State the bound")


def test_whoever_was_slower_is_told_and_nothing_is_lost(story: str, visitor: Visit) -> None:
    first, slower = (visitor(story, reviewer=name).open("/review/1") for name in ("first", "slower"))
    decide(first, "Approve and release", "Mathematics and evidence agree")
    expect(first.locator(".lead")).to_contain_text("released")
    decide(slower, "Reject for good", "Too late")
    expect(slower.get_by_role("main")).to_contain_text("does not wait for a decision")
    slower.get_by_role("link", name="Read it again").click()
    expect(slower.locator(".lead")).to_contain_text("released")


def test_a_session_that_ended_decides_nothing_and_leads_to_the_log_in(story: str, visitor: Visit) -> None:
    page = visitor(story, reviewer="tired").open("/review/1")
    page.get_by_label("Reason").fill("Mathematics and evidence agree")
    with unit_of_work() as session:
        session.execute(update(LoginSession).values(expires_at=database_now(session) - timedelta(seconds=1)))
    page.get_by_role("button", name="Approve and release").click()
    expect(page.get_by_role("main").get_by_role("link", name="Log in")).to_be_visible()
    page.goto(f"{story}/review/1")
    expect(page.locator(".lead")).to_contain_text("waits for review")
    expect(page.get_by_role("link", name="Log in to decide")).to_be_visible()
    page.goto(f"{story}/models")
    expect(page.locator("table.models")).to_be_visible()
