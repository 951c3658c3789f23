"""The simulated Spyre: a torch device "spyre", its compiler, its numbers and its defects, for one dated profile.

    import sim_backend
    sim_backend.use_profile("profile-2026-04")    # before the first use of the device; the default is profile-2026-08
    x.to("spyre")
    sim_backend.capability(model, inputs)
    sim_backend.GraphForm(model.to("spyre"))      # one graph instead of one per block

Importing this registers the device if torch is loaded and has not done so; `import torch` does it by itself when this
package is installed. With TORCH_DEVICE_BACKEND_AUTOLOAD=0 neither does; `use_profile` and `capability` still do.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim_backend.capabilities import capability
    from sim_backend.graph_form import GraphForm
    from sim_backend.profiles import Profile, current_profile

__all__ = ["GraphForm", "capability", "current_profile", "use_profile"]

_LAZY = {
    "GraphForm": "sim_backend.graph_form",
    "capability": "sim_backend.capabilities",
    "current_profile": "sim_backend.profiles",
}


def use_profile(name: str, overrides: dict[str, Any] | None = None, /, **keywords: Any) -> Profile:
    """Choose the device profile of this process, once, before the device is first used.

    Overrides are profile data by dotted path (`sim_backend.profiles.load_profile`). Raises SpyreProfileError for an
    unknown name, or if another profile is already in use.
    """
    from sim_backend import profiles
    from sim_backend.autoload import register

    profile = profiles.use_profile(name, overrides, **keywords)
    register()
    return profile


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'sim_backend' has no attribute {name!r}")
    from importlib import import_module

    from sim_backend.autoload import register

    register()
    return getattr(import_module(_LAZY[name]), name)


def _register_if_torch_is_loaded() -> None:
    if "torch" in sys.modules and os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0":
        from sim_backend.autoload import register

        register()


_register_if_torch_is_loaded()
