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
from agents.drafters.llm.messages import Answer, Charge, Usage
from agents.drafters.llm.settings import ASSUMED, FREE, LlmSettings, Price, price_of
from agents.errors import EndpointProblem

if TYPE_CHECKING:
    from openai import OpenAI

BYTES_PER_TOKEN = 2
"""Prompt tokens are reserved as bytes / 2: code and JSON have more bytes per token, so this errs upwards."""

NOTHING = Charge(0.0, 0.0, 0)


class ChatModel:
    """A model behind an endpoint. Closing it closes the connections."""

    def __init__(
        self, settings: LlmSettings, budget: BudgetLedger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings, self.budget, self._clock = settings, budget, clock
        self._client = connect(settings)
        self._native = settings.protocol != "text"
        self.name = settings.model or only_model(self._client)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], seconds: float) -> Answer:
        """One answer within `seconds`. Raises EndpointProblem after the last try, BudgetExhausted before any.

        The answer's charge, or that of the EndpointProblem, holds the tries that failed as well.
        """
        deadline, lost = self._clock() + min(seconds, self.settings.limits.call_seconds), NOTHING
        for attempt in range(self.settings.retries + 1):
            try:
                answer = self._try(messages, tools, deadline)
                return replace(answer, charge=lost.plus(answer.charge))
            except EndpointProblem as error:
                lost = error.charge = lost.plus(error.charge)
                if attempt == self.settings.retries or self._clock() >= deadline:
                    raise
        raise AssertionError("unreachable")

    def _try(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], deadline: float) -> Answer:
        price = price_of(self.name, self.settings)
        prompt = len(json.dumps([messages, tools]).encode()) // BYTES_PER_TOKEN
        tokens = prompt + self.settings.limits.answer_tokens
        reserved = (price or ASSUMED).of(prompt, self.settings.limits.answer_tokens)
        reservation = self.budget.reserve(model=self.name, cost_usd=reserved, tokens=tokens)
        usage = Usage()
        try:
            data = self._post(messages, tools, deadline)
            usage = read_usage(data)
            return read_answer(data, usage, charge_of(usage, price, reserved, tokens))
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
            # An endpoint without tool calls says so with 400 or 422: the next try uses the text protocol.
            self._native = self._native and not isinstance(
                error, openai.BadRequestError | openai.UnprocessableEntityError
            )
            raise EndpointProblem(f"the LLM endpoint failed: {describe(error)}") from error
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise EndpointProblem(f"the LLM endpoint's answer is not JSON: {error}") from error

    def _read(self, chunks: Iterable[bytes], deadline: float) -> bytes:
        body = bytearray()
        for chunk in chunks:
            body += chunk
            if len(body) > self.settings.limits.answer_bytes:
                raise EndpointProblem(f"the LLM endpoint's answer exceeds {self.settings.limits.answer_bytes} bytes")
            if self._clock() > deadline:
                raise EndpointProblem("the LLM endpoint's answer did not end in time")
        return bytes(body)


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
        raise EndpointProblem(f"the LLM endpoint {settings.base_url!r} cannot be used: {describe(error)}") from error


def list_models(client: OpenAI) -> list[str]:
    """The ids of the models that the endpoint lists. Raises EndpointProblem."""
    import openai
    from httpx2 import HTTPError

    try:
        return [model.id for model in client.models.list().data]
    except (openai.OpenAIError, HTTPError, ValueError, TypeError, AttributeError) as error:
        raise EndpointProblem(f"the LLM endpoint does not list its models: {describe(error)}") from error


def only_model(client: OpenAI) -> str:
    """The one model of the endpoint. Raises EndpointProblem if there are none or several."""
    names = list_models(client)
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
    prompt, completion = (c if isinstance(c, int) and not isinstance(c, bool) and c >= 0 else None for c in counts)
    return Usage(prompt, completion)


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


def read_answer(data: Any, usage: Usage, charge: Charge) -> Answer:
    """The answer in the OpenAI format, only the fields that are used. Raises EndpointProblem if it is not one."""
    from openai.types.chat import ChatCompletion
    from pydantic import ValidationError

    try:
        completion = ChatCompletion.model_validate(data)
        choice = completion.choices[0]
    except (ValidationError, IndexError) as error:
        raise EndpointProblem(f"the LLM endpoint's answer is not a chat completion: {describe(error)}") from error
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
        for c in choice.message.tool_calls or []
        if c.type == "function"
    ]
    message: dict[str, Any] = {"role": "assistant", "content": choice.message.content or ""}
    return Answer(message | ({"tool_calls": calls} if calls else {}), usage, charge, str(choice.finish_reason))
