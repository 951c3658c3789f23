"""The dashboard without script: every page, its frame, hostile texts, filters in the address, decisions by form."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from fastapi.testclient import TestClient

from pipeline.database.models import PrincipalKind, Role, SessionKind
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review.repository import get_candidate
from pipeline.settings import get_settings
from pipeline.sweeps.models import Checkpoint
from pipeline.verification.selftest.stored import store_report
from pipeline.work.models import Run

Sweep = Callable[..., int]
FOOTER = "Simulated Spyre, profile-2026-08; verdicts hold for this profile, not for a card. Not an IBM product."
MODEL = "acme/albert-one"
PAGES = (
    "/", "/models", f"/models/{MODEL}", "/review", "/review?state=all", "/review/1", "/requests", "/adapters",
    "/sweeps", "/sweeps/1", "/sweeps/compare?first=1&second=1", "/coverage", "/coverage?by=op",
    "/coverage?by=release", "/ops", "/profiles", "/profiles/profile-2026-08",
    "/profiles/compare?a=profile-2026-04&b=profile-2026-08", "/login", "/nope",
    "/rules", "/scores", "/audit", "/audit?kind=candidate", "/settings",
    "/models?columns=family&columns=verified&stale=yes",
)  # fmt: skip


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def csrf_of(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return found.group(1)


def seen_of(page: str) -> str:
    found = re.search(r'name="seen" value="([0-9a-f]{64})"', page)
    assert found is not None
    return found.group(1)


@pytest.fixture
def story(sweep: Sweep, browser: TestClient) -> TestClient:
    """A browser that is logged in, on an installation with one of everything."""
    sweep(MODEL, "acme/bert-stock-real", "b/nomic-remote", "c/xlm-unsure", "d/scripted-four")
    return browser


def test_every_page_names_simulator_and_profile_and_is_sound(story: TestClient) -> None:
    for path in PAGES:
        page = story.get(path)
        assert page.status_code == (404 if path == "/nope" else 200), path
        assert FOOTER in page.text, path
        check_structure(path, page.text)


def check_structure(path: str, page: str) -> None:
    elements = Elements(page)
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids)), path
    assert len(elements.named("h1")) == 1, path
    assert elements.named("html")[0]["lang"] == "en"
    assert not any("style" in attributes for _, attributes in elements.found), path
    assert not any(name.startswith("on") for _, attributes in elements.found for name in attributes), path
    assert all(script.get("src", "").startswith("/static/") for script in elements.named("script")), path
    assert all(header.get("scope") for header in elements.named("th")), path
    posts = page.count('<form method="post"') + len(re.findall(r'<form class="[^"]*" method="post"', page))
    assert page.count('name="csrf"') == posts, path


def test_the_overview_answers_the_four_questions(story: TestClient) -> None:
    page = story.get("/").text
    assert "<strong>1 of 5 models run</strong>" in page
    assert '<a href="/review">2 candidates</a>' in page
    assert "aten.pow.Tensor_Scalar" in page
    assert "1 own weights" in page
    assert "0 synthetic" in page
    assert "Where models stop" in page


def test_coverage_by_family_is_a_table_with_both_weightings_and_a_map_of_profiles(story: TestClient) -> None:
    page = story.get("/coverage").text
    row = re.search(r'<th scope="row" class="op">bert-[^<]*</th>.*?</tr>', page, re.S)
    assert row is not None
    cells = re.findall(r'<td class="num">(?:<a [^>]*>)?([^<]*)', row.group())
    assert cells == ["1", "1", "1", "0", "500\u202fk", "100\u202f%"]
    assert '<td class="h5">1 of 1</td>' in page
    assert '<td class="h0">0 of 1</td>' in page
    assert "aten.pow.Tensor_Scalar" in story.get("/coverage", params={"by": "op"}).text
    assert story.get("/coverage", params={"by": "moon"}).status_code == 422


def test_causes_are_ranked_with_the_cheapest_sets(story: TestClient) -> None:
    page = story.get("/ops").text
    assert "wrong values, no error <code>aten.pow.Tensor_Scalar</code>" in page
    half = re.search(r"50 % of the downloads</th>\s*<td>(\d) causes", page)
    assert half is not None
    assert half.group(1) == "3"  # the two models that pow blocks have two more causes each
    assert "The models with known causes do not add up to it." in page


def test_two_sweeps_are_compared_with_what_still_fails_first(story: TestClient, sweep: Sweep) -> None:
    sweep(MODEL, "e/bert-stock-new")
    page = story.get("/sweeps/compare", params={"first": 1, "second": 2}).text
    assert re.search(r"0 fails now, 1 still fails, 0 passes now, 1 only in the second, 4 only in the first", page)
    assert page.index(MODEL) < page.index("e/bert-stock-new")
    assert '<form class="filters" method="get" action="/sweeps/compare">' in story.get("/sweeps").text


def test_the_time_that_a_running_sweep_still_takes_is_told_from_its_pace_or_not_at_all(
    sweep: Sweep, browser: TestClient, work: Callable[[], int]
) -> None:
    sweep(MODEL, "e/bert-stock-new", finish=False)
    for path in ("/", "/sweeps/1"):
        assert "How long the rest takes is not known: no step ended in the last half hour." in browser.get(path).text
    work()
    assert "How long the rest takes" not in browser.get("/sweeps/1").text


def test_two_profiles_are_compared_key_by_key(story: TestClient) -> None:
    page = story.get("/profiles/compare", params={"a": "profile-2026-04", "b": "latest"}).text
    assert "<code>errata.<wbr>E-34</code>" in page
    assert "Nothing differs." in story.get("/profiles/compare", params={"a": "latest", "b": "latest"}).text
    unknown = story.get("/profiles/profile-1999-01")
    assert unknown.status_code == 404
    assert "choose one of profile-2025-11" in unknown.text


def test_a_model_page_shows_source_lines_places_and_what_could_mend_them(story: TestClient) -> None:
    page = story.get(f"/models/{MODEL}").text
    assert "transformers/activations.py:66" in page
    assert "Could be mended by <code>P01</code>." in page
    assert '<td class="f5">18</td>' in page  # the map of operations: eighteen views in the attention
    assert "Not measured: a diagnosis measures it" in page
    assert re.search(r'<a href="/review/1#evidence">candidate 1</a>', page)
    assert '<span class="tag">today&#39;s</span>' in page or '<span class="tag">today\'s</span>' in page


def test_a_model_page_says_where_silent_causes_were_not_looked_for(story: TestClient) -> None:
    with unit_of_work() as session:
        run = session.query(Run).filter_by(stage="diagnose", state="done").order_by(Run.id.desc()).first()
        assert run is not None
        name = session.get_one(Checkpoint, run.checkpoint_id).model.name
        run.evidence = {"curves": {}, "unsearched": [{"input": "whole", "block": "h.0", "reason": "no <isinf>"}]}
    page = story.get(f"/models/{name}").text
    assert "Silent causes were not looked for where the device refuses: from h.0 on (input whole): no &lt;isinf" in page
    assert "Not measured: the device refuses the first block of every input." in page
    assert "Not measured: a diagnosis measures it" not in page


def test_the_audit_tells_who_decided_what_and_why(story: TestClient) -> None:
    page = story.get("/review/1").text
    form = {"csrf": csrf_of(page), "seen": seen_of(page), "reason": "the formula is wrong for negative inputs"}
    assert story.post("/review/1/reject", data=form).status_code == 303
    audit = story.get("/audit").text
    assert "the formula is wrong for negative inputs" in audit
    assert re.search(r'<td class="op">local</td><td><a href="/review/1">candidate 1</a></td><td>reject</td>', audit)
    assert '<a href="/review/1">candidate 1</a></td><td>rejected</td>' in audit


def test_a_token_is_shown_once_works_and_can_be_ended(story: TestClient) -> None:
    form = {"csrf": csrf_of(story.get("/settings").text), "label": "nightly <export>"}
    made = story.post("/settings/tokens", data=form)
    token = re.search(r'<pre id="token"><code>([^<]+)</code>', made.text)
    assert token is not None
    assert made.headers["cache-control"] == "no-store"
    page = story.get("/settings").text
    assert token.group(1) not in page
    assert "nightly &lt;export&gt;" in page
    bearer = {"Authorization": f"Bearer {token.group(1)}"}
    cookies = dict(story.cookies)
    story.cookies.clear()
    assert story.get(f"/api/v1/models/{MODEL}", headers=bearer).status_code == 200
    story.cookies.update(cookies)
    number = re.search(r"<td>token</td>.*?/settings/sessions/(\d+)/revoke", page, re.S)
    assert number is not None
    ended = story.post(f"/settings/sessions/{number.group(1)}/revoke", data={"csrf": csrf_of(page)})
    assert ended.status_code == 303
    story.cookies.clear()
    assert story.get(f"/api/v1/models/{MODEL}", headers=bearer).status_code == 401


def test_nobody_gets_a_token_and_nobody_ends_anothers_session(story: TestClient) -> None:
    number = re.search(r"/settings/sessions/(\d+)/revoke", story.get("/settings").text)
    assert number is not None
    second = log_in_as("second", story)
    form = {"csrf": csrf_of(second.get("/settings").text)}
    assert second.post(f"/settings/sessions/{number.group(1)}/revoke", data=form).status_code == 404
    second.cookies.clear()
    csrf = csrf_of(second.get("/requests").text)
    assert second.post("/settings/tokens", data={"csrf": csrf, "label": "mine"}).status_code == 401


def test_scores_that_were_not_measured_say_so(story: TestClient) -> None:
    page = story.get("/scores").text
    assert page.count("Not measured.") == 2
    assert "No language model was called: the rules cost nothing." in page
    overview = story.get("/").text
    assert overview.count('<p class="big">Not measured</p>') == 2
    assert "Only one listing is stored" in overview


def test_published_error_rates_are_counts_by_class(story: TestClient) -> None:
    rate = {"class": "all", "wrong": 120, "false_accepts": 0, "honest": 90, "false_rejects": 1}
    report = {"date": "2026-11-30T08:00:00+00:00", "full": False, "seconds": 61.0, "passed": 209, "failed": 1}
    store_report(get_settings().data_dir, {**report, "rates": [rate]})
    assert "0 of 120 wrong accepted" in story.get("/").text
    assert '<td class="num">1 of 90</td>' in story.get("/scores").text


def test_an_error_says_once_what_is_wrong_and_then_what_to_do(browser: TestClient) -> None:
    main = browser.get("/nope").text.partition("<main")[2]
    assert main.count("Not Found") == 1
    assert "Check the address; the pages in the menu list everything there is." in main


def test_an_empty_installation_says_what_to_do(browser: TestClient) -> None:
    assert "spyre-factory sweep" in browser.get("/").text
    assert "No candidate waits." in browser.get("/review").text
    assert "No adapter is released yet." in browser.get("/adapters").text
    assert "No model is listed yet." in browser.get("/coverage").text
    assert "No cause is known." in browser.get("/ops").text


def test_a_model_page_gives_verdict_failures_and_code(story: TestClient) -> None:
    waiting = story.get(f"/models/{MODEL}").text
    assert "candidate 1 would make it pass and waits for your review" in waiting
    assert "activations.py:66" in waiting
    passing = story.get("/models/acme/bert-stock-real").text
    assert "Runs on the simulated Spyre, profile-2026-08 as it is" in passing
    assert "lowest token cosine 0.99912" in passing
    assert "SentenceTransformer(&#34;acme/bert-stock-real&#34;, backend=&#34;spyre&#34;)" in passing
    assert re.search(r'href="/api/v1/artefacts/[0-9a-f]{64}"', passing)


def test_status_is_told_by_word_and_sign(story: TestClient) -> None:
    page = story.get("/models").text
    for sign, word in (("✓", "passes"), ("◐", "waits for review"), ("✗", "fails"), ("?", "unknown")):
        assert f'<span aria-hidden="true">{sign}</span> {word}' in page


def test_filters_live_in_the_address(story: TestClient) -> None:
    page = story.get("/models", params={"q": "ACME", "outcome": "passed", "sort": "name"}).text
    assert "acme/bert-stock-real</a>" in page
    assert f"{MODEL}</a>" not in page
    assert 'value="ACME"' in page
    assert "q=ACME&amp;outcome=failed&amp;sort=name" in page
    assert "/requests?model=zzz" in story.get("/models", params={"q": "zzz"}).text
    assert story.get("/models", params={"colour": "red"}).status_code == 422


def test_a_long_list_has_pages(browser: TestClient, entries: Callable[..., int]) -> None:
    entries([(f"a/model-{n:03}", 1000 - n) for n in range(130)], finish=False)
    first = browser.get("/models").text
    following = re.search(r'href="([^"]+)" rel="next"', first)
    assert following is not None
    second = browser.get(following.group(1).replace("&amp;", "&")).text
    shown = [set(re.findall(r"a/model-\d{3}(?=</a>)", page)) for page in (first, second)]
    assert (len(shown[0]), len(shown[1])) == (100, 30)
    assert not shown[0] & shown[1]


def test_the_review_page_shows_what_a_reviewer_needs(story: TestClient) -> None:
    page = story.get("/review/1").text
    assert "torch.pow(input, 3.0)" in page  # the stock line
    assert "v2 = aten.mul.Tensor(v1, x)" in page  # what replaces it
    assert "pow_cube: pow(x, 3)" in page  # the proof
    assert "zeros add nothing to QK^T" in page  # the mathematics
    assert "uniform_attention" in page  # a control
    assert "Cases: 8 passes; not applicable: 2." in page
    assert "glu_swapped: no gated feed-forward" in page  # what had nothing to act on is shown
    assert "ranking: synthetic weights rank nothing" in page
    assert "Same mathematics: 1 patch judged before the model ran" in page
    assert "4 of 4" in page
    assert "0 not counted" in page
    assert "1 model" in page
    assert "def pad_rows(" in page  # what a pattern of the library does, beside the stock function it is about
    assert "What it relies on: the embeddings, which decide what a padded position means." in page
    assert "0.9980 to 1.0030" in page  # the norm ratio
    assert page.count('<svg class="dot"') == 3 * 6 + 2 * 2 + 4 + 1  # cases on device and CPU, controls, the key


def test_where_stock_has_no_line_to_show_no_half_of_the_page_stands_empty(story: TestClient) -> None:
    patches = story.get("/review/1").text.split('<article class="card patch"')[1:]
    assert {"No single line" in patch for patch in patches} == {True, False}
    for patch in patches:
        assert ('<div class="diff whole">' in patch) is ("No single line" in patch)


def test_scripted_candidates_say_so_on_every_page_that_shows_them(story: TestClient) -> None:
    assert "counts in no figure" in story.get("/review/2").text
    assert '<span class="tag">scripted</span>' in story.get("/review").text
    assert '<span class="tag">scripted</span>' in story.get("/models/d/scripted-four").text
    assert "scripted" in story.get("/").text


def test_hostile_texts_are_shown_never_run(sweep: Sweep, browser: TestClient, entries: Callable[..., int]) -> None:
    hostile = "<script>alert(1)</script>"
    sweep("a/mpnet-hostile")
    entries([(f"x/{hostile}", 5), ('"onmouseover="alert(1)', 4)], finish=False)
    paths = ("/", "/models", "/models/a/mpnet-hostile", f"/models/x/{hostile}", "/review", "/review/1", "/sweeps/1")
    for path in (*paths, "/sweeps/2", f"/models?q={hostile}", f"/requests?model={hostile}", f"/login?t={hostile}"):
        page = browser.get(path)
        assert page.status_code == 200, path
        check_structure(path, page.text)
        assert len(Elements(page.text).named("script")) == 1, path
        assert len(Elements(page.text).named("img")) == 0, path


def test_hostile_addresses_and_reasons_are_escaped_too(story: TestClient) -> None:
    missing = story.get("/models/<script>alert(1)</script>")
    assert missing.status_code == 404
    assert "<script>alert" not in missing.text
    page = story.get("/review/1").text
    form = {"csrf": csrf_of(page), "seen": seen_of(page), "reason": "<img src=x onerror=alert(1)>"}
    assert story.post("/review/1/changes", data=form).status_code == 303
    assert "<img" not in story.get("/review/1").text


# --- decisions by form


def test_an_approval_by_form_releases_what_was_seen(story: TestClient, work: Callable[[], int]) -> None:
    page = story.get("/review/1").text
    form = {"csrf": csrf_of(page), "seen": seen_of(page), "reason": "Mathematics and evidence agree"}
    done = story.post("/review/1/approve", data=form)
    assert (done.status_code, done.headers["location"]) == (303, "/review/1")
    work()
    assert "released" in story.get("/review/1").text
    assert "<strong>2 of 5 models run</strong>" in story.get("/").text
    model = story.get(f"/models/{MODEL}").text
    assert "spyre_manifest" in model
    assert "Models that pass with it" in story.get("/adapters/1").text


def test_an_approval_of_what_has_changed_is_refused_with_what_to_do(story: TestClient) -> None:
    page = story.get("/review/1").text
    with unit_of_work() as session:
        get_candidate(session, 1).evidence[0].digest = "f" * 64
    done = story.post("/review/1/approve", data={"csrf": csrf_of(page), "seen": seen_of(page), "reason": "ok"})
    assert done.status_code == 409
    assert "Read it again" in done.text
    assert state_of(1) == "waiting"


def state_of(number: int) -> str:
    with reading() as session:
        return get_candidate(session, number).state


@pytest.mark.parametrize("form", [{"reason": ""}, {"reason": "  "}, {}])
def test_a_decision_by_form_needs_a_reason(story: TestClient, form: dict[str, str]) -> None:
    page = story.get("/review/1").text
    done = story.post("/review/1/reject", data={"csrf": csrf_of(page), "seen": seen_of(page), **form})
    assert done.status_code == 422
    assert state_of(1) == "waiting"


def test_striking_by_form_shows_the_smaller_set(story: TestClient) -> None:
    page = story.get("/review/1").text
    form = {"csrf": csrf_of(page), "seen": seen_of(page), "reason": "not needed", "position": "4"}
    done = story.post("/review/1/strike", data=form)
    assert done.headers["location"] == "/review/3"
    page = story.get("/review/3").text
    assert "Smaller set of" in page
    assert 'Against <a href="/review/1">candidate 1</a>' in page
    assert '<span class="gone">− P63: exact, drafted by rules</span>' in page


def test_a_claim_shows_and_keeps_another_reviewer_away(story: TestClient) -> None:
    page = story.get("/review/1").text
    story.post("/review/1/claim", data={"csrf": csrf_of(page), "seen": seen_of(page), "reason": ""})
    assert "claimed by local" in story.get("/review").text
    second = log_in_as("second", story)
    other = second.get("/review/1").text
    assert "local is at work on it" in other
    assert "Approve and release" not in other
    done = second.post("/review/1/approve", data={"csrf": csrf_of(other), "seen": seen_of(page), "reason": "me"})
    assert done.status_code == 409
    assert "Another reviewer is at work on it" in done.text


def log_in_as(name: str, browser: TestClient) -> TestClient:
    """The same browser, now logged in as another reviewer."""
    from pipeline.database.accounts import ensure_principal, issue

    browser.cookies.clear()
    with unit_of_work() as session:
        principal = ensure_principal(session, name, PrincipalKind.HUMAN, [Role.REVIEWER, Role.VIEWER])
        browser.cookies.set("spyre_session_8000", issue(session, principal, SessionKind.COOKIE, "test").token)
    return browser


def test_nobody_may_look_at_a_candidate_but_not_decide(story: TestClient) -> None:
    story.cookies.clear()
    page = story.get("/review/1").text
    assert "Log in to decide" in page
    assert "Approve and release" not in page


def test_an_adapter_can_be_withdrawn_with_a_reason(story: TestClient, work: Callable[[], int]) -> None:
    page = story.get("/review/1").text
    story.post("/review/1/approve", data={"csrf": csrf_of(page), "seen": seen_of(page), "reason": "ok"})
    work()
    form = {"csrf": csrf_of(story.get("/adapters/1").text), "reason": "a customer saw wrong ranks"}
    assert story.post("/adapters/1/withdraw", data=form).status_code == 303
    work()
    page = story.get("/adapters/1").text
    assert "withdrawn" in page
    assert "a customer saw wrong ranks" in page
    assert "<strong>1 of 5 models run</strong>" in story.get("/").text


# --- requests by form


def test_a_request_by_form_leads_to_its_page(sweep: Sweep, browser: TestClient) -> None:
    sweep(MODEL, finish=False)
    page = browser.get("/requests", params={"model": MODEL}).text
    key = re.search(r'name="key" value="([^"]+)"', page)
    assert key is not None
    form = {"csrf": csrf_of(page), "model": MODEL, "note": "", "key": key.group(1)}
    first, second = (browser.post("/requests", data=form) for _ in range(2))
    assert first.headers["location"] == second.headers["location"]
    shown = browser.get(first.headers["location"]).text
    assert "Place 1 in the queue" in shown
    assert 'data-live="3000"' in shown
    assert MODEL in browser.get("/requests").text


def test_nobody_may_request_on_loopback(sweep: Sweep, client: TestClient) -> None:
    sweep(MODEL, finish=False)
    page = client.get("/requests", headers={"Accept": "text/html"}).text
    form = {"csrf": csrf_of(page), "model": MODEL, "key": "k" * 24}
    assert client.post("/requests", data=form, headers={"Origin": "http://127.0.0.1:8000"}).status_code == 303
