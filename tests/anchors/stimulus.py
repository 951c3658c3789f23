"""The table of stimuli: name, facts, what is published per profile, and the public calls that show it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from anchors.published import Published

NOV, APR, AUG, SEP = "profile-2025-11", "profile-2026-04", "profile-2026-08", "profile-2026-09"
Pair = tuple[Any, torch.Tensor]


@dataclass(frozen=True)
class Stimulus:
    """`run` returns (result, what it is compared with) or raises; `published` says what comes out, by profile.

    `alone`: it leaves the process unusable and runs in one of its own.
    """

    name: str
    facts: tuple[str, ...]
    published: Mapping[str, Published]
    run: Callable[[], Pair]
    long: bool = False
    alone: bool = False


TABLE: dict[str, Stimulus] = {}


def stimulus(
    *facts: str, published: Mapping[str, Published], long: bool = False, alone: bool = False
) -> Callable[[Any], Any]:
    """Enter the decorated function in the table under its own name."""

    def enter(run: Callable[[], Pair]) -> Callable[[], Pair]:
        name = run.__name__
        assert name not in TABLE, f"two stimuli are called {name}"
        TABLE[name] = Stimulus(name, facts, published, run, long, alone)
        return run

    return enter


def load() -> dict[str, Stimulus]:
    """The whole table: every module beside this one in `stimuli`."""
    import anchors.stimuli

    for module in pkgutil.iter_modules(anchors.stimuli.__path__):
        importlib.import_module(f"anchors.stimuli.{module.name}")
    return TABLE


def exact(x: torch.Tensor) -> torch.Tensor:
    """`x` in fp32 cut to nine fraction bits, so that fp16 and DL16 hold it and copies add no error of their own."""
    return (x.float().contiguous().view(torch.int32) & ~((1 << 14) - 1)).view(torch.float32)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    """Normal values of standard deviation `scale`, as `exact` leaves them."""
    return exact(torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale)


def there(x: Any, dtype: torch.dtype = torch.float16) -> Any:
    """`x` on the device, floating values in `dtype`."""
    return (x.to(dtype) if x.is_floating_point() else x).to("spyre")


def compiled(function: Callable[..., Any], *host: torch.Tensor, dtype: torch.dtype = torch.float16) -> Any:
    """The result of `function` compiled for the device, run on copies of `host`."""
    return torch.compile(function, dynamic=False)(*(there(x, dtype) for x in host))


def eager(function: Callable[..., Any], *host: torch.Tensor, dtype: torch.dtype = torch.float16) -> Any:
    """The result of `function` called eagerly on copies of `host` on the device."""
    return function(*(there(x, dtype) for x in host))


def both(function: Callable[..., Any], *host: torch.Tensor, dtype: torch.dtype = torch.float16) -> Pair:
    """The compiled result beside the CPU's in fp32."""
    return compiled(function, *host, dtype=dtype), function(*host)


def both_eagerly(function: Callable[..., Any], *host: torch.Tensor, dtype: torch.dtype = torch.float16) -> Pair:
    """The eager result beside the CPU's in fp32."""
    return eager(function, *host, dtype=dtype), function(*host)
