"""Scripts: their files, and which step answers a conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.endpoint import Script, ScriptError, Step, load_scripts
from agents.endpoint.script import GIVE_UP, next_step, scenarios

SCRIPT = Script("s", ("pow", "GELU"), (Step("read_source", {}), Step("submit", {"code": "x"})))


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


NATIVE: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
TEXT = {"role": "assistant", "content": "so\n```tool\n{}\n```"}
TALK = {"role": "assistant", "content": "I think about ```tool calls```."}


@pytest.mark.parametrize("call", [NATIVE, TEXT])
def test_the_step_is_the_count_of_calls_made(call: dict[str, Any]) -> None:
    start = [{"role": "system", "content": "pow GELU"}, user("pow in GELU")]
    assert next_step([SCRIPT], start).tool == "read_source"
    assert next_step([SCRIPT], [*start, TALK, user("malformed")]).tool == "read_source"
    assert next_step([SCRIPT], [*start, call, user("source")]).tool == "submit"
    assert next_step([SCRIPT], [*start, call, user("source"), call, user("no")]) == GIVE_UP


def test_every_text_must_occur_in_the_first_user_message() -> None:
    assert next_step([SCRIPT], [user("pow"), user("GELU")]) == GIVE_UP
    assert next_step([SCRIPT], []) == GIVE_UP
    assert next_step([SCRIPT], [user([{"type": "text", "text": "pow GELU"}])]).tool == "read_source"


@pytest.mark.parametrize("name", scenarios())
def test_every_scenario_of_the_package_can_be_read(name: str) -> None:
    *common, script = load_scripts(scenario=name)
    assert [s.name for s in common] == ["doctor-trial", "doctor-context", "reviewer"]
    assert script.steps


def test_a_scenario_that_there_is_not_is_refused_with_the_names() -> None:
    with pytest.raises(ScriptError, match="choose cheating, failing, good"):
        load_scripts(scenario="none")


def test_steps_may_advance_with_every_answer_and_repeat_the_last() -> None:
    rambles = Script("r", ("pow",), (Step(say="a"), Step(say="b")), advance="answers", then="repeat")
    talk = [user("pow"), TALK, user("no"), TALK, user("no"), TALK]
    assert [next_step([rambles], talk[:n]).say for n in (1, 3, 5)] == ["a", "b", "b"]


def test_the_bundled_script_answers_wrong_first_and_right_second() -> None:
    script = load_scripts()[-1]
    codes = [step.arguments["code"] for step in script.steps if step.tool == "submit"]
    assert ["torch.abs" in code for code in codes] == [True, False]
    for code in codes:
        compile(code, "script", "exec")


def test_a_json_file_is_a_script_file_too(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    step = {"tool": "submit", "arguments": {"explanation": "x"}}
    path.write_text(json.dumps({"scripts": [{"name": "n", "match": {"all": ["a"]}, "steps": [step]}]}))
    assert load_scripts(path) == (Script("n", ("a",), (Step("submit", {"explanation": "x"}),)),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "not YAML"),
        ("3", "one key"),
        ("scripts: {}", "one key"),
        ("scripts: [3]", "script 1 needs"),
        ("scripts: [{name: a, match: {}, steps: [{tool: x}]}]", "match needs"),
        ("scripts: [{name: a, match: {all: []}, steps: [{tool: x}]}]", "match needs"),
        ("scripts: [{name: a, match: {all: [b]}, steps: []}]", "steps is empty"),
        ("scripts: [{name: a, match: {all: [b]}, steps: [3]}]", "a step has tool"),
        ("scripts: [{name: a, match: {all: [b]}, steps: [{tool: x, arguments: 3}]}]", "a step has tool"),
        ("scripts: [{name: a, match: {all: [b]}, steps: [{tool: x, run: rm}]}]", "a step has tool"),
        ("!!python/object/apply:os.getcwd []", "not YAML"),
    ],
)
def test_a_broken_script_file_is_refused_in_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ScriptError, match=said):
        load_scripts(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="cannot be read"):
        load_scripts(tmp_path / "none.yaml")
