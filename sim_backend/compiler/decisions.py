"""What the compiler decided for each bundle: layouts, restickifies, conversions, spans; as data and as text.

Set SPYRE_LOG_PASSES (facts 5.5) to anything but 0 and every module that is loaded, from a cache or not, prints its
decisions on stderr. In a process, `describe_all()` gives the same text for everything compiled so far.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sim_backend.layouts import SpyreTensorLayout

SWITCH = "SPYRE_LOG_PASSES"
_WIDTH = 12


@dataclass(frozen=True)
class Restickify:
    """A buffer moved through HBM to another stick dimension: the loop variables along its sticks before and after."""

    buffer: str
    dtype: str
    source: str
    target: str


@dataclass
class Decisions:
    """The decisions for one bundle. `span` is the widest share of one core, in bytes and as text."""

    layouts: dict[str, SpyreTensorLayout] = field(default_factory=dict)
    restickifies: list[Restickify] = field(default_factory=list)
    conversions: Counter[str] = field(default_factory=Counter)
    span_bytes: int = 0
    span: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the audit."""
        return {
            "layouts": {name: _layout(layout) for name, layout in self.layouts.items()},
            "restickifies": [asdict(r) for r in self.restickifies],
            "conversions": dict(self.conversions),
            "span": self.span,
        }


def _layout(layout: SpyreTensorLayout) -> dict[str, Any]:
    return {
        "device_size": list(layout.device_size),
        "stride_map": list(layout.stride_map),
        "device_dtype": layout.device_dtype,
    }


def describe_all() -> str:
    """The decisions of every module loaded in this process, oldest first."""
    from sim_backend.compiler.runtime import AUDITS

    return "\n".join(describe(record) for record in AUDITS)


def describe(record: Mapping[str, Any]) -> str:
    """The decisions in one audit, a block of lines per bundle."""
    lines = [f"compiled for {record['profile']}: {len(record['kernels'])} bundles"]
    for kernel in record["kernels"]:
        lines.append(f"bundle {kernel['name']}: {kernel['nodes']} nodes")
        lines += [f"  {word:<{_WIDTH}} {text}" for word, text in _details(kernel)]
    lines += [f"fallback {op}" for op in record["fallbacks"]]
    lines += [f"unimplemented {op}" for op in record["unimplemented"]]
    lines += [f"predicted {erratum}: {detail} ({op})" for erratum, detail, op, _ in record["triggers"]]
    return "\n".join(lines)


def _details(kernel: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "operations", _counts(kernel["ops"])
    for name, layout in kernel["layouts"].items():
        yield "layout", f"{name} {layout['device_size']} {layout['stride_map']} {layout['device_dtype']}"
    for move in kernel["restickifies"]:
        yield "restickify", f"{move['buffer']} ({move['dtype']}) from {move['source']} to {move['target']}"
    if kernel["conversions"]:
        yield "conversions", _counts(kernel["conversions"])
    if kernel["span"]:
        yield "span", kernel["span"]
    for one in kernel.get("errata", ()):
        yield "erratum", f"{one['id']} {one['op']}: {one['detail'] if one['applies'] else 'does not apply'}"


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{name} x{count}" for name, count in counted.items()) or "none"


def log(record: Mapping[str, Any]) -> None:
    """Print the decisions in `record` on stderr if the switch is on."""
    if os.environ.get(SWITCH, "0") not in ("", "0"):
        sys.stderr.write(describe(record) + "\n")
