"""The budget protocol: money is reserved before each call and settled after. An unknown cost is never zero."""

from __future__ import annotations

import threading
from typing import Protocol

from agents.errors import BudgetExhausted


class BudgetLedger(Protocol):
    """A ledger of one day's money, shared by everybody who drafts."""

    def reserve(self, *, model: str, cost_usd: float, tokens: int) -> str:
        """Set aside what a call may cost at most. Raises BudgetExhausted if the day's budget does not hold it."""
        ...

    def settle(self, reservation: str, *, cost_usd: float | None, tokens: int | None) -> None:
        """Replace the reserved amount by the real one; None is unknown, and leaves the reserved amount charged."""
        ...


class MemoryLedger:
    """A ledger for one process: for use without a database. Safe to share between threads."""

    def __init__(self, daily_budget_usd: float) -> None:
        self.daily_budget_usd = daily_budget_usd
        self.entries: dict[str, float] = {}
        self.settled: dict[str, float | None] = {}
        self._lock = threading.Lock()

    @property
    def charged_usd(self) -> float:
        """Settled costs, and for open or unknown ones what was reserved."""
        return sum(self.entries.values())

    def reserve(self, *, model: str, cost_usd: float, tokens: int) -> str:
        """As the protocol says."""
        with self._lock:
            if self.charged_usd + cost_usd > self.daily_budget_usd:
                raise BudgetExhausted(
                    f"a call to {model!r} of up to {tokens} tokens may cost {cost_usd:.4f} USD, and "
                    f"{self.charged_usd:.4f} of {self.daily_budget_usd:.4f} USD are charged today"
                )
            reservation = f"r{len(self.entries) + 1}"
            self.entries[reservation] = cost_usd
            return reservation

    def settle(self, reservation: str, *, cost_usd: float | None, tokens: int | None) -> None:
        """As the protocol says."""
        with self._lock:
            self.settled[reservation] = cost_usd
            if cost_usd is not None:
                self.entries[reservation] = cost_usd
