"""DL16 (SEN169_FP16) on CPU tensors: 1 sign, 6 exponent (bias 31) and 9 fraction bits; facts page 1.6.

No subnormals: exponent 0 with a fraction is an ordinary value, zero is exponent 0 and fraction 0, and 0x7FFF is the one
code of NaN and infinity. Codes are int16 tensors. Results and constants are rounded as `set_op_rounding` says, which
the device does once with the profile's numerics.op_rounding; by default to nearest, ties away from zero ("ties up",
the one mode the patent describes). What lies beyond the largest finite value 8.57e9 becomes 0x7FFF, which decodes to
NaN. Host conversions take their rounding and their treatment of inf and NaN from the profile. C++ on all threads;
nothing here needs the device.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = [
    "CONSTANT_MAX",
    "Infinity",
    "Rounding",
    "decode",
    "decode_into",
    "encode",
    "encode_constant",
    "encode_into",
    "from_host",
    "op_rounding",
    "round_constant",
    "round_dl16",
    "round_dl16_",
    "set_op_rounding",
    "to_host",
]

CONSTANT_MAX = 0x7DFF  # the encoder of constants saturates here: 4.2908e9


class Rounding(IntEnum):
    """How the fraction bits that DL16 lacks are dropped. Members are the profiles' words in upper case."""

    TRUNCATE = 0
    NEAREST_UP = 1
    NEAREST_EVEN = 2


class Infinity(IntEnum):
    """What a host copy makes of inf and NaN.

    REBIAS reads exponent 31 of fp16 as an ordinary one (inf becomes 65536), SATURATE_FINITE gives 0x6FFF
    (33,521,664; of bf16, which reaches further, 0x7DFF), PRESERVE the code 0x7FFF, which copies back as an infinity.
    """

    REBIAS = 0
    SATURATE_FINITE = 1
    PRESERVE = 2


@cache
def _ext() -> Any:
    from sim_backend.device.build import load

    return load("dl16_ext")


def set_op_rounding(rounding: Rounding) -> None:
    """How results and constants of this process are rounded from now on."""
    _ext().set_op_rounding(int(rounding))


def op_rounding() -> Rounding:
    """How results and constants are rounded."""
    return Rounding(_ext().op_rounding())


def encode(x: torch.Tensor) -> torch.Tensor:
    """float32 of any shape and strides to int16 codes of the same shape."""
    return _ext().encode(x)


def decode(codes: torch.Tensor) -> torch.Tensor:
    """int16 codes to float32, exactly; 0x7FFF and 0xFFFF become NaN."""
    return _ext().decode(codes)


def encode_into(x: torch.Tensor, codes: torch.Tensor) -> None:
    """`encode(x)` written into the int16 tensor `codes`, which may be strided."""
    _ext().encode_into(x, codes)


def decode_into(codes: torch.Tensor, x: torch.Tensor) -> None:
    """`decode(codes)` written into the float32 tensor `x`, which may be strided."""
    _ext().decode_into(codes, x)


def round_dl16(x: torch.Tensor) -> torch.Tensor:
    """float32 rounded to a DL16 value by `op_rounding`, still float32: `decode(encode(x))` in one pass."""
    return _ext().round_dl16(x)


def round_dl16_(x: torch.Tensor) -> torch.Tensor:
    """`round_dl16` in place; returns `x`."""
    return _ext().round_dl16_(x)


def from_host(x: torch.Tensor, rounding: Rounding, infinity: Infinity) -> torch.Tensor:
    """fp16 or bf16 host values to codes, as a host-to-device copy does under the given policies."""
    return _ext().from_host(x, int(rounding), int(infinity))


def to_host(
    codes: torch.Tensor,
    dtype: torch.dtype,
    infinity: Infinity = Infinity.SATURATE_FINITE,
    rounding: Rounding = Rounding.NEAREST_EVEN,
) -> torch.Tensor:
    """Codes to fp16 (beyond 65504: inf; below 2**-14 rounded, all else exact) or bf16 (truncated toward zero).

    0x7FFF becomes NaN, or an infinity of the code's sign under `Infinity.PRESERVE`.
    """
    return _ext().to_host(codes, dtype, int(rounding), int(infinity))


def encode_constant(value: float) -> int:
    """The code (0 to 0xFFFF) of a scalar constant: rounded as results are, saturating at 0x7DFF; NaN is 0x7FFF."""
    import torch

    code = int(encode(torch.tensor([value], dtype=torch.float32)).item()) & 0xFFFF
    magnitude = code & 0x7FFF
    if magnitude <= CONSTANT_MAX or value != value:
        return code
    return (code & 0x8000) | CONSTANT_MAX


def round_constant(value: float) -> float:
    """The value a scalar constant has on the device."""
    import torch

    signed = (encode_constant(value) ^ 0x8000) - 0x8000
    return float(decode(torch.tensor([signed], dtype=torch.int16)).item())
