"""A cache hit replays the audit, and never crosses profiles or versions of the simulator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from sim_backend.compiler import identity, runtime
from sim_backend.compiler.checks import GraphChecks
from sim_backend.compiler.ir import Bundler


def compile_once() -> dict[str, Any]:
    """Compile one graph from nothing and return its audit."""
    torch._dynamo.reset()
    counters.clear()
    x = torch.randn(4, 192).half().to("spyre")
    torch.compile(lambda v: torch.nn.functional.layer_norm(v * 3, (192,)), fullgraph=True, dynamic=False)(x)
    return runtime.AUDITS[-1]


def test_a_cache_hit_replays_the_audit(use: Any) -> None:
    first = compile_once()
    runtime.AUDITS.clear()
    torch._inductor.codecache.PyCodeCache.cache_clear()
    assert compile_once() == first
    assert counters["inductor"]["fxgraph_cache_hit"] or counters["aot_autograd"]["autograd_cache_hit"]
    assert [t[0] for t in first["triggers"]] == ["E-18"]


def test_another_profile_is_another_key(use: Any) -> None:
    august = compile_once()
    use("profile-2026-08", {"errata.E-18": None})
    other = compile_once()
    assert not counters["inductor"]["fxgraph_cache_hit"]
    assert august["profile_digest"] != other["profile_digest"]
    assert other["triggers"] == []


def test_other_sources_are_another_key(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity.compile_identity()
    monkeypatch.setattr(identity, "sources_digest", lambda: "edited")
    assert identity.compile_identity() != before


def test_both_passes_carry_the_identity(use: Any) -> None:
    assert GraphChecks().uuid() == Bundler().uuid() == identity.compile_identity()
    assert use().digest in identity.compile_identity()
