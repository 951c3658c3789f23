"""Every scenario of the scripted endpoint through the draft stage: ledger, stored conversations, the real sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.drafters.llm import LlmDrafter
from agents.drafters.llm.settings import Limits
from agents.endpoint import load_scripts, serve
from agents.types import Diagnosis, DraftContext, Failure, FailureKind, PatternUse
from pipeline.database.unit_of_work import reading
from pipeline.drafting.trajectories import export, summaries
from pipeline.review.drafting import Budgets, StoredBudget, StoredTrajectories
from pipeline.review.models import BudgetEntry
from pipeline.settings import Settings

GELU_NEW = "transformers.activations.NewGELUActivation"
CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "hidden_act": "gelu_new",
    "vocab_size": 400,
    "hidden_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "max_position_embeddings": 160,
}
POW = Diagnosis(
    Failure(
        FailureKind.WRONG_VALUES,
        op="aten.pow.Tensor_Scalar",
        source="activations.py:57",
        module="encoder.layer.0.intermediate.intermediate_act_fn",
        message="values differ",
        scalars=(3.0,),
    ),
    (PatternUse("P01", {"module_class": GELU_NEW}),),
)
HOSTILE = {"cheating": "limit_reached", "rambling": "limit_reached", "misuse": "limit_reached",
           "slow": "endpoint_problem", "failing": "endpoint_problem"}  # fmt: skip
BUDGET_USD = 1.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path / "model"


@pytest.fixture
def draft(sqlite: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Drafts with one scenario as the draft stage does, for a model with a price so that money is really reserved."""
    from agents.drafters import draft_with
    from agents.drafters.llm.settings import LlmSettings, Price
    from pipeline.drafting.trials import candidate_tester, capture_validated
    from pipeline.execution.subject import Subject

    monkeypatch.setattr("agents.drafters.llm.model.price_of", lambda name, settings: Price(1.0, 2.0))

    def run(scenario: str, limits: Limits = Limits(call_seconds=20.0)) -> Any:  # noqa: B008
        context = DraftContext(
            "bert", "profile-2026-08", "float16", hidden_patterns=frozenset({"P01"}), config=CONFIG,
            capture=capture_validated, test=candidate_tester(Subject("m", folder, "profile-2026-08", folder)),
            trajectories=StoredTrajectories(None, "scripted"), budget=StoredBudget(Budgets(BUDGET_USD)),
        )  # fmt: skip
        with serve(scripts=load_scripts(scenario=scenario)) as endpoint:
            settings = LlmSettings(endpoint.url, "key-canary-0123456789", "scripted", BUDGET_USD, limits=limits)
            return draft_with("llm", [POW], context, LlmDrafter(settings))

    return run


def ledger() -> list[BudgetEntry]:
    with reading() as session:
        return list(session.query(BudgetEntry))


def stored() -> dict[str, Any]:
    with reading() as session:
        [one] = summaries(session)
        return export(session, one["id"])


@pytest.mark.sandbox
@pytest.mark.parametrize(("scenario", "submissions"), [("good", 1), ("wrong_then_right", 2)])
def test_the_right_patch_comes_through_at_once_or_after_one_failed_attempt(
    scenario: str, submissions: int, draft: Callable[[str], Any]
) -> None:
    outcome = draft(scenario)
    [candidate] = outcome.candidates
    assert [p.model for p in candidate.patches] == ["scripted"]
    assert outcome.reports[0].submissions == submissions
    document = stored()
    assert (document["outcome"], document["scripted"]) == ("patch", True)
    assert document["cost_usd"] == pytest.approx(sum(e.settled_usd or 0 for e in ledger()))
    assert document["tokens"] == sum(e.tokens or 0 for e in ledger())


@pytest.mark.sandbox
@pytest.mark.parametrize("scenario", HOSTILE)
def test_a_hostile_scenario_ends_without_a_candidate_within_budget_and_is_stored_whole(
    scenario: str, draft: Callable[..., Any]
) -> None:
    """Of 1 USD nothing more is charged than the ledger's limit, however often it is asked."""
    limits = Limits(call_seconds=1.0) if scenario == "slow" else Limits(call_seconds=20.0)
    outcome = draft(scenario, limits)
    assert outcome.candidates == ()
    document, entries = stored(), ledger()
    assert document["outcome"] == HOSTILE[scenario]
    assert document["steps"][0]["kind"] == "start"
    assert document["steps"][-1]["kind"] == "end"
    assert sum(e.reserved_usd if e.settled_usd is None else e.settled_usd for e in entries) <= BUDGET_USD
    assert all(e.settled_at is not None for e in entries)
    answers = sum(step["kind"] == "answer" for step in document["steps"])
    assert len(entries) == answers + (3 if document["outcome"] == "endpoint_problem" and scenario != "slow" else 0) + (
        1 if scenario == "slow" else 0
    )
    assert "canary" not in json.dumps(document)


def test_a_budget_holds_to_one_call(draft: Callable[..., Any]) -> None:
    """The call that would exceed it is not made: what is charged never passes the limit."""
    outcome = draft("rambling", Limits(answer_tokens=495_000, unusable=100, turns=100, tokens=10**9))
    assert outcome.candidates == ()
    assert outcome.reports[0].end == "budget"
    charged = sum(e.reserved_usd if e.settled_usd is None else e.settled_usd for e in ledger())
    assert charged <= BUDGET_USD
    assert stored()["outcome"] == "budget_exhausted"
