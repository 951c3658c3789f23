"""What is bundled, as a table for people: `python -m benchmarks.family_table` prints it, `--write` puts it in the docs.

A row per member: the adapter, the stock block it serves, what of its structure the member is for, its patches. It is
read from the adapters' own files; who drafted the patches and the longest verified bucket stand there too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "families.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
HEAD = "| Adapter | Stock block | Heads | Activation | Patches | Drafters | Longest |"


def rows() -> Iterator[str]:
    """The lines of the table, Markdown."""
    from adapters.releases.lookup import bundled_manifests

    yield HEAD
    yield "|" + "---|" * (HEAD.count("|") - 1)
    for adapter in sorted(bundled_manifests(), key=lambda a: (a.profile, a.name)):
        members = [adapter.for_family(family) for family in adapter.families]
        yield from (_row(adapter.name, m) for m in sorted(members, key=lambda m: str(m.predicate["block"])))


def _row(adapter: str, member: Any) -> str:
    words = member.predicate
    heads = f"{words['head_dim'] or '?'}{', keys shared' if (words['kv_groups'] or 1) > 1 else ''}"
    sizes = words.get("part_sticks")
    how = f"{heads}{', causal' if words['causal'] else ''}{f', widths {sizes}' if sizes else ''}"
    patterns = dict.fromkeys(patch["pattern"] for patch in member.patches)
    drafters = dict.fromkeys(str(patch["drafter"]) for patch in member.patches)
    block, longest = words["block"].rpartition(".")[2], max(member.buckets, default="-")
    cells = (adapter, block, how, words["hidden_act"] or "-", " ".join(patterns), " ".join(drafters), str(longest))
    return f"| {' | '.join(cells)} |"


def written(page: str) -> str:
    """The page with today's table between its marks."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return "".join([before, BEGIN, "\n", "\n".join(rows()), "\n", END, after])


def main() -> int:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put it into docs/families.md")
    if parser.parse_args().write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write("\n".join(rows()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
