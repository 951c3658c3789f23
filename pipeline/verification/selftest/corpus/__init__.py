"""The corpus: every cheat with its twin, every honest candidate. Data only; nothing here runs."""

from __future__ import annotations

from pipeline.verification.selftest.corpus import (
    checker,
    device,
    documents,
    effects,
    mathematics,
    outputs,
    parameters,
    patterns,
    processes,
    rare_patterns,
    state,
)
from pipeline.verification.selftest.corpus.quick import PROOF, QUICK, QUICK_HONEST
from pipeline.verification.selftest.entry import Cheat, Honest

__all__ = ["CHEATS", "HONEST", "PROOF", "QUICK", "QUICK_HONEST", "WITHOUT"]

CHEATS: tuple[Cheat, ...] = tuple(
    entry
    for part in (outputs, state, effects, checker, processes, documents, mathematics, parameters, device)
    for entry in part.CHEATS
)
HONEST: tuple[Honest, ...] = (*patterns.HONEST, *rare_patterns.HONEST)
WITHOUT = rare_patterns.WITHOUT
