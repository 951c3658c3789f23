"""The errors of drafting. A leaf module: it imports nothing of ours.

AgentError
├── CandidateRefused        what was drafted is refused; the message goes back to whoever drafted it
├── MalformedAnswer         a model's answer cannot be used; the message is sent back to the model
├── SandboxUnavailable      no working sandbox: nothing drafted is run (`rules` goes on, it runs none)
├── DraftingOff             no endpoint or no daily budget is set, so `llm` does not start
├── EndpointProblem         the endpoint does not answer as an OpenAI-compatible endpoint should
├── BudgetExhausted         the ledger refuses to reserve the next call
├── LimitReached            a draft used up its turns, tokens, seconds, money or submissions
└── Overtaken               another draft of the same target has a patch

None of them counts against a model: only `CandidateRefused` speaks about a patch.
"""

from __future__ import annotations

from typing import Any, ClassVar


class AgentError(Exception):
    """Base of all errors of drafting. `code` is stable, `status` is the HTTP status of an answer about it."""

    code: ClassVar[str] = "agent_error"
    status: ClassVar[int] = 500


class CandidateRefused(AgentError):
    """What was drafted is refused. The message says why, in words its drafter can act on, and holds no secrets."""

    code, status = "candidate_refused", 422


class MalformedAnswer(AgentError):
    """A model's answer cannot be used. The message is what to send back to it."""

    code, status = "malformed_answer", 502


class SandboxUnavailable(AgentError):
    """There is no working sandbox, so no drafted code runs."""

    code, status = "sandbox_unavailable", 503


class DraftingOff(AgentError):
    """The `llm` drafter is off: it needs an endpoint and a daily budget."""

    code, status = "drafting_off", 409


class EndpointProblem(AgentError):
    """The endpoint is unreachable, refuses, or does not answer in the OpenAI format.

    `charge` is what the failed tries cost (`agents.drafters.llm.messages.Charge`); None where nothing was reserved.
    `may_pass` is False where another try would fail alike; `retry_after_s` is what the endpoint asks to wait.
    """

    code, status = "endpoint_problem", 503
    charge: Any = None
    may_pass: bool = True
    retry_after_s: float = 0.0


class BudgetExhausted(AgentError):
    """The ledger refuses to reserve money for the next call."""

    code, status = "budget_exhausted", 429


class LimitReached(AgentError):
    """A draft used up its turns, tokens, seconds, money or submissions."""

    code, status = "limit_reached", 429


class Overtaken(AgentError):
    """Another draft of the same target, at the same time, has a patch."""

    code, status = "overtaken", 409
