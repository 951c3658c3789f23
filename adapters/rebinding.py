"""Stock code with other helpers: a function whose global names are looked up elsewhere, for one instance only.

A stock forward calls helpers of its module by name (`apply_rotary_pos_emb`, `build_rpos`). Replacing the helper in the
module would change every model of the class; here the same code object gets a namespace of its own, and only the
instance calls it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from torch import nn

from .reversal import Reversal


def calls_by_name(module: nn.Module, name: str, method: str = "forward") -> bool:
    """True if the method's own code names the global `name`."""
    function = own_function(module, method)
    return function is not None and name in function.__code__.co_names


def own_function(module: nn.Module, method: str = "forward") -> Any:
    """The plain function behind a method, without decorators; that of a patch before, if there is one. Else None."""
    found = getattr(module.__dict__.get(method), "__func__", None) or getattr(type(module), method, None)
    function = None if found is None else inspect.unwrap(found)
    return function if hasattr(function, "__code__") else None


@lru_cache(maxsize=1024)
def named_globals(kind: type) -> dict[str, frozenset[str]]:
    """Per method that the class defines or inherits: the global and attribute names its own code uses."""
    functions = ((n, inspect.unwrap(getattr(kind, n))) for n in dir(kind) if callable(getattr(kind, n, None)))
    return {n: frozenset(f.__code__.co_names) for n, f in functions if hasattr(f, "__code__")}


def global_of(module: nn.Module, name: str, method: str = "forward") -> Any:
    """What the method finds under the global `name`. Raises KeyError if there is nothing."""
    return own_function(module, method).__globals__[name]


def rebind(undo: Reversal, module: nn.Module, names: Mapping[str, Any], method: str = "forward") -> None:
    """Gives the instance the same method with `names` in place of those globals.

    Modules of one class with the same helpers share one function, so that they compile once.
    """
    give(undo, module, own_function(module, method), names, method)


def give(
    undo: Reversal,
    module: nn.Module,
    function: Any,
    names: Mapping[str, Any] = MappingProxyType({}),
    method: str = "forward",
) -> None:
    """Gives the instance `function` as its method, with `names` as globals of it."""
    undo.set_attribute(module, method, types.MethodType(rebound(function, names), module))


_made: dict[tuple[Any, ...], tuple[types.FunctionType, Any]] = {}


def rebound(function: Any, names: Mapping[str, Any]) -> types.FunctionType:
    """The same code in a copy of its namespace with `names` replaced, made once per function and objects.

    `__name__` is left out of the copy: by it the compiler would find the stock module's names again.
    """
    key = (function, *((name, _identity(names[name])) for name in sorted(names)))
    if key not in _made:
        _made[key] = (_with_names(function, names), tuple(names.values()))
    return _made[key][0]


def _identity(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def _with_names(function: Any, names: Mapping[str, Any]) -> types.FunctionType:
    scope = {**function.__globals__, **names}
    scope.pop("__name__", None)
    made = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made
