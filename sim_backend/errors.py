"""Errors and warnings of the simulated device.

    RuntimeError
    ├── Unsupported          the device's compiler refuses: "Spyre backend does not support: <thing>"
    ├── BuildError           the simulator's C++ part cannot be built or loaded
    ├── CompilerFault        the simulator's compiler failed where it should have refused: a fault of ours
    └── SpyreProfileError    the device profile cannot be chosen (any more)
    UserWarning
    ├── FallbackWarning      an operation runs on the CPU
    └── DowncastWarning      int64 is kept as int32

Imports nothing, so that warning filters can name the classes without starting anything.
"""

from __future__ import annotations


class Unsupported(RuntimeError):
    """The device's compiler refuses an operation, a dtype or a layout (same name and text as the real one's)."""

    def __init__(self, thing: str) -> None:
        super().__init__(f"Spyre backend does not support: {thing}")
        self.thing = thing

    def __reduce__(self) -> tuple[type[Unsupported], tuple[str]]:
        return (Unsupported, (self.thing,))


class BuildError(RuntimeError):
    """The simulator's C++ part cannot be built or loaded; the message says what to install."""


class CompilerFault(RuntimeError):
    """The simulator's compiler failed on a graph without refusing anything: a fault of ours, no finding on a model."""


class SpyreProfileError(RuntimeError):
    """A device profile is unknown, or chosen after the first use of the device."""


class FallbackWarning(UserWarning):
    """An operation has no device kernel and runs on the CPU: right, but slow."""


class DowncastWarning(UserWarning):
    """int64 tensors are kept as int32 on the device: values beyond 31 bits are lost."""
