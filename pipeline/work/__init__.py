"""Runs, leases, messages, workers and the children that do the work."""
