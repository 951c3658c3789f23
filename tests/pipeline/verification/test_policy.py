"""The policy: the only place with limits, complete or refused, and part of every environment and evidence."""

from __future__ import annotations

import ast
import copy
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.verification.policy import Policy, PolicyRefused, current_policy, policy_from_dict
from pipeline.verification.requirements import REQUIREMENTS, required
from pipeline.verification.verdict import Tier
from pipeline.work.environment import NO_PART_OF_A_VERDICT, environment_of, source_digest

ROOT = Path(pipeline.__file__).parent.parent
PACKAGES = ("pipeline", "agents", "adapters", "api", "benchmarks")
SOURCES = [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]
COMMON = {0.05, 1.0, 2.0, 3.0, 4.0, 8.0, 1.5, 0.02, 1e-6, 1e-3, 1e-5, 1e-4, 500.0, 0.01, 2e-4, 5e-5}
"""Values that other code has other reasons for; they are looked for by the names of their limits instead."""


def values_of(policy: Policy) -> set[float]:
    limits = [limits for rows in policy.thresholds.values() for limits in rows.values()]
    return {v for limit in [*limits, policy.mathematics, policy.tolerance, policy.diagnosis] for v in limit.values()}


def literals(path: Path) -> Iterator[tuple[int, float]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            yield node.lineno, node.value


def assigned_limits(path: Path) -> Iterator[tuple[int, str]]:
    """Numbers given to a name or a key that is a limit's."""
    names = {n for rows in current_policy().thresholds["embedding"].values() for n in rows} | {"exact_ulp"}
    tokens = list(tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline))
    for name, sign, value in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if name.string.strip("\"'").lower() in names and sign.string in ":=" and value.type == tokenize.NUMBER:
            yield name.start[0], name.string


def test_no_module_spells_a_threshold() -> None:
    telling = values_of(current_policy()) - COMMON
    assert {0.99, 0.999, 0.995, 1e-12} <= telling
    found = [
        f"{path.relative_to(ROOT)}:{line} {value}"
        for path in SOURCES
        for line, value in literals(path)
        if value in telling and path.relative_to(ROOT).as_posix() not in OTHER_REASONS
    ]
    assert len(SOURCES) > 200
    assert found == []


OTHER_REASONS = {
    "pipeline/weights/synthetic/fit.py": "keeps a division from zero",
    "agents/drafters/rules/powers.py": "how far a rule's two sides may differ",
    "agents/drafters/rules/norms.py": "an epsilon of layer norms",
    "benchmarks/many_models.py": "a measured cosine of a generated database",
    "benchmarks/service_child.py": "a measured cosine of a sleeping or computing child",
    "pipeline/bench/causes.py": "an epsilon of layer norms",
    "pipeline/bench/forms.py": "how far a form's reference may differ, and a near miss's wrong factor",
    "adapters/document.py": "the smallest literal of a document",
    "adapters/embedding.py": "the smallest norm of sentence-transformers",
}
"""Files in which such a number means something else, with what it means."""


def test_no_module_gives_a_limit_a_number_under_its_name() -> None:
    assert [f"{p.name}:{line} {name}" for p in SOURCES for line, name in assigned_limits(p)] == []


def test_the_policy_holds_the_design_s_values() -> None:
    design = {"device_token_cosine": 0.99, "cpu_token_cosine": 0.999, "norm_tolerance": 0.02, "pooled_cosine": 0.999}
    design |= {"centred_pooled_cosine": 0.99, "spearman": 0.995, "error_ratio_pass": 1.5, "error_ratio_unknown": 3.0}
    design |= {"ideal_token_cosine": 0.999}
    for dtype in ("float16", "bfloat16", "float32"):
        limits = current_policy().limits("embedding", dtype)
        assert {name: limits[name] for name in design} == design
    said = {
        "exact_ulp": 4.0,
        "exact_relative": 1e-12,
        "set_relative": 2e-10,
        "special_tolerance": 1e-6,
        "dl16_ratio": 8.0,
    }
    assert dict(current_policy().mathematics) == said
    assert current_policy().guards["final_submissions"] == 3
    assert current_policy().tiers["full"].draws == 2


@pytest.fixture
def document() -> dict[str, Any]:
    return copy.deepcopy(dict(current_policy().source))


def test_a_policy_of_before_a_limit_was_added_is_still_read(document: dict[str, Any]) -> None:
    del document["mathematics"]["dl16_ratio"]
    assert policy_from_dict(document).mathematics["dl16_ratio"] == float("inf")


def without_a_limit(d: dict[str, Any]) -> None:
    del d["thresholds"]["embedding"]["float16"]["spearman"]


def with_an_unknown_limit(d: dict[str, Any]) -> None:
    d["mathematics"]["luck"] = 1.0


def with_a_text_for_a_limit(d: dict[str, Any]) -> None:
    d["replay_tolerance"]["spearman"] = "small"


def with_a_zero_guard(d: dict[str, Any]) -> None:
    d["guards"]["ranked_pairs"] = 0


def of_another_format(d: dict[str, Any]) -> None:
    d["format"] = 2


def with_an_exception_of_nobody(d: dict[str, Any]) -> None:
    row = {"threshold": "spearman", "value": 0.9, "family": "bert", "evidence": "e" * 64, "reason": "drift"}
    d["exceptions"] = [{**row, "owner": "", "expires": "2030-01-01"}]


def with_an_exception_for_ever(d: dict[str, Any]) -> None:
    with_an_exception_of_nobody(d)
    d["exceptions"][0] |= {"owner": "ada", "expires": None}


BREAKS = (
    without_a_limit, with_an_unknown_limit, with_a_text_for_a_limit, with_a_zero_guard, of_another_format,
    with_an_exception_of_nobody, with_an_exception_for_ever,
)  # fmt: skip


@pytest.mark.parametrize("spoil", BREAKS, ids=lambda f: f.__name__)
def test_an_incomplete_policy_is_refused(document: dict[str, Any], spoil: Callable[[dict[str, Any]], None]) -> None:
    policy_from_dict(document)
    spoil(document)
    with pytest.raises(PolicyRefused):
        policy_from_dict(document)


def test_every_requirement_of_a_tier_is_measured_by_somebody(document: dict[str, Any]) -> None:
    for tier in Tier:
        assert dict(required(tier, current_policy()))
    assert {n for t in current_policy().tiers.values() for n in t.requires} == set(REQUIREMENTS)
    document["tiers"]["full"]["requires"].append("good_luck")
    with pytest.raises(PolicyRefused, match="requires 'good_luck'"):
        list(required(Tier.FULL, policy_from_dict(document)))
    del document["tiers"]["sweep"]
    with pytest.raises(PolicyRefused, match="no tier 'sweep'"):
        list(required(Tier.SWEEP, policy_from_dict(document)))


def test_editing_the_policy_changes_its_digest_and_every_environment(
    document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = environment_of("profile-2026-08")
    assert before["policy"] == current_policy().digest
    document["thresholds"]["embedding"]["float16"]["device_token_cosine"] = 0.98
    edited = policy_from_dict(document)
    assert edited.digest != current_policy().digest
    monkeypatch.setattr("pipeline.work.environment.current_policy", lambda: edited)
    environment_of.cache_clear()
    after = environment_of("profile-2026-08")
    environment_of.cache_clear()
    assert after["policy"] == edited.digest
    assert after["digest"] != before["digest"]


def test_an_entry_of_the_corpus_makes_no_verdict_stale_and_a_module_of_the_gate_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "made_up_package"
    for name in ("__init__.py", "gate/judge.py", "gate/selftest/corpus/entry.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = source_digest("made_up_package/gate", NO_PART_OF_A_VERDICT["gate"])
    (package / "gate/selftest/corpus/entry.py").write_text("NEW = 1")
    assert source_digest("made_up_package/gate", NO_PART_OF_A_VERDICT["gate"]) == before
    (package / "gate/judge.py").write_text("NEW = 1")
    assert source_digest("made_up_package/gate", NO_PART_OF_A_VERDICT["gate"]) != before


def test_what_is_left_out_of_the_environment_is_imported_by_no_module_that_judges() -> None:
    left_out = NO_PART_OF_A_VERDICT["gate"]
    wrong = re.compile(rf"pipeline\.verification\.({'|'.join(left_out)})\b")
    folders = (ROOT / "pipeline/verification", ROOT / "pipeline/execution")
    judging = [
        path for folder in folders for path in folder.rglob("*.py") if path.relative_to(folder).parts[0] not in left_out
    ]
    assert len(judging) > 40
    assert [str(path) for path in judging if wrong.search(path.read_text())] == []


def test_what_captures_and_executes_is_part_of_the_environment_and_what_diagnoses_is_not() -> None:
    named = environment_of("profile-2026-08")
    assert named["capture"] == source_digest("agents/capture")
    left_out = NO_PART_OF_A_VERDICT["execution"]
    assert named["execution"] == source_digest("pipeline/execution", left_out) != source_digest("pipeline/execution")
    folder, names = ROOT / "pipeline/execution", "|".join(name.removesuffix(".py") for name in left_out)
    assert all((folder / name).is_file() for name in left_out)
    wrong = re.compile(rf"from pipeline\.execution\.({names})\b")
    judging = [path for path in folder.glob("*.py") if path.name not in (*left_out, "child.py")]
    assert [path.name for path in judging if wrong.search(path.read_text())] == []
