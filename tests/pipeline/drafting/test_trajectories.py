"""Stored conversations: exported, imported, replayed; accepted ones as examples; no secret in them."""

from __future__ import annotations

import copy
import json
import logging
import runpy
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agents.endpoint import Script, Step, load_scripts, serve
from agents.redact import HIDDEN
from agents.types import Diagnosis, DraftContext, Failure, FailureKind, PatternUse
from pipeline.cli.main import build_app
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.drafting.examples import rank, similarity
from pipeline.drafting.replay import replay
from pipeline.drafting.trajectories import export, import_document, summaries
from pipeline.errors import BadInput, NotFound
from pipeline.review.models import CandidateRow, PatchRow
from pipeline.rules.repository import list_rules
from pipeline.settings import Settings

DRIVER = runpy.run_path(str(Path(__file__).with_name("kill_driver.py")))
CANARY = "canary-secret-5d1f0c"


def drafted(run_id: int, scripts: Any = None) -> dict[str, Any]:
    with serve(scripts=scripts) as endpoint:
        DRIVER["drafted"](run_id, endpoint.url)
    with reading() as session:
        return export(session, summaries(session)[0]["id"])


def context() -> DraftContext:
    return DraftContext("bert", "profile-2026-08", "float16", capture=DRIVER["document"], test=DRIVER["judged"])


def test_a_conversation_is_exported_and_imported_whole(run_id: int) -> None:
    document = drafted(run_id)
    assert (document["turns"], document["outcome"], document["model"]) == (3, "patch", "scripted")
    assert len(document["prompts"]) == 64
    there = {**json.loads(json.dumps(document)), "id": "f" * 32}
    with unit_of_work() as session:
        import_document(session, there)
    with reading() as session:
        again = export(session, "ffff")
    differ = {"id", "run", "created_at"}
    assert {k: v for k, v in again.items() if k not in differ} == {k: v for k, v in document.items() if k not in differ}


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"},
        {"id": "../x"},
        {"id": ""},
        {"steps": 3},
        {"steps": [{}]},
        {"steps": [{"kind": "a", "messages": 3}]},
    ],
)
def test_what_is_no_trajectory_is_refused_in_one_sentence(change: dict[str, Any], sqlite: Settings) -> None:
    document = {"format": "spyre-factory trajectory 1", "id": "a" * 32, "model": "m", "steps": [], **change}
    with unit_of_work() as session, pytest.raises(BadInput):
        import_document(session, document)


def test_an_id_that_is_taken_or_unknown_is_refused(run_id: int) -> None:
    document = drafted(run_id)
    with unit_of_work() as session, pytest.raises(BadInput, match="already"):
        import_document(session, document)
    with reading() as session, pytest.raises(NotFound):
        export(session, "zzz")


def test_a_replay_finds_what_it_found_then(run_id: int) -> None:
    found = replay(drafted(run_id), context())
    assert (found.calls, found.difference) == (3, None)
    assert found.prompts_then == found.prompts_now


def test_a_replay_names_the_first_step_that_differs(run_id: int) -> None:
    document = copy.deepcopy(drafted(run_id))
    strict = DraftContext(
        "bert", "profile-2026-08", "float16", capture=DRIVER["document"],
        test=lambda candidate: {"passed": False, "kind": "wrong_values", "op": "x", "error": 0.7},
    )  # fmt: skip
    difference = replay(document, strict).difference
    assert difference is not None
    assert difference.tool == "submit"
    assert document["steps"][difference.step - 1]["kind"] == "tool"
    assert "Accepted" in difference.then
    assert "Refused" in difference.now


def test_the_size_of_an_error_is_no_difference(run_id: int) -> None:
    """Test runs draw their points anew."""
    other = DraftContext(
        "bert", "profile-2026-08", "float16", capture=DRIVER["document"],
        test=lambda candidate: {**DRIVER["judged"](candidate), "error": 0.02},
    )  # fmt: skip
    assert replay(drafted(run_id), other).difference is None


def test_what_holds_no_task_cannot_be_replayed() -> None:
    with pytest.raises(BadInput, match="no draft"):
        replay({"model": "m", "steps": [{"kind": "start", "messages": []}]}, context())


def test_the_commands_list_show_and_export(run_id: int, tmp_path: Path) -> None:
    document, program = drafted(run_id), CliRunner()

    def say(*argv: str) -> str:
        done = program.invoke(build_app(), ["agents", *argv])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert document["id"][:12] in say("trajectories")
    assert "calls submit" in say("show", document["id"][:8])
    say("export", document["id"], str(tmp_path / "t.json"))
    assert json.loads((tmp_path / "t.json").read_text())["steps"] == document["steps"]
    assert "already" in program.invoke(build_app(), ["agents", "import", str(tmp_path / "t.json")]).output


def test_a_key_that_the_endpoint_sends_back_is_in_no_file_of_the_installation(
    run_id: int, sqlite: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Database, write-ahead log, artefacts and logs, byte by byte; errors as they are said."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    steps = (Step(tool="show_diagnosis", say=CANARY), Step(status=500, say=f"bad key {CANARY}"))
    with caplog.at_level(logging.DEBUG):
        document = drafted(run_id, [Script("echo", ("Patch `",), steps, then="repeat")])
    assert document["outcome"] == "endpoint_problem"
    assert HIDDEN in json.dumps(document)
    files = [path for path in sqlite.data_dir.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []
    assert CANARY not in caplog.text


def diagnosis(op: str, kind: FailureKind = FailureKind.WRONG_VALUES, cls: str = "a.B") -> Diagnosis:
    failure = Failure(kind, op, "x.py:1", "m", "no", dtypes=("float16",))
    return Diagnosis(failure, (PatternUse("P01", {"module_class": cls}),))


def test_similar_causes_have_the_same_operation_before_the_same_kind() -> None:
    wanted = diagnosis("aten.pow.Tensor_Scalar")
    same, packet, other = (diagnosis(op, cls="c.D") for op in ("aten.pow.Tensor_Scalar", "aten.pow.Scalar", "aten.erf"))
    scores = [similarity(wanted, d) for d in (wanted, same, packet, other)]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(1.0)
    assert len(set(scores)) == 4


def test_the_most_similar_accepted_patches_are_the_examples_each_code_once() -> None:
    def patch(code: str | None) -> PatchRow:
        return PatchRow(pattern="P01", drafter="llm", data={"source": code})

    near, far = diagnosis("aten.pow.Tensor_Scalar"), diagnosis("aten.erf", FailureKind.LAYOUT, "x.Y")
    known = [(patch("far"), [far]), (patch("near"), [near]), (patch("near"), [near]), (patch(None), [near])]
    assert [e.code for e in rank([near], known)] == ["near"]
    assert [e.code for e in rank([near], [])] == []
    assert [s.name for s in load_scripts()][:2] == ["doctor-trial", "doctor-context"]


def test_a_released_document_is_proposed_as_a_rule_once_and_the_table_stays_as_it_is(run_id: int) -> None:
    from agents.drafters.rules.table import RULES
    from pipeline.drafting.rules import proposals

    gelu = "transformers.activations.NewGELUActivation"
    document = runpy.run_path(str(Path(__file__).parents[2] / "agents" / "drafters" / "conftest.py"))["CUBE"]
    with unit_of_work() as session:
        now = database_now(session)
        row = CandidateRow(
            digest="2" * 64, family="f", profile="p", dtype="float16", state="released", data={}, draft_run_id=run_id,
            created_at=now, updated_at=now,
        )  # fmt: skip
        session.add(row)
        session.flush()
        for position, parameters in enumerate(({"module_class": gelu, "document": document}, {"source": "x"}), start=1):
            data = {"parameters": parameters}
            session.add(
                PatchRow(
                    candidate_id=row.id, position=position, pattern="P01", drafter="llm", exactness="exact", data=data
                )
            )
    before = RULES
    for _ in range(2):
        with unit_of_work() as session:
            [found] = proposals(session)
    assert found["rule"]["match"] == "pow(x, 3.0)"
    assert found["rule"]["to"] == "mul(x, mul(x, x))"
    assert RULES is before
    with reading() as session:
        [waiting] = list_rules(session)
        assert (waiting.state, waiting.data) == ("waiting", found["rule"])
