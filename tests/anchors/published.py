"""What the facts page publishes of a stimulus, as data, and whether an observation agrees with it.

An observation is what `observe` writes: {"raised": {...}}, {"died": signal} or the figures of a result against the
CPU. Sizes agree within a factor (`band`), because the page gives them for one sample of data that is not here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

Observation = dict[str, Any]
Range = tuple[float, float]


@dataclass(frozen=True)
class Right:
    """Equals what the stimulus returns beside it (the CPU's result, or published values) within `within`."""

    within: float
    warns: str = ""

    def disagreement(self, seen: Observation) -> str | None:
        """Why `seen` is not this, or None."""
        if "max" not in seen:
            return f"no result: {seen}"
        if seen["nan"] or seen["max"] > self.within:
            return f"max difference {seen['max']:.4g}, NaN share {seen['nan']:.3g}; at most {self.within:g} expected"
        if self.warns and not any(re.search(self.warns, text) for text in seen["warnings"]):
            return f"no warning like {self.warns!r} among {seen['warnings']}"
        return None


@dataclass(frozen=True)
class Wrong:
    """Finite and wrong, without an error: published figures (number or range) hold within a factor of `band`."""

    figures: dict[str, float | Range] = field(default_factory=dict)
    band: float = 2.0
    at_least: float = 0.1

    def disagreement(self, seen: Observation) -> str | None:
        """Why `seen` is not this, or None."""
        if "max" not in seen:
            return f"no result: {seen}"
        if seen["nan"]:
            return f"NaN share {seen['nan']:.3g}"
        if seen["max"] < self.at_least:
            return f"right: max difference {seen['max']:.4g}"
        for name, published in self.figures.items():
            low, high = published if isinstance(published, tuple) else (published, published)
            if not low / self.band <= seen[name] <= high * self.band:
                return f"{name} is {seen[name]:.4g}; published {published}, band {self.band:g}"
        return None


@dataclass(frozen=True)
class Cosine:
    """Median token cosine against the CPU within [low, high]."""

    low: float
    high: float

    def disagreement(self, seen: Observation) -> str | None:
        """Why `seen` is not this, or None."""
        if "cosine" not in seen:
            return f"no result: {seen}"
        if seen["nan"] or not self.low <= seen["cosine"] <= self.high:
            return f"cosine {seen['cosine']:.4f}, NaN share {seen['nan']:.3g}; expected {self.low}..{self.high}"
        return None


@dataclass(frozen=True)
class NotANumber:
    """At least one NaN in the result."""

    def disagreement(self, seen: Observation) -> str | None:
        """Why `seen` is not this, or None."""
        return None if seen.get("nan") else f"no NaN: {seen}"


@dataclass(frozen=True)
class Raises:
    """A Python exception: class name (of the error or of the one it wraps), text, and a string on stderr above it."""

    kind: str
    text: str
    stderr: str = ""

    def disagreement(self, seen: Observation) -> str | None:
        """Why `seen` is not this, or None."""
        raised = seen.get("raised")
        if raised is None:
            return f"nothing raised: {seen}"
        if self.kind not in raised["classes"]:
            return f"{raised['classes'][0]} is no {self.kind}: {raised['text'][:200]}"
        if not re.search(self.text, raised["text"]):
            return f"text {raised['text'][:300]!r} does not match {self.text!r}"
        if self.stderr and self.stderr not in seen["stderr"] + raised["text"]:
            return f"backend string {self.stderr!r} not printed"
        return None


@dataclass(frozen=True)
class Dies:
    """The process is killed by a signal of this name."""

    signal: str

    def disagreement(self, seen: Observation) -> str | None:
        """Why `seen` is not this, or None."""
        return None if seen.get("died") == self.signal else f"not killed by {self.signal}: {seen}"


@dataclass(frozen=True)
class Either:
    """The page names two outcomes and not when which comes."""

    one: Right | Wrong | Cosine | NotANumber | Raises
    other: Right | Wrong | Cosine | NotANumber | Raises

    def disagreement(self, seen: Observation) -> str | None:
        """Why `seen` is neither, or None."""
        reasons = [self.one.disagreement(seen), self.other.disagreement(seen)]
        return None if None in reasons else " and ".join(map(str, reasons))


Published = Right | Wrong | Cosine | NotANumber | Raises | Dies | Either

ABORT = r"Command '\['dxp_standalone'.*died with <Signals\.SIGABRT: 6>"
"""What a refusal of the backend compiler reads like (facts 3.7)."""


def unsupported(thing: str) -> Raises:
    """Refused by the device's compiler or runtime: "Spyre backend does not support: <thing>" (a pattern)."""
    return Raises("Unsupported", f"Spyre backend does not support: .*{thing}")


def aborts(backend_string: str = "") -> Raises:
    """The backend compiler dies, with `backend_string` on stderr above it."""
    return Raises("CalledProcessError", ABORT, backend_string)


def unimplemented(op: str) -> Raises:
    """Compiled to an exception that comes at the first call (facts 3.7)."""
    return Raises("RuntimeError", rf"Invoked \w*{op}\w* which contains unimplemented operation .*{op}")
