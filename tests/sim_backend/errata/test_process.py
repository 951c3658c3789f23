"""E-53, E-54, E-55, E-59: what ends a process, a bundle, or the patience of Dynamo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from sim_backend.errata.process import CompiledCalls, bundle_problem
from sim_backend.profiles import load_profile

from .calls import call_of, operand, profiles_with, triggered


def child(source: str, profile: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that uses `profile`."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "SPYRE_SIM_PROFILE": profile}
    prelude = "import torch, sim_backend\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(source)], env=env, capture_output=True, text=True, timeout=240
    )


# --- E-53
SEPTEMBER = load_profile("profile-2026-09")


@pytest.mark.fact("E-53", "3.7")
def test_e53_the_257th_distinct_eager_call_fails_and_known_ones_go_on() -> None:
    done = child(
        """
        x = torch.ones(300, 64, dtype=torch.float16).to("spyre")
        for rows in range(1, 257):
            torch.exp(x[:rows])
        torch.exp(x[:5])
        try:
            torch.exp(x[:257])
        except RecursionError as error:
            print("raised", error)
        """,
        "profile-2026-09",
    )
    assert done.returncode == 0, done.stderr
    assert "raised maximum recursion depth exceeded" in done.stdout
    assert "accumulated_recompile_limit (256)" in done.stdout


@pytest.mark.fact("E-53")
def test_e53_counts_what_a_compiled_instance_is_specialised_to() -> None:
    calls = CompiledCalls()
    x = torch.ones(4, 64)
    for args in [(x, 1.0), (x + 1, 1.0), (x, 2.0), (x.t(), 1.0), (x.double(), 1.0), (x[:2], 1.0)]:
        calls.note(SEPTEMBER, "aten.add.Tensor", args, {})
    calls.note(SEPTEMBER, "aten.sub.Tensor", (x, 1.0), {})
    calls.note(SEPTEMBER, "aten.fill.Scalar", (x, 1.0), {})  # no compiled operation
    assert len(calls.seen) == 6  # equal sizes, strides, dtypes and constants are one


@pytest.mark.fact("E-53")
def test_e53_is_of_september_only() -> None:
    names = ("profile-2026-04", "profile-2026-08", "profile-2026-09", "profile-ideal")
    assert [n for n in names if load_profile(n).has("E-53")] == ["profile-2026-09"]


# --- E-54
@pytest.mark.fact("E-54")
def test_e54_neg_of_a_sliced_view_ends_the_process_in_april() -> None:
    done = child(
        """
        x = torch.ones(8, 128, dtype=torch.float16).to("spyre")
        print((-x).cpu().sum().item(), flush=True)
        -torch.as_strided(x, (8, 64), (128, 1))
        print("survived")
        """,
        "profile-2026-04",
    )
    assert done.returncode == -signal.SIGSEGV
    assert done.stdout.split() == ["-1024.0"]


@pytest.mark.fact("E-54")
def test_e54_is_the_page_fault_of_april_and_spares_whole_tensors_and_intermediates() -> None:
    view = operand(8, 64, stride=(128, 1), extent=1024)
    assert profiles_with(call_of("aten.neg.default", view), "E-54") == ["2026-04"]
    assert SEPTEMBER.has("E-54")  # the report of September is about virtual functions
    assert triggered(call_of("aten.neg.default", operand(8, 64)), "profile-2026-04") == []
    inside = operand(8, 64, stride=(128, 1), extent=1024, graph_input=False)
    assert triggered(call_of("aten.neg.default", inside), "profile-2026-04") == []


# --- E-55
@pytest.mark.fact("E-55", "4.4")
def test_e55_a_bundle_beyond_the_length_aborts(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-08", {"errata": {"E-55": {"longest_bundle": 3}}})
    x = torch.ones(4, 64).half()

    def chain(length: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def steps(t: torch.Tensor) -> torch.Tensor:
            for _ in range(length):
                t = t.exp().log()
            return t

        return steps

    assert run(chain(1), x).shape == (4, 64)
    with pytest.raises(InductorError, match=r"dxp_standalone.*SIGABRT"):
        run(chain(2), x)


@pytest.mark.fact("E-55")
def test_e55_is_of_august_and_september_and_far_from_a_block() -> None:
    names = ("profile-2026-04", "profile-2026-08", "profile-2026-09", "profile-ideal")
    assert [n for n in names if bundle_problem(load_profile(n), 10**6)] == ["profile-2026-08", "profile-2026-09"]
    assert bundle_problem(SEPTEMBER, 1000) is None


# --- E-59
@pytest.mark.fact("E-59", "1.6")
def test_e59_a_complex_constant_kills_the_process_in_april() -> None:
    done = child(
        """
        x = torch.ones(4, 64, dtype=torch.float16).to("spyre")
        print((x * 2).cpu().sum().item(), flush=True)
        x * 1j
        print("survived")
        """,
        "profile-2026-04",
    )
    assert done.returncode == -signal.SIGFPE
    assert done.stdout.split() == ["512.0"]


@pytest.mark.fact("E-59", "1.6")
def test_e59_is_an_ordinary_refusal_in_august() -> None:
    done = child(
        """
        x = torch.ones(4, 64, dtype=torch.float16).to("spyre")
        try:
            x * 1j
        except RuntimeError as error:
            print(error)
        """,
        "profile-2026-08",
    )
    assert done.returncode == 0, done.stderr
    assert "Spyre backend does not support dtype Complex" in done.stdout


@pytest.mark.fact("E-59")
def test_e59_is_of_april_only() -> None:
    assert profiles_with(call_of("aten.mul.Tensor", operand(4, 64), 1j), "E-59") == ["2026-04"]
    assert triggered(call_of("aten.mul.Tensor", operand(4, 64), 2.0), "profile-2026-04") == []
