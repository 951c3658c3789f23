"""Hidden texts: ten scripts, too many to prepare for, and pairs for ranking in many languages."""

from __future__ import annotations

import random
import unicodedata

import pytest

from pipeline.verification import texts
from pipeline.verification.probes import PAIRS_PER_LANGUAGE, probe_pairs

NAMES = {"han": "CJK", "kana": ("HIRAGANA", "KATAKANA", "CJK"), "devanagari": "DEVANAGARI"}


def is_of(script: str, character: str) -> bool:
    names = NAMES.get(script, script.upper())
    return unicodedata.name(character, "").startswith(names)


def letters(text: str) -> list[str]:
    return [c for c in text if unicodedata.category(c)[0] == "L"]


def test_there_are_at_least_eight_scripts() -> None:
    assert len(texts.scripts()) >= 8


@pytest.mark.parametrize("language", sorted(texts.grammar()))
def test_every_template_is_filled_and_written_in_its_script(language: str) -> None:
    rng = random.Random(language)
    script = texts.grammar()[language]["script"]
    for _ in range(60):
        text = texts.sentence(rng, language)
        assert "{" not in text
        found = letters(text)
        assert all(is_of(script, c) for c in found), text
        assert found


def test_the_space_of_texts_is_too_large_to_prepare_for() -> None:
    rng = random.Random(1)
    drawn = [texts.sentence(rng, language) for language in texts.grammar() for _ in range(200)]
    assert len(set(drawn)) > 0.97 * len(drawn)


def test_the_same_seed_gives_the_same_text_and_another_does_not() -> None:
    first, again, other = (texts.probe_text(random.Random(s), 300) for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("characters", [1, 40, 5000])
def test_texts_are_as_long_as_asked(characters: int) -> None:
    assert len(texts.probe_text(random.Random(characters), characters)) >= characters


def test_scripts_are_mixed_now_and_then_and_signs_occur() -> None:
    drawn = [texts.probe_text(random.Random(seed), 400) for seed in range(60)]
    used = [{s for s in texts.scripts() if s != "han" and any(is_of(s, c) for c in letters(t))} for t in drawn]
    assert 2 < sum(len(scripts) > 2 for scripts in used) < 40
    assert any("🙂" in text or "🚀" in text for text in drawn)


def test_one_sentence_of_each_script_and_one_character() -> None:
    found = texts.one_of_each_script(random.Random(4))
    assert {script for script, _ in found} == set(texts.scripts())
    assert len(texts.single_character(random.Random(4))) == 1


def test_pairs_for_ranking_are_in_many_languages_and_never_twice_the_same() -> None:
    pairs = probe_pairs()
    assert len(pairs) >= 8
    assert all(len(rows) >= 2 * PAIRS_PER_LANGUAGE for rows in pairs.values())
    sentences = [text for rows in pairs.values() for pair in rows for text in pair]
    assert len(set(sentences)) == len(sentences)
