"""Stages of one checkpoint, run in fresh child processes: capture, execute, diagnose, draft and verify."""
