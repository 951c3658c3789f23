"""Printing, pickling and loading of device tensors: host forms outside, device formats inside.

torch prints with device operations, which the profile may refuse, and pickles raw storage, which would put DL16 codes
into a file that says fp16; `torch.load(map_location="spyre")` brings a file's bytes to the device before it knows their
dtype. `install()` redirects torch's internal functions for tensors on "spyre" alone.
"""

from __future__ import annotations

from typing import Any

import torch

_installed: list[str] = []


def install() -> None:
    """Redirect printing, pickling and loading of device tensors. Idempotent."""
    if _installed:
        return
    _installed.append("torch")
    _redirect_printing()
    _redirect_pickling()
    _redirect_storage_copies()


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


def _redirect_storage_copies() -> None:
    plain = torch.UntypedStorage.copy_

    def copy_and_mark(self: torch.UntypedStorage, source: Any, *args: Any, **kwargs: Any) -> torch.UntypedStorage:
        ends = (source.device.type, self.device.type)
        if ends == ("spyre", "cpu"):
            source = _host_form(source)
        plain(self, source, *args, **kwargs)
        if ends == ("cpu", "spyre"):
            _settle(self)
        elif ends == ("spyre", "spyre"):
            _whole(self, _dtype_of(source) or torch.uint8)
        return self

    torch.UntypedStorage.copy_ = copy_and_mark  # type: ignore[assignment]


def _host_form(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """The storage's values as the host keeps them. Bytes that no typed tensor has claimed stay as they are."""
    dtype = _dtype_of(storage)
    return storage if dtype is None else _whole(storage, dtype).cpu().untyped_storage()


def _settle(storage: torch.UntypedStorage) -> None:
    """Host bytes have come: they take the device's form now if their dtype is known, else when it is."""
    from sim_backend.device import ext

    ext.mark_host_bytes(_whole(storage, torch.uint8))
    if (dtype := _dtype_of(storage)) is not None:
        _whole(storage, dtype)


def _dtype_of(storage: torch.UntypedStorage) -> torch.dtype | None:
    """What the memory was allocated for, or first used as; None if it was bytes so far."""
    from sim_backend.device import ext

    dtype: torch.dtype | None = ext.dtype_of_memory(_whole(storage, torch.uint8))
    return dtype


def _whole(storage: torch.UntypedStorage, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage)


def _is_fake(t: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(t, FakeTensor)
