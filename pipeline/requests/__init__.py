"""Requests for an adapter: one id that threads through every row it causes."""
