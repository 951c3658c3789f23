"""The op table answers for overloads, packets and unlisted operations, per facts 3.2."""

from __future__ import annotations

import pytest

from sim_backend.profiles import list_profiles, load_profile, split_op

# (operation, profile, eager cell, compiled cell), transcribed from the table of the facts page.
FACTS = [
    ("aten.abs.default", "profile-2026-04", "N", "N"),
    ("aten.gelu.default", "profile-2026-08", "X", "N"),
    ("aten.sin.default", "profile-2026-08", "F", "F"),
    ("aten.erf.default", "profile-2026-08", "X", "U"),
    ("aten.pow.Tensor_Tensor", "profile-2026-09", "U", "U"),
    ("aten.clamp_min.default", "profile-2026-08", "X", "N"),
    ("aten.clamp_min.default", "profile-2026-09", "N", "N"),
    ("aten.ceil.default", "profile-2026-04", "X", "X"),
    ("aten.ceil.default", "profile-2026-08", "D", "D"),
    ("aten.embedding.default", "profile-2026-04", "F", "F"),
    ("aten.embedding.default", "profile-2026-08", "N", "N"),
    ("aten.slice.Tensor", "profile-2026-04", "X", "F"),
    ("aten.slice.Tensor", "profile-2026-08", "V", "V"),
    ("aten.ne.Scalar", "profile-2026-08", "F", "N"),
    ("aten.ne.Tensor", "profile-2026-08", "N", "N"),
    ("aten.cumsum.default", "profile-2026-09", "F", "F"),
    ("aten.sort.default", "profile-2026-09", "X", "X"),
    ("aten.index_copy.default", "profile-2026-08", "F", "N"),
    ("aten.stack.default", "profile-2026-04", "N", "X"),
    ("aten.native_layer_norm.default", "profile-2026-08", "K", "K"),
]


@pytest.mark.parametrize(("op", "profile", "eager", "compiled"), FACTS)
def test_a_cell_is_what_the_facts_page_says(op: str, profile: str, eager: str, compiled: str) -> None:
    held = load_profile(profile)
    assert (held.cell(op, "eager"), held.cell(op, "compiled")) == (eager, compiled)


def test_an_overload_outranks_its_packet() -> None:
    profile = load_profile()
    assert profile.cell("aten.where.default", "eager") == "F"
    assert profile.cell("aten.where.self", "eager") == "N"


def test_an_unlisted_operation_is_refused_in_eager_and_left_to_its_loops_in_compiled_code() -> None:
    profile = load_profile()
    assert profile.cell("aten.frobnicate.default", "eager") == "X"
    assert profile.cell("aten.frobnicate.default", "compiled") == "R"


def test_the_ideal_profile_refuses_nothing() -> None:
    ideal = load_profile("profile-ideal")
    assert ideal.cell("aten.sort.default", "eager") == "N"
    assert ideal.computes_fp32("aten.mm.default")
    assert not ideal.errata


@pytest.mark.parametrize("name", list_profiles())
def test_every_cell_is_a_known_letter(name: str) -> None:
    letters = {part.strip() for text in load_profile(name).content["ops"].values() for part in text.split("/")}
    assert letters <= set("NDKSVHFXU")


def test_fp32_computes_where_facts_3_5_says_so() -> None:
    profile = load_profile()
    assert profile.computes_fp32("aten.add.Tensor")
    assert profile.computes_fp32("aten._softmax.default")
    for op in ("aten.mm.default", "aten.gelu.default", "aten.tanh.default", "aten.log.default"):
        assert not profile.computes_fp32(op)


@pytest.mark.parametrize(
    ("profile", "exponent", "rule"),
    [
        ("profile-2026-04", 2.0, "mul"),
        ("profile-2026-04", 3, "unimplemented"),
        ("profile-2026-08", 3, "erratum"),
        ("profile-2026-08", -0.5, "unimplemented"),
        ("profile-2026-09", 3, "decompose"),
        ("profile-2026-09", 2, "mul"),
        ("profile-ideal", 3, "native"),
    ],
)
def test_pow_depends_on_exponent_and_date(profile: str, exponent: float, rule: str) -> None:
    assert load_profile(profile).exponent_rule(exponent) == rule


def test_names_split_into_packet_and_overload() -> None:
    assert split_op("aten::pow.Tensor_Scalar") == split_op("aten.pow.Tensor_Scalar") == ("aten.pow", "Tensor_Scalar")
    assert split_op("aten.gelu") == ("aten.gelu", "default")
