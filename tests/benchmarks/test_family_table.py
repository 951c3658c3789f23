"""The page of families says what is bundled."""

from __future__ import annotations

from benchmarks.family_table import PAGE, rows, written


def test_the_page_holds_the_table_of_what_is_bundled() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page


def test_every_member_has_a_row_with_its_patches() -> None:
    from adapters.releases.lookup import bundled_manifests

    table = list(rows())
    assert len(table) == 2 + sum(len(adapter.families) for adapter in bundled_manifests())
    assert any("BertLayer" in row and "P56" in row and "rules" in row for row in table)
