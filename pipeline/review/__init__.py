"""Candidates, their evidence, and what people decide about them."""
