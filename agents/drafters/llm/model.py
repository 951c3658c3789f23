"""The model: one call to an OpenAI-compatible endpoint, with its money reserved before and settled after.

The answer's body is read with a limit on bytes and time, because an endpoint may never stop talking. Whatever the
endpoint does wrong is an EndpointProblem; whatever the model says is data.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents.drafters.llm.budget import BudgetLedger
from agents.drafters.llm.messages import Answer, Charge, Usage, read_message
from agents.drafters.llm.settings import ASSUMED, FREE, LlmSettings, Price, price_of
from agents.errors import EndpointProblem
from agents.redact import redactor_of

if TYPE_CHECKING:
    from openai import OpenAI

BYTES_PER_TOKEN = 2
"""Prompt tokens are reserved as bytes / 2: code and JSON have more bytes per token, so this errs upwards."""

NOTHING = Charge(0.0, 0.0, 0)

MAX_COUNT = 100_000_000
"""A larger count of tokens is no count."""


class ChatModel:
    """A model behind an endpoint. Closing it closes the connections."""

    def __init__(
        self,
        settings: LlmSettings,
        budget: BudgetLedger,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings, self.budget, self._clock, self._sleep = settings, budget, clock, sleep
        self._client = connect(settings)
        self._redactor = redactor_of(settings.api_key, settings.base_url)
        self._native = settings.protocol != "text"
        self.name = settings.model or only_model(self._client)

    @property
    def protocol(self) -> str:
        """How tools are called: `tools` by the endpoint's own means, `text` by fenced blocks."""
        return "tools" if self._native else "text"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        seconds: float,
        keep: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """One answer within `seconds`. Raises EndpointProblem after the last try, BudgetExhausted before any.

        `keep` stores the answer before its money is settled, so that a paid answer is not lost. The answer's charge,
        or that of the EndpointProblem, holds the tries that failed as well.
        """
        deadline, lost = self._clock() + min(seconds, self.settings.limits.call_seconds), NOTHING
        for attempt in range(self.settings.retries + 1):
            try:
                return self._try(messages, tools, deadline, keep, lost)
            except EndpointProblem as error:
                lost = error.charge = lost.plus(error.charge)
                pause = max(error.retry_after_s, PAUSE_S * attempt)
                if attempt == self.settings.retries or not error.may_pass or self._clock() + pause >= deadline:
                    raise
                self._sleep(pause)
        raise AssertionError("unreachable")

    def _try(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        deadline: float,
        keep: Callable[[Answer], None] | None,
        lost: Charge,
    ) -> Answer:
        price = price_of(self.name, self.settings)
        prompt = len(json.dumps([messages, tools]).encode()) // BYTES_PER_TOKEN
        tokens = prompt + self.settings.limits.answer_tokens
        reserved = (price or ASSUMED).of(prompt, self.settings.limits.answer_tokens)
        reservation = self.budget.reserve(model=self.name, cost_usd=reserved, tokens=tokens)
        usage = Usage()
        try:
            data = self._redactor.data(self._post(messages, tools, deadline))
            usage = read_usage(data)
            answer = read_answer(data, usage, charge_of(usage, price, reserved, tokens), len(messages))
            answer = replace(answer, charge=lost.plus(answer.charge), reservation=reservation)
            if keep is not None:
                keep(answer)
            return answer
        except EndpointProblem as error:
            error.charge = charge_of(usage, price, reserved, tokens)
            raise
        finally:
            self.budget.settle(reservation, cost_usd=cost_of(usage, price), tokens=usage.total)

    def _post(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], deadline: float) -> Any:
        import openai
        from httpx2 import HTTPError

        given = {"tools": tools} if tools and self._native else {}
        create: Any = self._client.chat.completions.with_streaming_response.create
        left = max(0.1, deadline - self._clock())
        try:
            with create(
                model=self.name,
                messages=messages,
                max_tokens=self.settings.limits.answer_tokens,
                timeout=left,
                **given,
            ) as response:
                body = self._read(response.iter_bytes(8192), deadline)
        except (openai.OpenAIError, HTTPError) as error:
            raise self._problem(error, messages) from error
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise EndpointProblem(f"the LLM endpoint's answer is not JSON: {error}") from error

    def _problem(self, error: Exception, messages: list[dict[str, Any]]) -> EndpointProblem:
        """What to make of a failed try. Without tool calls in the conversation, 400 and 422 may mean that there are
        none: then the next try uses the text protocol, if the protocol is not set."""
        problem = EndpointProblem(f"the LLM endpoint failed: {self._redactor.text(describe(error))}")
        status = getattr(error, "status_code", None)
        problem.retry_after_s = retry_after_s(error)
        problem.may_pass = status is None or status in PASSING or status >= 500
        called = any(message.get("tool_calls") for message in messages)
        if status in (400, 422) and self._native and not called and self.settings.protocol == "auto":
            self._native, problem.may_pass = False, True
        return problem

    def _read(self, chunks: Iterable[bytes], deadline: float) -> bytes:
        body = bytearray()
        for chunk in chunks:
            body += chunk
            if len(body) > self.settings.limits.answer_bytes:
                raise EndpointProblem(f"the LLM endpoint's answer exceeds {self.settings.limits.answer_bytes} bytes")
            if self._clock() > deadline:
                raise EndpointProblem("the LLM endpoint's answer did not end in time")
        return bytes(body)


PASSING = frozenset({408, 409, 425, 429})
"""Client errors that may pass; the others say the same again."""

PAUSE_S = 1.0
"""Waited before the second repetition, twice that before the third."""


def retry_after_s(error: Exception) -> float:
    """The seconds that an error's Retry-After header asks to wait; 0 without one, or for a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    text = str(headers.get("retry-after", ""))
    return float(text) if text.isdigit() and len(text) < 6 else 0.0


def connect(settings: LlmSettings) -> OpenAI:
    """A client of the endpoint. Raises EndpointProblem if its address cannot be used."""
    import openai

    timeout = settings.limits.call_seconds
    try:
        # Retries are ours: each try reserves its own money. Endpoints without keys still want the header.
        return openai.OpenAI(
            base_url=settings.base_url, api_key=settings.api_key or "none", timeout=timeout, max_retries=0
        )
    except (openai.OpenAIError, ValueError) as error:
        said = redactor_of(settings.api_key, settings.base_url).text(
            f"{settings.base_url!r} cannot be used: {describe(error)}"
        )
        raise EndpointProblem(f"the LLM endpoint {said}") from error


def list_entries(client: OpenAI) -> dict[str, dict[str, Any]]:
    """What the endpoint says of each model that it lists, by id. Raises EndpointProblem."""
    import openai
    from httpx2 import HTTPError

    try:
        return {model.id: model.model_dump() for model in client.models.list().data}
    except (openai.OpenAIError, HTTPError, ValueError, TypeError, AttributeError) as error:
        said = redactor_of(client.api_key).text(describe(error))
        raise EndpointProblem(f"the LLM endpoint does not list its models: {said}") from error


def only_model(client: OpenAI) -> str:
    """The one model of the endpoint. Raises EndpointProblem if there are none or several."""
    names = list(list_entries(client))
    if len(names) != 1:
        raise EndpointProblem(f"the LLM endpoint lists {len(names)} models: set SPYRE_FACTORY_LLM_MODEL to one of them")
    return names[0]


def describe(error: Exception) -> str:
    """The error in one line of at most 300 characters, with its HTTP status if it has one."""
    status = getattr(error, "status_code", None)
    text = " ".join(str(error).split())[:300] or type(error).__name__
    return f"HTTP {status}: {text}" if status else text


def read_usage(data: Any) -> Usage:
    """Tokens as reported; unknown where they are missing or not counts."""
    usage = data.get("usage") if isinstance(data, dict) else None
    counts = [usage.get(key) if isinstance(usage, dict) else None for key in ("prompt_tokens", "completion_tokens")]
    return Usage(*(c if type(c) is int and 0 <= c <= MAX_COUNT else None for c in counts))


def cost_of(usage: Usage, price: Price | None) -> float | None:
    """USD of what was used; None if the price or the usage is unknown, unless the model is free anyway."""
    if price == FREE:
        return 0.0
    if price is None or usage.prompt is None or usage.completion is None:
        return None
    return price.of(usage.prompt, usage.completion)


def charge_of(usage: Usage, price: Price | None, reserved: float, tokens: int) -> Charge:
    """What a call is charged: its cost and tokens as used, or as reserved where they are unknown."""
    cost = cost_of(usage, price)
    return Charge(cost, reserved if cost is None else cost, tokens if usage.total is None else usage.total)


def read_answer(data: Any, usage: Usage, charge: Charge, number: int = 0) -> Answer:
    """The answer in the OpenAI format, only the fields that are used. Raises EndpointProblem if it is not one.

    `number` makes ids for calls that have none.
    """
    choices = data.get("choices") if isinstance(data, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise EndpointProblem("the LLM endpoint's answer is not a chat completion: it has no message")
    spoken, extra = read_message(message, number)
    return Answer(spoken, usage, charge, str(choice.get("finish_reason")), extra=extra)
