"""Nothing overlaps, nothing is cut off: every page, wide and narrow, with long names and words of German length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from api.pages.rendering import static_files

from .conftest import Story, Watched

pytestmark = pytest.mark.browser

LENGTHEN = """() => {
    const words = document.querySelectorAll("th, label > span, button, .badge, nav a, dt, h2, .chips a");
    for (const element of words)
        for (const node of element.childNodes)
            if (node.nodeType === 3 && node.data.trim())
                node.data = node.data.trimEnd() + " " + "übergänge".slice(0, Math.ceil(node.data.trim().length * 0.4));
}"""
"""German labels are about two fifths longer than English ones."""

PROBLEMS = """() => {
    const found = [];
    const named = (element) => element.tagName.toLowerCase() + "." + element.className + " " +
        element.textContent.trim().slice(0, 40);
    const seen = (element) => { const style = getComputedStyle(element);
        return style.visibility !== "hidden" && style.position !== "absolute" && element.getClientRects().length > 0; };
    if (document.documentElement.scrollWidth > innerWidth)
        found.push("the page scrolls sideways to " + document.documentElement.scrollWidth);
    for (const element of document.querySelectorAll("body, body *")) {
        if (!seen(element) || element.closest("svg") || element.closest(".sr, thead.sr, .skip")) continue;
        const hides = ["hidden", "clip"].includes(getComputedStyle(element).overflowX);
        const cut = element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
        if (hides && cut && element.clientWidth > 0 && !element.title) found.push("cut off: " + named(element));
        const children = [...element.children].filter((child) => seen(child) &&
            !["inline", "contents"].includes(getComputedStyle(child).display) && !child.closest("svg"));
        const boxes = children.map((child) => child.getBoundingClientRect());
        for (let i = 1; i < boxes.length; i++) {
            const [a, b] = [boxes[i - 1], boxes[i]];
            const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (wide > 1 && high > 1) found.push("overlap: " + named(children[i - 1]) + " and " + named(children[i]));
        }
    }
    return found.slice(0, 8);
}"""


VIEWS = (("wide", 1280, "light"), ("wide", 1280, "dark"), ("phone", 390, "light"), ("phone", 390, "dark"),
         ("small phone", 320, "light"))  # fmt: skip
WIDTHS = tuple(view for view in VIEWS if view[2] == "light")
"""Longer words change widths; what a theme changes was looked at before."""


def test_nothing_overlaps_and_nothing_is_cut_off(story: str, told: Story, visitor: Callable[..., Watched]) -> None:
    """Each page, in each viewport and theme; then all of it again with longer words."""
    watched = visitor(story, reviewer="eyes")
    found: dict[str, Any] = {}
    for path in told.paths:
        page = watched.open(path)
        found |= {f"{path} {how}": said for how, said in _looked_at(page)}
        page.evaluate(LENGTHEN)
        found |= {f"{path} {how}, with longer words": said for how, said in _looked_at(page, WIDTHS)}
    assert {how: said for how, said in found.items() if said} == {}


def _looked_at(page: Page, views: tuple[tuple[str, int, str], ...] = VIEWS) -> Iterator[tuple[str, list[str]]]:
    for name, width, theme in views:
        page.set_viewport_size({"width": width, "height": 850})
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        yield f"{name} {theme}", page.evaluate(PROBLEMS)


OVER_NUMBERS = """() => [...document.querySelectorAll(".code span:has(> b)")].flatMap((line) => {
    const range = document.createRange();
    range.selectNodeContents(line.lastChild);
    const end = line.firstChild.getBoundingClientRect().right;
    const rows = [...range.getClientRects()].filter((box) => box.width > 0);
    return [{ rows: rows.length, over: rows.some((box) => box.left < end - 1) }];
})"""
"""Of each line of code: how many rows it takes, and whether one of them begins below its number."""


def test_a_wrapped_line_of_code_keeps_clear_of_the_numbers(story: str, visitor: Callable[..., Watched]) -> None:
    page = visitor(story, viewport={"width": 390, "height": 850}).open("/review/1")
    lines = page.evaluate(OVER_NUMBERS)
    assert any(line["rows"] > 1 for line in lines)
    assert [line for line in lines if line["over"]] == []


def test_a_table_that_goes_on_has_a_shade_at_its_edge_until_its_end(chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 400, "height": 300})
    sheet = static_files()["app.css"].content.decode()
    table = "<section><div class='scroll'><table><tr><td></table></div></section>"
    page.set_content(f"<style>{sheet} td {{ height: 90px; }}</style>{table}")

    def edge(width: str, left: int) -> bytes:
        page.locator("table").evaluate("(table, width) => { table.style.minWidth = width; }", width)
        page.locator(".scroll").evaluate("(box, left) => { box.scrollLeft = left; }", left)
        box = page.locator(".scroll").bounding_box()
        assert box is not None
        clip = {"x": box["x"] + box["width"] - 20, "y": box["y"] + 30, "width": 10, "height": 10}
        return page.screenshot(clip=clip)  # type: ignore[arg-type]

    fits = edge("100%", 0)
    assert edge("900px", 0) != fits
    assert edge("900px", 900) == fits
    page.close()


def test_the_check_finds_what_it_is_for(chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 400, "height": 400})
    page.set_content(
        "<div style='width:600px'>wide</div><p id='a'>one</p><p style='margin-top:-30px'>two</p>"
        "<div style='overflow:hidden;width:20px;white-space:nowrap'>a long text</div>"
    )
    found = page.evaluate(PROBLEMS)
    assert [text.partition(" ")[0] for text in found] == ["the", "overlap:", "cut"]
    page.close()
