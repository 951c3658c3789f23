"""Drafters: `rules` (data only) and `llm` (a coding agent), behind one protocol and one setting."""

from agents.drafters.outcome import DraftedPatch, DraftEnd, DraftOutcome, DraftReport, LeftOver
from agents.drafters.select import compose, draft_with

__all__ = ["DraftEnd", "DraftOutcome", "DraftReport", "DraftedPatch", "LeftOver", "compose", "draft_with"]
