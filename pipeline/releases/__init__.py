"""Adapters: which one serves a checkpoint, release and withdrawal."""
