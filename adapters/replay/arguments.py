"""Checks one node's arguments against its operator's schema before anything is built, and decodes them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping
from typing import Any

import torch

from .errors import DocumentRefused
from .operators import FIXED, STRINGS

DTYPES: dict[str, torch.dtype] = {
    str(d).removeprefix("torch."): d
    for d in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}
DEVICES = frozenset({"cpu", "spyre"})
MEMORY_FORMATS = {"contiguous_format": torch.contiguous_format, "preserve_format": torch.preserve_format}
LARGEST = 1 << 40
WRAPPED: dict[str, tuple[str, Mapping[str, Any]]] = {
    "ScalarType": ("dtype", DTYPES),
    "Device": ("device", dict.fromkeys(DEVICES)),
    "MemoryFormat": ("memory_format", MEMORY_FORMATS),
    "Layout": ("layout", {"strided": torch.strided}),
}
"""Schema type → the word of its object in a document, and the names it may hold."""

_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_LIST = re.compile(r"^List\[(.*)\]$")
_OPTIONAL = re.compile(r"^Optional\[(.*)\]$")

Numbering = Callable[[int], None]
"""Checks that a reference is to an earlier value; raises DocumentRefused."""


def is_name(value: Any, names: Container[str]) -> bool:
    """True if the value is text and one of the names: what a document holds may be of any type."""
    return type(value) is str and value in names


def check_arguments(op: Any, args: Any, kwargs: Any, earlier: Numbering) -> None:
    """Names, count and types against the schema, texts and fixed values against the tables. Raises DocumentRefused."""
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise DocumentRefused("args must be a list and kwargs an object")
    for argument, value in pair_arguments(op, args, kwargs):
        _check_value(op, argument, str(argument.real_type), value, earlier)
        allowed = FIXED.get((str(op), argument.name))
        if allowed is not None and not any(type(value) is type(a) and value == a for a in allowed):
            raise DocumentRefused(f"{op}: {argument.name!r} must be {allowed[0]!r}")


def pair_arguments(op: Any, args: list[Any], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Each given value with the schema's argument. Raises DocumentRefused for one too many, too few or unknown."""
    declared = list(op._schema.arguments)
    positional = [a for a in declared if not a.kwarg_only]
    if len(args) > len(positional):
        raise DocumentRefused(f"{op} takes at most {len(positional)} positional arguments")
    paired = list(zip(positional, args, strict=False))
    given = {a.name for a, _ in paired}
    by_name = {a.name: a for a in declared}
    for name, value in kwargs.items():
        if name not in by_name or name in given:
            raise DocumentRefused(f"{op} has no free argument {str(name)[:80]!r}")
        given.add(name)
        paired.append((by_name[name], value))
    missing = [a.name for a in declared if a.name not in given and not a.has_default_value()]
    if missing:
        raise DocumentRefused(f"{op} needs the argument {missing[0]!r}")
    if any(a.is_out for a in declared if a.name in given):
        raise DocumentRefused(f"{op} writes to an argument given by name")
    return paired


def _check_value(op: Any, argument: Any, kind: str, value: Any, earlier: Numbering) -> None:
    optional, listed = _OPTIONAL.match(kind), _LIST.match(kind)
    if optional:
        if value is not None:
            _check_value(op, argument, optional[1], value, earlier)
    elif listed:
        _check_list(op, argument, listed[1], value, earlier)
    elif kind == "Tensor":
        _check_tensor(op, argument, value, earlier)
    elif kind == "str":
        if not is_name(value, STRINGS.get((str(op), argument.name), ())):
            raise DocumentRefused(f"{op}: {argument.name!r} may not be {str(value)[:80]!r}")
    elif kind in WRAPPED:
        word, names = WRAPPED[kind]
        if not isinstance(value, dict) or set(value) != {word} or not is_name(value[word], names):
            raise DocumentRefused(f"{op}: {argument.name!r} is not a known {word}")
    else:
        check_number(kind, value, f"{op}: {argument.name!r}")


def _check_list(op: Any, argument: Any, kind: str, value: Any, earlier: Numbering) -> None:
    if kind == "int" and type(value) is int:
        value = [value]
    if not isinstance(value, list) or len(value) > 4096:
        raise DocumentRefused(f"{op}: {argument.name!r} must be a list")
    for item in value:
        _check_value(op, argument, kind, item, earlier)


def _check_tensor(op: Any, argument: Any, value: Any, earlier: Numbering) -> None:
    if isinstance(value, dict) and set(value) == {"ref"} and type(value["ref"]) is int:
        earlier(value["ref"])
    elif argument.name in ("self", "input", "query", "weight"):
        raise DocumentRefused(f"{op}: {argument.name!r} must be a reference")
    else:
        check_number("number", value, f"{op}: {argument.name!r}")


def check_number(kind: str, value: Any, what: str) -> None:
    """One number of a schema type (int, float, number, bool). Raises DocumentRefused."""
    if kind == "bool":
        fits = type(value) is bool
    elif kind == "int":
        fits = (type(value) is int and abs(value) <= LARGEST) or value == 9223372036854775807
    elif isinstance(value, dict):
        fits = set(value) == {"float"} and is_name(value["float"], _FLOATS)
    else:
        fits = type(value) in (int, float, bool) and (type(value) is float or abs(value) <= LARGEST)
    if kind not in ("bool", "int", "float", "number") or not fits:
        raise DocumentRefused(f"{what} is not a {kind}")


def decode(
    value: Any, reference: Callable[[int], Any], device: Callable[[str], Any], dtype: Callable[[Any], Any]
) -> Any:
    """A checked argument as Python value; devices and dtypes through the given maps."""
    if isinstance(value, list):
        return [decode(v, reference, device, dtype) for v in value]
    if not isinstance(value, dict):
        return value
    ((word, name),) = value.items()
    if word == "ref":
        return reference(name)
    if word == "device":
        return device(name)
    if word == "dtype":
        return dtype(DTYPES[name])
    if word == "float":
        return _FLOATS[name]
    return MEMORY_FORMATS[name] if word == "memory_format" else torch.strided


def references(value: Any) -> list[int]:
    """Every reference in an argument."""
    if isinstance(value, list):
        return [n for v in value for n in references(v)]
    return [value["ref"]] if isinstance(value, dict) and "ref" in value else []


def references_of(node: Mapping[str, Any]) -> list[int]:
    """Every reference of a node."""
    return references(node["args"]) + references(list(node.get("kwargs", {}).values()))
