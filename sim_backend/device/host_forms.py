"""Printing and pickling of device tensors: both go through a copy on the host.

torch prints with device operations, which the profile may refuse, and pickles raw storage, which would put DL16 codes
into a file that says fp16. `install()` redirects torch's two internal functions for tensors on "spyre" alone.
"""

from __future__ import annotations

from typing import Any

import torch

_installed: list[str] = []


def install() -> None:
    """Redirect printing and pickling of device tensors. Idempotent."""
    if _installed:
        return
    _installed.append("torch")
    _redirect_printing()
    _redirect_pickling()


def _redirect_printing() -> None:
    from torch import _tensor_str

    plain = _tensor_str._tensor_str

    def print_host_copy(self: torch.Tensor, indent: int) -> str:
        return plain(self.cpu() if self.device.type == "spyre" else self, indent)

    _tensor_str._tensor_str = print_host_copy


def _redirect_pickling() -> None:
    plain = torch.Tensor._reduce_ex_internal

    def pickle_host_copy(self: torch.Tensor, proto: int) -> Any:
        if self.device.type != "spyre" or _is_fake(self):
            return plain(self, proto)
        rebuild = torch._utils._rebuild_device_tensor_from_cpu_tensor
        return rebuild, (self.detach().cpu(), self.dtype, str(self.device), self.requires_grad)

    torch.Tensor._reduce_ex_internal = pickle_host_copy


def _is_fake(t: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(t, FakeTensor)
