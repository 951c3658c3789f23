"""The deterministic drafter: patterns with parameters from the diagnosis, documents by rewrite rules that are data."""

from agents.drafters.rules.drafter import RulesDrafter

__all__ = ["RulesDrafter"]
