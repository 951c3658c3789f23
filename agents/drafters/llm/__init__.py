"""The coding agent over an OpenAI-compatible endpoint. Nothing it writes runs outside the sandbox."""

from agents.drafters.llm.budget import BudgetLedger, MemoryLedger
from agents.drafters.llm.drafter import LlmDrafter
from agents.drafters.llm.settings import SCRIPTED_MODEL, Limits, LlmSettings, Price

__all__ = ["SCRIPTED_MODEL", "BudgetLedger", "Limits", "LlmDrafter", "LlmSettings", "MemoryLedger", "Price"]
