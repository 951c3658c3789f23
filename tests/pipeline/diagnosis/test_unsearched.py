"""Where silent causes were not looked for, in one sentence."""

from __future__ import annotations

from pipeline.diagnosis.unsearched import sentence


def entry(kind: str, block: str, reason: str) -> dict[str, str]:
    return {"input": kind, "block": block, "reason": reason}


def test_the_kinds_of_input_that_end_at_one_block_for_one_reason_are_told_together() -> None:
    isinf, where = "\nSpyre backend does not support: isinf\n\nSet TORCHDYNAMO_VERBOSE=1", "no where"
    said = sentence(
        [entry("whole", "h.0", isinf), entry("alone", "h.0", isinf), entry("left", "h.1", where)] * 2,
    )
    assert said == (
        "silent causes were not looked for where the device refuses: from h.0 on (input whole, alone): "
        "Spyre backend does not support: isinf; from h.1 on (input left): no where"
    )


def test_a_whole_search_has_nothing_to_say_and_a_refusal_without_words_has() -> None:
    assert sentence([]) == ""
    assert sentence([entry("whole", "h.0", "")]).endswith("from h.0 on (input whole): no words")
