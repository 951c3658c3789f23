"""Pictures of every page, light and dark, wide and narrow: `python -m benchmarks.screenshots --out FOLDER`.

Without `--address` the pages are those of a generated database. With it they are those of a running dashboard;
`--login` is then the code of a one-time link, for the pages of a reviewer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from benchmarks.dashboard_server import chromium, prepare, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MODELS = 400
WIDTHS = {"wide": 1280, "narrow": 390}
THEMES = ("light", "dark")
HEIGHT = 850
PAGES = {
    "overview": "/",
    "models": "/models",
    "coverage": "/coverage",
    "operations": "/ops",
    "review": "/review",
    "candidate": "/review/1",
    "rules": "/rules",
    "all-rules": "/rules?state=all",
    "blind": "/blind",
    "requests": "/requests",
    "adapters": "/adapters",
    "adapter": "/adapters/1",
    "sweeps": "/sweeps",
    "sweep": "/sweeps/1",
    "comparison": "/sweeps/compare?first=1&second=2",
    "profiles": "/profiles",
    "profile": "/profiles/latest",
    "profile-diff": "/profiles/compare?a=profile-2026-04&b=latest",
    "scores": "/scores",
    "audit": "/audit",
    "settings": "/settings",
    "login": "/login",
    "problem": "/nope",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pictures; 1 if a page did not answer as it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--address", help="of a running dashboard")
    parser.add_argument("--login", default="", help="the code of a one-time link")
    parser.add_argument("--only", default="", metavar="PAGE,PAGE", help=f"some of: {', '.join(PAGES)}")
    parser.add_argument("--fold", action="store_true", help="only what is seen without scrolling")
    chosen = parser.parse_args(arguments)
    names = [name for name in chosen.only.split(",") if name] or [*PAGES, "model"]
    chosen.out.mkdir(parents=True, exist_ok=True)
    with _dashboard(chosen.address, chosen.login) as (address, code), chromium() as browser:
        failed = list(_pictures(browser, address, code, names, chosen.out, whole=not chosen.fold))
    sys.stdout.write("".join(f"did not answer as it should: {name}\n" for name in failed))
    return 1 if failed else 0


@contextmanager
def _dashboard(address: str | None, code: str) -> Iterator[tuple[str, str]]:
    if address is not None:
        yield address.rstrip("/"), code
        return
    with tempfile.TemporaryDirectory(prefix="spyre-screenshots-") as folder:
        from api.app import create_app

        made = prepare(Path(folder), MODELS)
        with serving(create_app()) as own:
            yield own, made


def _pictures(
    browser: Browser, address: str, code: str, names: Sequence[str], out: Path, *, whole: bool
) -> Iterator[str]:
    """Write them all; the names of pages that failed."""
    state = _logged_in(browser, address, code) if code else None
    for theme in THEMES:
        for word, width in WIDTHS.items():
            context = browser.new_context(
                color_scheme=theme,  # type: ignore[arg-type]
                viewport={"width": width, "height": HEIGHT},
                storage_state=state,  # type: ignore[arg-type]
            )
            page = context.new_page()
            for name in names:
                answer = page.goto(f"{address}{_path(page, address, name)}")
                page.screenshot(path=out / f"{name}-{theme}-{word}.png", full_page=whole)
                if answer is None or answer.status != (404 if name == "problem" else 200):
                    yield f"{name} {theme} {word}"
            context.close()


def _path(page: Page, address: str, name: str) -> str:
    """A page's path; the model is the first of the list."""
    if name != "model":
        return PAGES[name]
    page.goto(f"{address}/models")
    return "/models/" + quote(page.locator("table.models .name a").first.inner_text())


def _logged_in(browser: Browser, address: str, code: str) -> object:
    """The cookies of a session begun by a one-time code."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}/login?t={code}")
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{address}/")
    state = context.storage_state()
    context.close()
    return state


if __name__ == "__main__":
    sys.exit(main())
