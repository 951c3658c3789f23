"""Verdicts of a real card, kept apart from those of the simulator: nothing counts them as coverage."""
