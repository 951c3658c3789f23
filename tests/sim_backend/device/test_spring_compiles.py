"""In spring nothing is copied on the device, and graphs compile all the same: Inductor's own copies are no user's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.fact("3.2")

CHILD = """
import torch
x = torch.ones(64, 64).half().to("spyre")
print(torch.compile(lambda x: x * 2, dynamic=False)(x).cpu().sum().item())
try:
    torch.empty_like(x).copy_(x)
except RuntimeError as error:
    print(error)
"""


def test_a_graph_compiles_where_nothing_is_copied_on_the_device() -> None:
    environment = {**os.environ, "SPYRE_SIM_PROFILE": "profile-2026-04", "OMP_NUM_THREADS": "1"}
    child = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert child.stdout.splitlines() == ["8192.0", "Error: In-device copy not implemented."], child.stderr[-2000:]


CUBE = """
import torch, sim_backend
from torch import nn
class Block(nn.Module):
    def forward(self, x):
        return torch.pow(x, 3) + x
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList([Block()])
    def forward(self, x):
        return self.layer[0](x)
report = sim_backend.capability(Model().eval(), {"x": torch.ones(64, 64)}, "profile-2026-04", dtype=torch.float16)
print([(f.kind, f.op) for f in report.failures])
"""


def test_a_report_of_spring_names_the_refused_cube_and_no_fault_of_ours() -> None:
    environment = {**os.environ, "SPYRE_SIM_PROFILE": "profile-2026-04", "OMP_NUM_THREADS": "1"}
    child = subprocess.run(
        [sys.executable, "-c", CUBE], env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert child.stdout.splitlines() == ["[('unsupported_op', 'aten.pow.Tensor_Scalar')]"], child.stderr[-2000:]
