"""Profiles on disk: names, the alias `latest`, merging of differences and overrides, and comparison of two profiles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import yaml

from sim_backend.errors import SpyreProfileError
from sim_backend.profiles.profile import Profile, _plain
from sim_backend.profiles.schema import check

SIMULATOR_VERSION = "1"  # raise when numbers, refusals or texts of the simulator change without a change of the data
DEFAULT = "profile-2026-08"
ALIASES = {"latest": "profile-2026-09"}
NAMES = ("profile-2025-11", "profile-2026-04", "profile-2026-08", "profile-2026-09", "profile-ideal")


def list_profiles() -> tuple[str, ...]:
    """The names `load_profile` takes, oldest first, without aliases."""
    return NAMES


def resolve_alias(name: str) -> str:
    """The stored name for `name`; `latest` is never stored. Raises SpyreProfileError for an unknown name."""
    resolved = ALIASES.get(name, name)
    if resolved not in NAMES:
        raise SpyreProfileError(f"unknown profile {name!r}: one of {', '.join([*NAMES, *ALIASES])}")
    return resolved


def load_profile(name: str = DEFAULT, overrides: dict[str, Any] | None = None) -> Profile:
    """The profile `name`, its data merged with `overrides`.

    `overrides` has the shape of the data ({"errata": {"E-17": None}} switches a defect off) or, for one key,
    a dotted path ({"numerics.h2d_rounding": "truncate"}). Raises SpyreProfileError for a key or value that
    `sim_backend.profiles.schema` does not allow, there or in a file.
    """
    stored = resolve_alias(name)
    nested = _nest(overrides or {})
    base, own = _read("base"), _read(stored)
    check(f"override of {stored}", nested, base)
    alone: dict[str, Any] = {key: {} for key in own.pop("replaces", ())}
    content = _merge(_merge(base | alone, own), nested)
    return Profile.of(stored, SIMULATOR_VERSION, content)


def diff(a: Profile, b: Profile) -> dict[str, tuple[Any, Any]]:
    """Dotted path -> (value in `a`, value in `b`) for everything that differs; a missing value is None."""
    left, right = dict(_leaves(a.to_dict())), dict(_leaves(b.to_dict()))
    paths = sorted(left.keys() | right.keys())
    return {p: (left.get(p), right.get(p)) for p in paths if left.get(p) != right.get(p)}


@cache
def _text(name: str) -> str:
    return resources.files("sim_backend.profiles").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = _load_cached(name)
    return _copy(data)


@cache
def _load_cached(name: str) -> Any:
    content = parse(f"{name}.yaml", _text(name))
    check(f"{name}.yaml", content, content if name == "base" else _load_cached("base"))
    return content


def parse(source: str, text: str) -> dict[str, Any]:
    """The table that `text` holds. Raises SpyreProfileError, naming `source`, if it is no YAML table."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = yaml.load(text, Loader=loader)  # noqa: S506 a safe loader, in C where it is built
    except yaml.YAMLError as error:
        raise SpyreProfileError(f"{source}: no YAML: {error}") from error
    if not isinstance(content, dict):
        raise SpyreProfileError(f"{source}: holds {type(content).__name__}; allowed: a table")
    return content


def _copy(value: Any) -> Any:
    return {k: _copy(v) for k, v in value.items()} if isinstance(value, dict) else value


def _merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """`base` with `change` laid over it; lists are replaced, None switches an entry off."""
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _nest(overrides: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in overrides.items():
        head, _, rest = path.partition(".")
        is_path = bool(rest) and head not in ("aten",)
        nested = _merge(nested, {head: _nest({rest: value})} if is_path and head.isidentifier() else {path: value})
    return {k: _plain(v) for k, v in nested.items()}


def _leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, data
