"""The fidelity page: `python -m benchmarks.fidelity` prints it, `--write` stores it, `--check` compares.

It is made from the tests that name a fact (`@pytest.mark.fact("E-17")`) as pytest collects them, and from the data
the simulator itself runs on. Every listed test runs in `make test` or `make test-long`, and a test fails if the stored
page is not what this prints: so a claim stays on the page only as long as its test is there and passes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim_backend.errata.catalogue import IDS, load_catalogue

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "simulator-fidelity.md"
TESTED = ("tests/sim_backend", "tests/anchors", "tests/conformance")
# Errata that facts 6.8 names, and the sections that are wanted whole.
MET_BY_EMBEDDINGS = (
    "E-01", "E-02", "E-08", "E-14", "E-15", "E-16", "E-18", "E-19", "E-20", "E-21", "E-22", "E-24", "E-25", "E-51",
    "E-52", "E-61", "E-65", "E-67", "E-68", "E-71",
)  # fmt: skip
ALL_ERRATA = tuple(sorted(IDS))
HEAD = """# Fidelity of the simulated Spyre

What the simulator shows of the device, fact by fact. "Facts" are the project's reading of public sources: nobody here
has a card, so this page says how faithful the simulator is to that reading, not to hardware. Made by
`python -m benchmarks.fidelity --write` from the tests and the profiles; `make test` fails if it is out of date.
"""


class _Collector:
    """A pytest plugin that keeps the facts of every collected test."""

    def __init__(self) -> None:
        self.tests: list[tuple[str, tuple[str, ...]]] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            facts = {fact for marker in item.iter_markers("fact") for fact in marker.args}
            self.tests.append((item.nodeid, tuple(sorted(facts))))


def collected() -> list[tuple[str, tuple[str, ...]]]:
    """(test id, facts it proves) of every test of the simulator. Raises RuntimeError if collection fails."""
    collector, said = _Collector(), io.StringIO()
    folders = [str(ROOT / folder) for folder in TESTED if (ROOT / folder).is_dir()]
    with contextlib.redirect_stdout(said):
        status = pytest.main(["--collect-only", "-q", "-p", "no:randomly", *folders], plugins=[collector])
    if status:
        raise RuntimeError(f"the tests cannot be collected: {said.getvalue()[-2000:]}")
    return collector.tests


def by_fact(tests: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, dict[str, int]]:
    """Fact -> {"tests": of the simulator, "anchors": published stimuli}."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, facts in tests:
        kind = "anchors" if name.startswith("tests/anchors") else "tests"
        for fact in facts:
            counts[fact][kind] += 1
    return {fact: dict(found) for fact, found in counts.items()}


def catalogue() -> dict[str, dict[str, Any]]:
    """Erratum -> its entry, as the simulator reads it."""
    return {erratum: asdict(entry) for erratum, entry in load_catalogue().items()}


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; bars in cells are escaped."""
    lines = [[str(c).replace("|", "\\|").replace("\n", " ").strip() for c in row] for row in (head, *rows)]
    rule = ["---"] * len(lines[0])
    return "\n".join("| " + " | ".join(row) + " |" for row in (lines[0], rule, *lines[1:]))


def short(profiles: Iterable[str]) -> str:
    """ "04 08 09" for the profiles' names."""
    return " ".join(name.removeprefix("profile-").removeprefix("2026-").replace("2025-11", "11") for name in profiles)


def errata_section(entries: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Every erratum with its state and how many tests and published stimuli show it."""
    rows = [
        (
            erratum, entry["title"], entry["kind"], short(entry["profiles"]), entry["modelled"],
            facts.get(erratum, {}).get("tests", 0), facts.get(erratum, {}).get("anchors", 0),
        )
        for erratum, entry in entries.items()
    ]  # fmt: skip
    return table(("Erratum", "Defect", "Kind", "On in", "Modelled", "Tests", "Published stimuli"), rows)


def reasons_section(entries: Mapping[str, Any]) -> str:
    """What is not modelled, or partly, and why."""
    rows = [(e, x["title"], x["modelled"], x["reason"]) for e, x in entries.items() if x["modelled"] != "yes"]
    return table(("Erratum", "Defect", "Modelled", "Reason"), rows)


def parameters_section(entries: Mapping[str, Any]) -> str:
    """Values no source states: of the profiles, then of the errata."""
    documented = yaml.safe_load((ROOT / "sim_backend/profiles/parameters.yaml").read_text(encoding="utf-8"))
    own = [(name, p) for name, p in documented.items()]
    errata = [(f"errata.{e}.{name}", p) for e, x in entries.items() for name, p in (x.get("parameters") or {}).items()]
    rows = [(f"`{name}`", f"`{p['default']}`", p["reason"], p["sensitivity"]) for name, p in (*own, *errata)]
    return table(("Parameter", "Default", "Why", "What it decides"), rows)


def conformance_section() -> str:
    """How many operations of the OpInfo database have each outcome."""
    rows = []
    for path in sorted((ROOT / "tests/conformance/expectations").glob("*.yaml")):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        for form, outcomes in data.items():
            counts = Counter[str]()
            for outcome, ops in outcomes.items():
                counts[outcome if " / " not in outcome else "differs by sample"] += len(ops)
            rows.append((path.stem, form, *(counts[k] for k in OUTCOMES), sum(counts.values())))
    return table(("Profile", "Form", *OUTCOMES, "all"), rows)


OUTCOMES = ("works", "fallback", "raises", "wrong", "dies", "differs by sample", "reference")


def cells_section() -> tuple[str, str]:
    """(a sentence with the share of cells that hold, a table by profile) for the operator table of facts 3.2."""
    sys.path.insert(0, str(ROOT / "tests" / "sim_backend"))
    from table.count import counts  # type: ignore[import-not-found]  # tests are no package

    rows = counts()
    counted, held = sum(r["counted"] for r in rows), sum(r["held"] for r in rows)
    sentence = f"{held} of {counted} cells hold ({100 * held / counted:.1f} %; target 95 %)"
    return sentence, table(
        ("Profile", "Form", "Cells", "Hold", "Excepted, with reason", "`?` (default named)"),
        [(r["profile"], r["form"], r["counted"], r["held"], r["excepted"], r["unknown"]) for r in rows],
    )


def sections_section(facts: Mapping[str, Mapping[str, int]]) -> str:
    """Sections of the facts page other than errata."""
    names = sorted((f for f in facts if re.fullmatch(r"\d+(\.\d+)?", f)), key=lambda f: [int(n) for n in f.split(".")])
    return table(
        ("Section", "Tests", "Published stimuli"),
        [(name, facts[name].get("tests", 0), facts[name].get("anchors", 0)) for name in names],
    )


def problems(entries: Mapping[str, Any], facts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What may not be on the page: errata without an entry, modelled ones without a test, tests of unknown facts."""
    return [
        *(f"{e} has no catalogue entry" for e in ALL_ERRATA if e not in entries),
        *(f"{e} is called modelled and no test names it" for e, x in entries.items()
          if x["modelled"] != "no" and not facts.get(e)),
        *(f"a test names the unknown erratum {f}" for f in facts if f.startswith("E-") and f not in entries),
    ]  # fmt: skip


def page() -> str:
    """The page. Raises ValueError if the tests and the data contradict each other."""
    entries, tests = catalogue(), collected()
    facts = by_fact(tests)
    if wrong := problems(entries, facts):
        raise ValueError("; ".join(wrong))
    cells, cell_table = cells_section()
    modelled = Counter(str(x["modelled"]) for x in entries.values())
    met = sum(entries[e]["modelled"] == "yes" for e in MET_BY_EMBEDDINGS)
    anchors = sum(name.startswith("tests/anchors") for name, _ in tests)
    counts = [
        f"- Operator table (facts 3.2): {cells}.",
        f"- Errata: {modelled['yes']} of {len(entries)} modelled, {modelled['partly']} partly, {modelled['no']} not, "
        f"with reasons below; of those that embedding models trip over (facts 6.8), {met} of {len(MET_BY_EMBEDDINGS)}.",
        f"- Tests of published stimuli and verdicts: {anchors}.",
    ]
    parts = [
        HEAD, "\n".join(counts),
        "## Operator table", cell_table,
        "## Errata", errata_section(entries, facts),
        "## Not modelled, or partly", reasons_section(entries),
        "## Operations of PyTorch's OpInfo database, float16", conformance_section(),
        "## Sections of the facts", sections_section(facts),
        "## Values that no source states", parameters_section(entries),
    ]  # fmt: skip
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> int:
    """Print, store or compare the page; 1 if the stored one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the page in docs/")
    parser.add_argument("--check", action="store_true", help="fail if the stored page differs")
    chosen = parser.parse_args()
    made = page()
    if chosen.write:
        PAGE.write_text(made, encoding="utf-8")
    elif chosen.check:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != made:
            print(f"{PAGE.name} is out of date: run python -m benchmarks.fidelity --write", file=sys.stderr)
            return 1
    else:
        print(made, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
