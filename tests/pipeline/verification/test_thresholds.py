"""Thresholds have one home: no other module of the factory spells a limit of the gate."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pipeline
from pipeline.verification.gate import THRESHOLDS

ROOT = Path(pipeline.__file__).parent
SOURCES = sorted((ROOT / "verification").glob("*.py"))
TELLING = {v for v in THRESHOLDS.values() if v not in {1.5, 3.0, 4.0, 0.02, 1e-6}}  # the rest are common numbers


def literals(path: Path) -> Iterator[tuple[int, float]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            yield node.lineno, node.value


def test_no_module_of_verification_but_the_gate_spells_a_threshold() -> None:
    found = [
        f"{path.name}:{line} {value}"
        for path in SOURCES
        if path.name != "gate.py"
        for line, value in literals(path)
        if value in TELLING
    ]
    assert len(SOURCES) > 5
    assert found == []


def test_the_table_holds_the_design_s_values() -> None:
    design = {"device_token_cosine": 0.99, "cpu_token_cosine": 0.999, "norm_tolerance": 0.02, "pooled_cosine": 0.999}
    design |= {"centred_pooled_cosine": 0.99, "spearman": 0.995, "error_ratio_pass": 1.5, "error_ratio_unknown": 3.0}
    design |= {"ideal_token_cosine": 0.999, "exact_ulp": 4.0, "exact_relative": 1e-12}
    assert {k: THRESHOLDS[k] for k in design} == design
