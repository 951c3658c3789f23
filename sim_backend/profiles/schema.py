"""What a profile's YAML may hold. A violation names the file, the key and what is allowed there.

Tables without an entry here (numerics, limits, copies, ...) take their keys and types from `base.yaml`, which defines
them; what a value may be beyond its type is in `CHOICES`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from sim_backend.errors import SpyreProfileError

LETTERS = "NDKSVHFXU"
ERRATA = frozenset(f"E-{n:02}" for n in range(1, 74) if n != 62)  # facts section 6: 72 entries, E-62 unused
OPEN = ("ops", "errata", "pow_exponents", "opfuncs", "needs")  # tables that a file may add keys to
ROUNDINGS = ("truncate", "nearest_up", "nearest_even")
CHOICES: dict[str, tuple[Any, ...]] = {
    "numerics.h2d_rounding": ROUNDINGS,
    "numerics.d2h_rounding": ROUNDINGS,
    "numerics.h2d_infinity": ("rebias", "saturate_finite", "preserve"),
    "numerics.matmul_accumulation": ("fp32", "chunked", "serial"),
    "numerics.reduction_accumulation": ("serial", "chunked", "fp32"),
    "numerics.layer_norm": ("exx2", "two_pass"),
    "limits.conversions": ("table", "removed"),
    "limits.layouts": ("current", "of_2025"),
    "copies.refusal": ("raise", "abort"),
}
_POWERS = ("mul", "native", "erratum", "unimplemented", "decompose", None)
_DTYPE = r"(float16|bfloat16|float32|float8_e4m3fn|int64|int32|int16|int8|uint8|bool)"


class Field(NamedTuple):
    """What a value must be, in words, and the test of it."""

    allowed: str
    accepts: Callable[[Any], bool]


def _matches(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(accepts, value))


_WORD = _matches(r"\w+")
_OPERATION = Field("an ATen operation such as aten.abs or aten.pow.Scalar", _matches(r"aten\.\w+(\.\w+)?"))
_CELL = Field(f"a letter of {' '.join(LETTERS)}, or two as in 'X / N'", _matches(rf"[{LETTERS}]( ?/ ?[{LETTERS}])?"))
_TABLE = Field("a table", lambda value: isinstance(value, Mapping))
_WORDS = Field("a list of names", _list_of(_WORD))
TOP: dict[str, Field] = {
    "description": Field("text", lambda v: isinstance(v, str)),
    "cut_date": Field("a date", lambda v: isinstance(v, datetime.date)),
    "ideal": Field("true or false", lambda v: isinstance(v, bool)),
    "replaces": Field(f"a list of {', '.join(OPEN)}", _list_of(lambda v: v in OPEN)),
    "loop_ops": _WORDS,
    "reductions": _WORDS,
    "fp32_ops": _WORDS,
    "int_ops": _WORDS,
    "conversions": Field("a list of pairs such as float16>bfloat16", _list_of(_matches(f"{_DTYPE}>{_DTYPE}"))),
}
ENTRIES: dict[str, tuple[Field, Field]] = {
    "ops": (_OPERATION, _CELL),
    "needs": (_OPERATION, _WORDS),
    "opfuncs": (Field("a name", _WORD), Field("a name", _WORD)),
    "pow_exponents": (
        Field("a number or default", _matches(r"-?\d+(\.\d+)?|default")),
        Field("mul, native, erratum, unimplemented, decompose or null", lambda v: v in _POWERS),
    ),
    "errata": (
        Field("E-01 to E-73 without E-62", lambda v: v in ERRATA),
        Field("a table of parameters, or null for off", lambda v: v is None or isinstance(v, Mapping)),
    ),
}


def check(source: str, content: Mapping[str, Any], base: Mapping[str, Any]) -> None:
    """Raises SpyreProfileError for the first key or value of `content` that is not allowed; `source` names its file."""
    for problem in _problems(content, base):
        raise SpyreProfileError(f"{source}: {problem}")


def _problems(content: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[str]:
    for key, value in content.items():
        if key in TOP:
            yield from _value(key, value, TOP[key])
        elif key in ENTRIES:
            yield from _entries(key, value) if isinstance(value, Mapping) else _value(key, value, _TABLE)
        elif key not in base:
            yield f"unknown key {key}; allowed: {', '.join(sorted({*TOP, *base}))}"
        elif not _same_kind(value, base[key]):
            yield f"{key} is {value!r}; allowed: {_kind(base[key])}"
        elif isinstance(value, Mapping):
            yield from _fixed(key, value, base[key])


def _value(path: str, value: Any, field: Field) -> Iterator[str]:
    if not field.accepts(value):
        yield f"{path} is {value!r}; allowed: {field.allowed}"


def _entries(table: str, values: Mapping[str, Any]) -> Iterator[str]:
    name, value_field = ENTRIES[table]
    for key, value in values.items():
        if not name.accepts(key):
            yield f"unknown key {table}.{key}; allowed: {name.allowed}"
        yield from _value(f"{table}.{key}", value, value_field)


def _fixed(table: str, values: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        path = f"{table}.{key}"
        if key not in base:
            yield f"unknown key {path}; allowed: {', '.join(sorted(base))}"
        elif path in CHOICES and value not in CHOICES[path]:
            yield f"{path} is {value!r}; allowed: {', '.join(map(str, CHOICES[path]))}"
        elif not _same_kind(value, base[key]):
            yield f"{path} is {value!r}; allowed: {_kind(base[key])}"


def _same_kind(value: Any, example: Any) -> bool:
    if isinstance(example, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(example, bool)
    if isinstance(example, int | float) and isinstance(value, int | float):
        return isinstance(example, float) or isinstance(value, int)
    if isinstance(example, list | tuple):
        return isinstance(value, list | tuple)
    if example is None:
        return True
    return isinstance(value, Mapping if isinstance(example, Mapping) else type(example))


def _kind(example: Any) -> str:
    kinds = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
    return kinds.get(type(example), "a list" if isinstance(example, list | tuple) else "a table")
