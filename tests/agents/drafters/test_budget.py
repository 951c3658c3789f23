"""The ledger for one process."""

from __future__ import annotations

import pytest

from agents.drafters.llm import MemoryLedger
from agents.errors import BudgetExhausted


def test_reservations_count_until_they_are_settled() -> None:
    ledger = MemoryLedger(1.0)
    first = ledger.reserve(model="m", cost_usd=0.6, tokens=10)
    with pytest.raises(BudgetExhausted):
        ledger.reserve(model="m", cost_usd=0.6, tokens=10)
    ledger.settle(first, cost_usd=0.1, tokens=5)
    ledger.reserve(model="m", cost_usd=0.6, tokens=10)
    assert ledger.charged_usd == pytest.approx(0.7)


def test_an_unknown_cost_is_not_zero() -> None:
    ledger = MemoryLedger(1.0)
    ledger.settle(ledger.reserve(model="m", cost_usd=0.6, tokens=10), cost_usd=None, tokens=None)
    assert ledger.charged_usd == 0.6
