"""Catalogue rows, sweeps over them, and what they add up to."""
