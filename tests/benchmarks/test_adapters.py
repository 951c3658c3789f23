"""The parts of `benchmarks.adapters`: its texts, and figures that a worse device would change."""

from __future__ import annotations

import numpy as np

from benchmarks.adapters import cosines, load_texts, rankings


def test_there_are_200_sentences_in_ten_languages_and_longer_texts() -> None:
    texts = load_texts()
    assert len(texts.queries) == 20
    assert len(set(texts.documents)) == 200 + 40
    assert max(len(text) for text in texts.documents) > 800


def test_figures_are_met_by_equal_vectors_and_not_by_shuffled_ones() -> None:
    rows = np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert all(f.met for f in [*cosines(rows, rows), *rankings((rows[:5], rows[5:]), (rows[:5], rows[5:]))])
    other = rows[::-1].copy()
    assert not any(f.met for f in cosines(rows, other))
    assert not any(f.met for f in rankings((rows[:5], rows[5:]), (other[:5], rows[5:])))
