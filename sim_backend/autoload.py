"""Makes "spyre" a device of torch, on `import torch` (entry point `torch.backends`) or on `import sim_backend`.

`register()` only names the device and hangs `torch.spyre` in: it builds nothing, loads no library and never raises,
because a failure here would break `import torch` for programs that never use the device. It steps aside when a real
`torch_spyre` is installed or when another backend has taken PrivateUse1.
"""

from __future__ import annotations

import warnings

DEVICE_NAME = "spyre"


def register() -> bool:
    """Register the device, once; True if "spyre" is the simulator afterwards. Never raises."""
    try:
        return _register()
    except Exception as error:  # noqa: BLE001  (the boundary to `import torch`)
        _tell(error)
        return False


def real_device_installed() -> bool:
    """True if a `torch_spyre` can be imported or is installed: then the simulator leaves the device name to it."""
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import find_spec

    if find_spec("torch_spyre") is not None:
        return True
    try:
        distribution("torch-spyre")
    except PackageNotFoundError:
        return False
    return True


def _register() -> bool:
    import torch

    from sim_backend.device import surface

    if getattr(torch, DEVICE_NAME, None) is surface:
        return True
    if real_device_installed() or hasattr(torch, DEVICE_NAME) or not _take_the_name():
        return False
    torch._register_device_module(DEVICE_NAME, surface)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    return True


def _take_the_name() -> bool:
    import torch

    if torch._C._get_privateuse1_backend_name() not in ("privateuseone", DEVICE_NAME):
        return False
    torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    return True


def _tell(error: Exception) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.warn(f"the simulated Spyre device is not available: {error}", RuntimeWarning, stacklevel=3)
