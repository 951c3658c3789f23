"""The clones of the native loops (SSE2, AVX2, AVX-512) give the same bits: the processor never decides a value.

The loader picks one clone of each loop for the whole process, so the others are called by their address in the library
that is in use.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sim_backend.device import build, ext

pytestmark = pytest.mark.fact("1.6")

LIBRARY = "dl16_ext"
CLONE = re.compile(r"^([0-9a-f]+) t _ZN4dl1612_GLOBAL__N_1\d+([a-z_]+)E(\w+)\.(default|avx2|arch_x86_64_v4)$", re.M)
NEEDS = {
    "default": set(),
    "avx2": {"avx2"},
    "arch_x86_64_v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
ROWS, WIDTH = 19, 200  # neither a whole number of vectors, of sticks, nor of the rows that are summed at once
N = ROWS * WIDTH


class Norm(ctypes.Structure):
    """The operands of LayerNorm (numerics/ext/rows.cpp)."""

    _fields_ = (
        ("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p),
        ("eps", ctypes.c_float), ("share", ctypes.c_float), ("least", ctypes.c_float),
    )  # fmt: skip


def random_bits(n: int, dtype: torch.dtype, seed: int) -> Tensor:
    """Every bit at random: subnormals, infinities and NaN among them."""
    width = dtype.itemsize
    return torch.randint(0, 256, (n * width,), dtype=torch.uint8, generator=generator(seed)).view(dtype)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def values(n: int, seed: int) -> Tensor:
    """Ordinary values on the DL16 grid."""
    return ext.to_compute(torch.randn(n, generator=generator(seed)).half().to("spyre"))


TABLE = torch.linspace(-1, 1, 65536)
LEFT, RIGHT, GAIN, SHIFT = values(N, 1), values(N, 2), values(WIDTH, 3), values(WIDTH, 4)
CODES = random_bits(N, torch.int16, 7)
GAINS = (GAIN, SHIFT), (GAIN, None), (None, SHIFT), (None, None)
NORMS = [
    Norm(w if w is None else w.data_ptr(), b if b is None else b.data_ptr(), 1e-5, 1 / WIDTH, 0.0) for w, b in GAINS
]

# A loop's arguments by the mangled types of its parameters: several calls, "out" standing for where the result goes.
OUT = "out"
ONE_TO_ONE = {
    "PKfPfl": (torch.float32, torch.float32),
    "PKfPsl": (torch.float32, torch.int16),
    "PKsPfl": (torch.int16, torch.float32),
    "PKlPll": (torch.int64, torch.int64),
    "PKtPsl": (torch.int16, torch.int16),
    "PKsPtl": (torch.int16, torch.int16),
}
CALLS: dict[str, tuple[torch.dtype, list[tuple[object, ...]]]] = {
    **{types: (out, [(random_bits(N, given, 5), OUT, N)]) for types, (given, out) in ONE_TO_ONE.items()},
    "PKfS2_Pfl": (torch.float32, [(LEFT, TABLE, OUT, N), (random_bits(N, torch.float32, 6), TABLE, OUT, N)]),
    "PKflS2_lPfl": (
        torch.float32, [(LEFT, a, RIGHT, b, OUT, N // max(a, b, 1)) for a, b in ((1, 1), (1, 0), (2, 3))],
    ),
    "PKslPflll": (
        torch.float32, [(CODES, 64, OUT, 59, 64, 59), (CODES, 70, OUT, 40, 3, 40)],
    ),
    "PKfPflll": (torch.float32, [(LEFT, OUT, ROWS, WIDTH, chunk) for chunk in (0, 16, 64)]),
    "PKfS2_Pflll": (torch.float32, [(LEFT, TABLE, OUT, ROWS, WIDTH, chunk) for chunk in (0, 64)]),
    "PKfRKNS0_4NormEPflll": (
        torch.float32, [(LEFT, norm, OUT, ROWS, WIDTH, chunk) for norm in NORMS for chunk in (0, 64)],
    ),
}  # fmt: skip


@cache
def clones() -> dict[tuple[str, str], dict[str, int]]:
    """(loop, types of its parameters) -> target -> address in this process."""
    path = build.library_path(LIBRARY)
    listed = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
    entry = f"PyInit_{LIBRARY}"
    (offset,) = re.findall(rf"^([0-9a-f]+) T {entry}$", listed, re.M)
    base = (ctypes.cast(getattr(ctypes.CDLL(str(path)), entry), ctypes.c_void_p).value or 0) - int(offset, 16)
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for place, loop, types, target in CLONE.findall(listed):
        found[loop, types][target] = base + int(place, 16)
    return found


def runnable() -> list[str]:
    """The targets whose instructions this processor has."""
    flags = set(re.findall(r"\w+", Path("/proc/cpuinfo").read_text(encoding="ascii")))
    return [target for target, needed in NEEDS.items() if needed <= flags]


def result(address: int, arguments: tuple[object, ...], dtype: torch.dtype) -> Tensor:
    """The bits that the loop at `address` writes."""
    out = torch.zeros(N, dtype=dtype)
    given: list[object] = []
    for argument in arguments:
        tensor = out if argument is OUT else argument
        if isinstance(tensor, Tensor):
            given.append(ctypes.c_void_p(tensor.data_ptr()))
        else:
            given.append(ctypes.byref(tensor) if isinstance(tensor, Norm) else ctypes.c_int64(tensor))  # type: ignore[arg-type]
    call: Callable[..., None] = ctypes.CFUNCTYPE(None)(address)
    call(*given)
    return out.view(torch.uint8)


def same_bits(addresses: dict[str, int], target: str, arguments: tuple[object, ...], dtype: torch.dtype) -> bool:
    """True if `target` writes what the clone for every processor does."""
    plain = result(addresses["default"], arguments, dtype)
    return bool(plain.any()) and torch.equal(plain, result(addresses[target], arguments, dtype))


def test_every_clone_of_a_loop_gives_the_same_bits() -> None:
    targets = runnable()
    different = [
        (loop, target, number)
        for (loop, types), addresses in clones().items()
        for number, arguments in enumerate(CALLS[types][1])
        for target in targets[1:]
        if target in addresses and not same_bits(addresses, target, arguments, CALLS[types][0])
    ]
    assert different == []


def test_the_loops_compared_are_those_of_the_sources() -> None:
    loops = {loop for loop, _ in clones()}
    for name in ("round", "encode", "add", "sub", "mul", "sum", "softmax", "norm"):
        assert {f"{name}_{rounding}" for rounding in ("truncate", "up", "even")} <= loops
    assert {"decode_loop", "wrap_loop", "map_loop", "half_up", "bfloat_ep", "to_half_en", "to_bfloat_inf"} <= loops
    assert {types for _, types in clones()} == CALLS.keys()
    assert all({"default", "avx2"} <= addresses.keys() for addresses in clones().values())
