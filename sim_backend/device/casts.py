"""Conversions between dtypes during copies (facts 3.6 and 5.3): which the device makes, which go through the host.

The device's C++ part calls `Casts.check` for every copy that changes the dtype, before it copies.
"""

from __future__ import annotations

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


class Casts:
    """The conversion rules of one profile."""

    def __init__(self, profile: Any) -> None:
        self._profile = profile
        self._refuses = profile.cell(_COPY, "eager") == "X"

    def check(self, source: str, target: str, direction: int) -> None:
        """Raises RuntimeError where the profile's runtime converts nothing; warns where a conversion uses the CPU."""
        if is_allowed():
            return
        if self._refuses or (direction != _ON_DEVICE and not self._profile.copy_casts):
            raise RuntimeError("Spyre backend does not support type conversion yet during copy.")
        names = _NAMES.get(source, source), _NAMES.get(target, target)
        if direction == _ON_DEVICE and set(names) not in _ONE_FORMAT and not self._profile.converts(*names):
            note_fallback(_COPY, f"conversion from torch.{names[0]} to torch.{names[1]} is falling back to cpu")
