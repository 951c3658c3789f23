"""A device that exists in name only: placement moves fake tensors to it, nothing can be computed there."""

from __future__ import annotations

import torch

NAME = "spyre"


def pretend_device() -> torch.device:
    """Makes `torch.device("spyre")` usable for fake tensors in this process, unless it is already.

    Meant for a child process: it stays for the life of the process. No kernel is registered.
    """
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    if torch._C._get_privateuse1_backend_name() != NAME:
        _setup_privateuseone_for_python_backend(NAME)
    return torch.device(NAME)
