"""Drafters and the sandbox they run in."""
