"""The loop: limits before each call, steps saved in order, refusals and malformed answers sent back."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from agents.drafters.llm.agent import Agent
from agents.drafters.llm.form import Form
from agents.drafters.llm.messages import Answer, Charge, Usage
from agents.drafters.llm.settings import Limits
from agents.drafters.llm.workbench import Claim, Workbench
from agents.drafters.outcome import DraftEnd
from agents.errors import CandidateRefused, EndpointProblem, LimitReached, MalformedAnswer, SandboxUnavailable
from agents.types import Candidate, Exactness

CODE = "def forward(x):\n    return x * x * x\n"
SUBMIT = ("submit", {"code": CODE, "explanation": "same"})


class FakeModel:
    """Answers from a list; the last answer repeats."""

    name = "fake"

    def __init__(self, *answers: Any, cost: float = 0.1) -> None:
        self.answers, self.cost, self.seen = list(answers), cost, []  # type: ignore[var-annotated]

    def ask(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], seconds: float, keep: Any = None
    ) -> Answer:
        self.seen.append((list(messages), [t["function"]["name"] for t in tools], seconds))
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(given, Exception):
            raise given
        message: dict[str, Any] = {"role": "assistant", "content": given if isinstance(given, str) else ""}
        if not isinstance(given, str):
            calls = given if isinstance(given, list) else [given]
            message["tool_calls"] = [
                {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
                for i, (n, a) in enumerate(calls)
            ]
        answer = Answer(message, Usage(10, 5), Charge(self.cost, self.cost, 15), "stop")
        if keep is not None:
            keep(answer)
        return answer


class Steps(list[dict[str, Any]]):
    earlier: tuple[dict[str, Any], ...] = ()

    def __call__(self, step: dict[str, Any]) -> str:
        self.append(step)
        return "t1"


def bench(limits: Limits = Limits(), **parts: Any) -> Workbench:  # noqa: B008
    values: dict[str, Any] = {
        "target": "transformers.activations.NewGELUActivation",
        "form": Form.ELEMENTWISE,
        "diagnosis": "aten.pow",
        "build": lambda code, claim: Candidate("f", "p", "float16", ()),
        "test": lambda candidate: {"passed": True},
        "limits": limits,
        **parts,
    }
    return Workbench(**values)


def agent(model: FakeModel, limits: Limits = Limits(), clock: Any = lambda: 0.0, **parts: Any) -> Agent:  # noqa: B008
    return Agent(model, bench(limits, **parts), Steps(), limits, clock)


def test_an_accepted_submission_ends_the_draft_with_its_candidate() -> None:
    result = agent(FakeModel(SUBMIT)).run("task")
    assert (result.end, result.candidate) == (DraftEnd.PATCH, Candidate("f", "p", "float16", ()))


def test_each_step_is_saved_before_the_next_begins() -> None:
    steps = Steps()
    saved_at_call: list[int] = []

    class Watching(FakeModel):
        def ask(self, *args: Any) -> Answer:
            saved_at_call.append(len(steps))
            return super().ask(*args)

    model = Watching(("show_diagnosis", {}), SUBMIT)
    one = Agent(model, bench(), steps, Limits(), lambda: 0.0)
    one.run("task")
    assert [s["kind"] for s in steps] == ["start", "answer", "tool", "answer", "tool", "end"]
    assert saved_at_call == [1, 3]
    assert sum(len(s["messages"]) for s in steps) == len(one.messages)
    assert one.trajectory == "t1"


def test_the_conversation_is_one_list_that_only_grows() -> None:
    model = FakeModel("talk", ("show_diagnosis", {}), SUBMIT)
    agent(model).run("task")
    lists = [messages for messages, _, _ in model.seen]
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(lists))


def test_a_malformed_answer_is_sent_back_with_the_tools_there_are() -> None:
    model = FakeModel("talk", SUBMIT)
    agent(model).run("task")
    said = model.seen[1][0][-1]
    assert said["role"] == "user"
    assert "holds 0 tool calls" in said["content"]
    assert "read_source, show_diagnosis, search_patterns, run_reproducer, test_patch, submit" in said["content"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("fly", {}), "there is no tool 'fly'"),
        (("submit", {"code": CODE}), "missing arguments ['explanation']"),
        (("submit", {"code": CODE, "explanation": "x", "sudo": "1"}), "unknown arguments ['sudo']"),
        (("submit", {"code": 3, "explanation": "x"}), "code must be a string"),
        (("submit", {"explanation": "x"}), "`code` is missing"),
        (("submit", {**SUBMIT[1], "outcome": "great"}), "outcome must be one of"),
        (("submit", {**SUBMIT[1], "exactness": "bounded"}), "needs a `bound`"),
        (("submit", {**SUBMIT[1], "exactness": "bounded", "bound": True}), "bound must be a number"),
        (("read_source", {"name": "os.environ"}), "only classes of 'transformers'"),
    ],
)
def test_a_call_that_cannot_be_used_is_answered_and_costs_no_submission(call: Any, said: str) -> None:
    model = FakeModel(call, SUBMIT)
    one = agent(model)
    one.run("task")
    assert said in model.seen[1][0][-1]["content"]
    assert one.bench.submissions == 1


def test_a_refusal_returns_the_reason_and_what_is_left() -> None:
    outcomes = iter(
        [{"passed": False, "kind": "wrong_values", "op": "aten.tanh.default", "error": 0.63}, {"passed": True}]
    )
    model = FakeModel(SUBMIT)
    agent(model, test=lambda candidate: next(outcomes)).run("task")
    said = model.seen[1][0][-1]["content"]
    assert "kind wrong_values, operation aten.tanh.default, error size 6e-01" in said
    assert "Submissions left: 2." in said


def test_a_test_run_tells_kind_operation_and_error_size_only() -> None:
    told = {"passed": False, "kind": "wrong_values", "op": "aten.mul", "error": 0.123456, "inputs": [1, 2], "seed": 7}
    one = agent(FakeModel(("test_patch", {"code": CODE}), SUBMIT), test=lambda candidate: told)
    with pytest.raises(LimitReached):
        one.run("task")
    text = repr(one.messages) + repr(one.record)
    assert "1e-01" in text
    assert "0.123456" not in text
    assert "seed" not in text


def test_after_three_refused_submissions_there_is_no_further_call() -> None:
    model = FakeModel(SUBMIT)
    one = agent(model, test=lambda candidate: {"passed": False})
    with pytest.raises(LimitReached, match="all 3 submissions were refused"):
        one.run("task")
    assert len(model.seen) == 3
    assert one.record[-1]["outcome"] == "limit_reached"  # type: ignore[index]


def test_submissions_in_one_answer_count_one_by_one() -> None:
    model = FakeModel([SUBMIT] * 4)
    one = agent(model, test=lambda candidate: {"passed": False})
    with pytest.raises(LimitReached):
        one.run("task")
    assert (one.bench.submissions, len(model.seen)) == (3, 1)


def test_a_capture_that_refuses_is_a_refusal() -> None:
    def refuse(code: str, claim: Claim) -> Candidate:
        raise CandidateRefused("the code opens a file")

    model = FakeModel(SUBMIT)
    with pytest.raises(LimitReached):
        agent(model, build=refuse).run("task")
    assert "Refused: the code opens a file" in model.seen[1][0][-1]["content"]


def test_code_that_is_too_long_never_reaches_the_sandbox() -> None:
    reached: list[str] = []
    model = FakeModel(("submit", {"code": "#" * 9000, "explanation": "x"}))
    with pytest.raises(LimitReached):
        agent(model, build=lambda code, claim: reached.append(code)).run("task")
    assert reached == []


def test_without_a_sandbox_the_draft_ends_at_once_and_says_so() -> None:
    def gone(code: str, claim: Claim) -> Candidate:
        raise SandboxUnavailable("bubblewrap is missing")

    one = agent(FakeModel(SUBMIT), build=gone)
    with pytest.raises(SandboxUnavailable, match="bubblewrap is missing"):
        one.run("task")
    assert one.record[-1]["outcome"] == "sandbox_unavailable"  # type: ignore[index]


@pytest.mark.parametrize(
    ("limits", "said", "calls"),
    [
        (Limits(turns=2), "its 2 turns", 2),
        (Limits(tokens=40), "its 40 tokens", 3),
        (Limits(cost_usd=0.15), "its 0.15 USD", 2),
    ],
    ids=["turns", "tokens", "money"],
)
def test_limits_are_checked_before_each_call(limits: Limits, said: str, calls: int) -> None:
    model = FakeModel(("show_diagnosis", {}))
    with pytest.raises(LimitReached, match=said):
        agent(model, limits).run("task")
    assert len(model.seen) == calls


def test_seconds_are_limited_and_each_call_gets_what_is_left() -> None:
    times = iter([0.0, 1.0, 5.0, 11.0])
    model = FakeModel(("show_diagnosis", {}))
    with pytest.raises(LimitReached, match="its 10 seconds"):
        agent(model, Limits(seconds=10.0), lambda: next(times)).run("task")
    assert [seconds for _, _, seconds in model.seen] == [9.0, 5.0]


def test_an_unknown_cost_is_unknown_and_what_was_reserved_counts() -> None:
    model = FakeModel(("show_diagnosis", {}))

    def unknown(*args: Any) -> Answer:
        answer = Answer({"role": "assistant", "content": "x"}, Usage(), Charge(None, 0.4, 100), "stop")
        args[-1](answer)
        return answer

    model.ask = unknown  # type: ignore[method-assign]
    one = agent(model, Limits(cost_usd=1.0))
    with pytest.raises(LimitReached, match="USD"):
        one.run("task")
    assert (one.spent.turns, one.spent.cost_usd, round(one.spent.charged_usd, 6)) == (3, None, 1.2)


def test_an_endpoint_problem_ends_the_draft_and_is_saved() -> None:
    one = agent(FakeModel(EndpointProblem("HTTP 500")))
    with pytest.raises(EndpointProblem):
        one.run("task")
    assert one.record[-1] == {  # type: ignore[index]
        "kind": "end",
        "turn": 0,
        "messages": [],
        "outcome": "endpoint_problem",
        "reason": "HTTP 500",
        "spent": {"turns": 0, "tokens": 0, "charged_usd": 0.0, "cost_usd": 0.0},
    }


@pytest.mark.parametrize("outcome", [DraftEnd.CANNOT_BE_PATCHED, DraftEnd.NO_PATCH_NEEDED])
def test_giving_up_is_a_legal_end_with_its_reason(outcome: DraftEnd) -> None:
    result = agent(FakeModel(("submit", {"outcome": outcome.value, "explanation": "sin has no cure"}))).run("task")
    assert (result.end, result.candidate) == (outcome, None)
    assert "sin has no cure" in result.text


def test_test_runs_are_limited() -> None:
    model = FakeModel(("test_patch", {"code": CODE}))
    with pytest.raises(LimitReached, match="turns"):
        agent(model, Limits(turns=4, tests=2)).run("task")
    assert "all 2 test runs are used" in model.seen[3][0][-1]["content"]


def test_there_are_six_tools_and_what_is_not_there_is_said() -> None:
    model = FakeModel(("run_reproducer", {}), SUBMIT)
    agent(model).run("task")
    names = ["read_source", "show_diagnosis", "search_patterns", "run_reproducer", "test_patch", "submit"]
    assert model.seen[0][1] == names
    assert model.seen[1][0][-1]["content"] == "There is no reproducer of this cause."


def test_the_reproducer_tells_sizes_only() -> None:
    outcome = {"passed": False, "kind": "wrong_values", "op": "aten.pow", "error": 30.57, "inputs": "SECRET"}
    model = FakeModel(("run_reproducer", {}), SUBMIT)
    agent(model, reproduce=lambda: outcome).run("task")
    assert "3e+01" in model.seen[1][0][-1]["content"]
    assert "SECRET" not in repr(model.seen)


def test_without_a_test_run_a_valid_document_is_accepted_as_untested() -> None:
    result = agent(FakeModel(SUBMIT), test=None).run("task")
    assert result.facts == {"passed": True, "tested": False}


def test_only_true_counts_as_passed() -> None:
    model = FakeModel(SUBMIT)
    with pytest.raises(LimitReached):
        agent(model, test=lambda candidate: {"passed": "yes"}).run("task")


def test_a_bounded_claim_reaches_the_candidate() -> None:
    claims: list[Claim] = []

    def build(code: str, claim: Claim) -> Candidate:
        claims.append(claim)
        return Candidate("f", "p", "float16", ())

    agent(FakeModel(("submit", {**SUBMIT[1], "exactness": "bounded", "bound": 1e-4})), build=build).run("task")
    assert claims == [Claim(Exactness.BOUNDED, 1e-4, "same")]


def test_malformed_answers_are_exceptions_of_their_own() -> None:
    with pytest.raises(MalformedAnswer):
        bench().use(type("Call", (), {"name": "nothing", "arguments": {}})())


def test_the_loop_stays_short() -> None:
    import inspect

    from agents.drafters.llm import agent as module

    assert len(inspect.getsource(module).splitlines()) <= 200
