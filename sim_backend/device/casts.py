"""Conversions between dtypes during copies (facts 3.6 and 5.3): which the device makes, which go through the host.

The device's C++ part calls `Casts.check` for every copy that changes the dtype, before it copies.
"""

from __future__ import annotations

import signal
import subprocess
from typing import Any

from sim_backend.device.allow import is_allowed
from sim_backend.device.fallback_counts import note_fallback

_COPY = "aten._to_copy.default"
_ON_DEVICE = 2
# c10's names of dtypes -> torch's
_NAMES = {
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Float": "float32",
    "Double": "float64",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}
_ONE_FORMAT = ({"int64", "int32"},)  # both int32 on the device: nothing to convert


_HALF = ("float16", "bfloat16")

# What a conversion gets wrong, as the C++ part numbers it
RIGHT, SWAPPED_STICKS, REVERSED_TAIL = 0, 1, 2


class Casts:
    """The conversion rules of one profile."""

    def __init__(self, profile: Any) -> None:
        self._profile = profile
        self._refuses = profile.cell(_COPY, "eager") == "X"

    def check(self, source: str, target: str, direction: int) -> int:
        """What the conversion gets wrong: RIGHT, SWAPPED_STICKS or REVERSED_TAIL (E-38).

        Raises RuntimeError where the profile's runtime converts or copies nothing, CalledProcessError where E-38
        aborts; warns where a conversion uses the CPU.
        """
        if is_allowed():
            return RIGHT
        names = _NAMES.get(source, source), _NAMES.get(target, target)
        if names[0] == names[1]:
            return self._check_plain_copy()
        if self._refuses or (direction != _ON_DEVICE and not self._profile.copy_casts):
            raise RuntimeError("Spyre backend does not support type conversion yet during copy.")
        if direction != _ON_DEVICE:
            return RIGHT
        if self._profile.has("E-38"):
            return _defect(*names)
        if set(names) not in _ONE_FORMAT and not self._profile.converts(*names):
            note_fallback(_COPY, f"conversion from torch.{names[0]} to torch.{names[1]} is falling back to cpu")
        return RIGHT

    def _check_plain_copy(self) -> int:
        if self._profile.copies_on_device == "refused":
            raise RuntimeError("Error: In-device copy not implemented.")
        return RIGHT


def _defect(source: str, target: str) -> int:
    """E-38: fp32 to 16 bits mixes the sticks, fp16 to bf16 the last one, 16 bits to fp32 aborts the compiler."""
    if source == "float32" and target in _HALF:
        return SWAPPED_STICKS
    if source in _HALF and target == "float32":
        raise subprocess.CalledProcessError(
            -signal.SIGABRT, ["dxp_standalone", "--bundle", "-d", "sdsc_fused_to_dtype"]
        )
    return REVERSED_TAIL if source in _HALF and target in _HALF else RIGHT
