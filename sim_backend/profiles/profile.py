"""One dated state of the device stack as an immutable value: op table, formats, limits, errata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

Mode = Literal["eager", "compiled"]
RULE = "R"  # not in the table: in compiled code its loop-level operations decide


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({k: _frozen(v) for k, v in value.items()})
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def split_op(op: str) -> tuple[str, str]:
    """("aten.pow", "Tensor_Scalar") of "aten.pow.Tensor_Scalar", "aten::pow.Tensor_Scalar" or "aten.pow"."""
    namespace, _, rest = op.replace("::", ".").partition(".")
    name, _, overload = rest.partition(".")
    return f"{namespace}.{name}", overload or "default"


@dataclass(frozen=True)
class Profile:
    """A device profile. `content` is the resolved data; `digest` covers it and the simulator's version."""

    name: str
    simulator: str
    content: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, name: str, simulator: str, content: dict[str, Any]) -> Profile:
        """The profile called `name` with plain `content`, frozen."""
        return cls(name, simulator, _frozen(content))

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profile) and other.digest == self.digest

    @cached_property
    def digest(self) -> str:
        """sha256 over the canonical content, overrides included, the name and the simulator's version."""
        text = json.dumps(
            [self.name, self.simulator, self.to_dict()], sort_keys=True, separators=(",", ":"), default=str
        )
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The content as plain dicts and lists."""
        plain: dict[str, Any] = _plain(self.content)
        return plain

    # --- the op table
    def cell(self, op: str, mode: Mode) -> str:
        """One letter of N D K S V H F X U for `op` ("aten.pow.Tensor_Scalar"); "R" (compiled only): the general rule.

        The most specific row wins: overload, then packet. An operation in no row is X in eager (facts 3.2).
        """
        if self.ideal:
            return "N" if mode == "eager" else RULE
        packet, overload = split_op(op)
        ops = self.content["ops"]
        text = ops.get(f"{packet}.{overload}") or ops.get(packet)
        if text is None:
            return "X" if mode == "eager" else RULE
        eager, _, compiled = text.partition("/")
        return (eager if mode == "eager" or not compiled else compiled).strip()

    def needs(self, op: str) -> tuple[str, ...]:
        """The device's OpFuncs that a single call of the ATen operation `op` uses; () where none is named."""
        packet, overload = split_op(op)
        table = self.content["needs"]
        found: tuple[str, ...] = table.get(f"{packet}.{overload}") or table.get(packet) or ()
        return found

    def computes_fp32(self, op: str) -> bool:
        """True if every OpFunc of the ATen operation `op` computes on fp32 (facts 3.5)."""
        return self.ideal or all(name in self.fp32_ops for name in self.needs(op))

    def opfunc(self, loop_op: str) -> str:
        """The device's name of Inductor's loop-level operation."""
        name: str = self.content["opfuncs"].get(loop_op, loop_op)
        return name

    def exponent_rule(self, exponent: float) -> str:
        """mul, native, erratum, unimplemented or decompose: what pow(x, `exponent`) becomes (facts 3.4, E-08, E-10)."""
        table = self.content["pow_exponents"]
        rule: str = table.get(f"{exponent:g}") or table["default"]
        return rule

    def converts(self, source: str, target: str) -> bool:
        """True if the device converts dtype `source` to `target` ("float16"), by name (facts 3.6)."""
        return self.ideal or source == target or f"{source}>{target}" in self.content["conversions"]

    @property
    def ideal(self) -> bool:
        """True for the profile without refusals; stored fp16 is DL16 all the same."""
        return bool(self.content["ideal"])

    @property
    def loop_ops(self) -> frozenset[str]:
        """Pointwise OpFuncs of facts 3.3."""
        return frozenset(self.content["loop_ops"])

    @property
    def reductions(self) -> frozenset[str]:
        """Reduction OpFuncs of facts 3.3."""
        return frozenset(self.content["reductions"])

    @property
    def fp32_ops(self) -> frozenset[str]:
        """OpFuncs that compute on fp32 (facts 3.5)."""
        return frozenset(self.content["fp32_ops"])

    @property
    def int_ops(self) -> frozenset[str]:
        """OpFuncs that take integer operands."""
        return frozenset(self.content["int_ops"])

    @property
    def numerics(self) -> Mapping[str, Any]:
        """Rounding, infinity and accumulation policies (facts 1.6)."""
        policies: Mapping[str, Any] = self.content["numerics"]
        return policies

    @property
    def reduction_accumulation(self) -> str:
        """chunked | serial | fp32: how DL16 values are added up; with E-02 switched off, in fp32."""
        is_exact = "E-02" in self.content["errata"] and not self.has("E-02")
        return "fp32" if is_exact else str(self.numerics["reduction_accumulation"])

    @property
    def product_accumulation(self) -> dict[str, Any]:
        """How DL16 products are added up, as keywords of native calls: {} in fp32, the default (facts 1.6)."""
        policy = str(self.numerics["matmul_accumulation"])
        return {} if policy == "fp32" else {"products": (policy, int(self.numerics["matmul_chunk"]))}

    @property
    def errata(self) -> Mapping[str, Mapping[str, Any]]:
        """Switched-on defects: id -> parameters (facts section 6)."""
        return {k: v for k, v in self.content["errata"].items() if v is not None}

    def has(self, erratum: str) -> bool:
        """True if the defect `erratum` ("E-17") is switched on."""
        return self.content["errata"].get(erratum) is not None

    # --- limits and copies, by the names the device asks for
    @property
    def h2d_rounding(self) -> str:
        """truncate | nearest_up | nearest_even."""
        return str(self.numerics["h2d_rounding"])

    @property
    def h2d_infinity(self) -> str:
        """rebias | saturate_finite | preserve."""
        return str(self.numerics["h2d_infinity"])

    @property
    def d2h_rounding(self) -> str:
        """truncate | nearest_up | nearest_even."""
        return str(self.numerics["d2h_rounding"])

    @property
    def op_rounding(self) -> str:
        """How results and constants are rounded: nearest_up | nearest_even | truncate."""
        return str(self.numerics["op_rounding"])

    @property
    def segments(self) -> int:
        """Data segments; 0 = no limit."""
        return int(self.content["limits"]["segments"])

    @property
    def segment_bytes(self) -> int:
        """Bytes of one segment; 0 = no limit."""
        return int(self.content["limits"]["segment_bytes"])

    @property
    def intermediate_bytes(self) -> int:
        """Bytes of the pool of intermediates; 0 = no limit."""
        return int(self.content["limits"]["intermediate_bytes"])

    @property
    def legal_sticks(self) -> bool:
        """True if stick expressions are checked (facts 2.4)."""
        return bool(self.content["limits"]["legal_sticks"])

    @property
    def rank_limit(self) -> int:
        """The highest rank of a tensor on the device; 0 = no limit."""
        return int(self.content["limits"]["rank"])

    @property
    def layouts(self) -> str:
        """Whose layouts count what a tensor takes: current | of_2025 (facts 2.1)."""
        return str(self.content["limits"]["layouts"])

    @property
    def cores(self) -> int:
        """Cores a program is divided over (SENCORES)."""
        return int(self.content["limits"]["cores"])

    @property
    def ops_per_kernel(self) -> int:
        """Loop-level operations one kernel may hold; 0 = no limit (facts 3.3)."""
        return int(self.content["limits"]["ops_per_kernel"])

    @property
    def compiles_constants(self) -> bool:
        """False: a scalar in compiled code raises (facts 3.3)."""
        return bool(self.content["limits"]["constants"])

    @property
    def arguments_per_kernel(self) -> int:
        """Tensors that one kernel may take; 0 = no limit (facts 3.3)."""
        return int(self.content["limits"]["arguments"])

    @property
    def outputs_per_kernel(self) -> int:
        """Tensors that one kernel may write; 0 = no limit (facts 3.7)."""
        return int(self.content["limits"]["outputs"])

    @property
    def restickifies(self) -> bool:
        """False: the compiler moves no operand to another stick dimension (2025-11)."""
        return bool(self.content["limits"]["restickify_dtypes"])

    @property
    def mixes_reductions(self) -> bool:
        """False: a reduction along the stick and another dimension at once is refused (facts 2.4)."""
        return bool(self.content["limits"]["mixed_reductions"])

    @property
    def transposes_anything(self) -> bool:
        """False: a transposition that leaves the stick dimension in place is refused (facts 3.2)."""
        return bool(self.content["limits"]["transposes"] == "any")

    @property
    def removes_conversions(self) -> bool:
        """True: dtype conversions are taken out of compiled graphs (facts 3.6)."""
        return bool(self.content["limits"]["conversions"] == "removed")

    @property
    def runtime(self) -> Mapping[str, str]:
        """How devices, streams and events behave (facts 5.1)."""
        choices: Mapping[str, str] = self.content["runtime"]
        return choices

    @property
    def clock(self) -> Mapping[str, float]:
        """Costs of simulated time: microseconds, GB/s, TFLOPS (facts 7.5)."""
        costs: Mapping[str, float] = self.content["clock"]
        return costs

    @property
    def copies_on_device(self) -> str:
        """How a copy from device to device of one dtype is made: compiled | refused | memcpy (facts 5.3)."""
        return str(self.content["copies"]["on_device"])

    @property
    def clones_views(self) -> bool:
        """False: eager operations get the storage of a view and read it from element 0 (E-31 before #3578)."""
        return bool(self.content["copies"]["views"] == "cloned")

    @property
    def copy_casts(self) -> bool:
        """False: a cross-dtype host-to-device copy raises."""
        return bool(self.content["copies"]["casts"])

    @property
    def h2d_refused(self) -> dict[str, str]:
        """Names of dtypes whose host-to-device copy fails -> message."""
        return dict(self.content["copies"]["refused"])

    @property
    def refused_copy_aborts(self) -> bool:
        """True: such a copy ends the process; False: it raises."""
        return bool(self.content["copies"]["refusal"] == "abort")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value
