"""Inductor's ops handler that writes whole-tensor Python source, refusing what the profile does not have.

A value is the name of a temporary with its dtype. DL16 values are fp32 tensors on the DL16 grid and are rounded after
every operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import sympy
import torch
from torch._inductor.codegen.common import PythonPrinter
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import V

from sim_backend.compiler.evaluation import (
    DEVICE_NAMES,
    DL16_SOURCES,
    EXACT,
    EXACT_REDUCTIONS,
    PREDICATES,
    REDUCTIONS,
    SOURCES,
)
from sim_backend.compiler.kernel import KernelSource, buffer_facts
from sim_backend.compiler.rules import NodeRules
from sim_backend.compiler.sticks import lane_of, stick_of
from sim_backend.numerics import round_constant

HALF = (torch.float16, torch.bfloat16)
INTEGERS = (torch.int32, torch.int64)
_print = PythonPrinter().doprint


class Access(NamedTuple):
    """A read or write of a buffer: its flat index, and the loop variable along its sticks."""

    buffer: str
    index: sympy.Expr
    stick: sympy.Symbol | None


class Value(str):
    """The name of a temporary, the dtype it has on the device, whether it is a constant, or made of loop indices."""

    dtype: torch.dtype
    constant: bool
    address: bool

    def __new__(cls, text: str, dtype: torch.dtype, constant: bool = False, address: bool = False) -> Value:
        value = super().__new__(cls, text)
        value.dtype, value.constant, value.address = dtype, constant, address
        return value


class Emitter(DefaultHandler):
    """Writes one loop nest of `ranges` (the last `reduced` of them reduced) into `kernel`."""

    def __init__(
        self,
        kernel: KernelSource,
        rules: NodeRules,
        variables: Sequence[sympy.Symbol],
        sizes: Sequence[int],
        reduced: int,
    ) -> None:
        self.kernel, self.rules = kernel, rules
        self.variables, self.sizes, self.reduced = list(variables), [int(n) for n in sizes], reduced
        self.ranges = dict(zip(self.variables, self.sizes, strict=True))
        self.indirect: dict[sympy.Symbol, str] = {}
        self.accesses: list[Access] = []
        self.mask: Value | None = None

    # --- indices
    def _affine(self, index: sympy.Expr) -> tuple[list[int], int] | None:
        """(stride per variable, offset) of a flat index, or None if it is not affine in the loop variables."""
        index = sympy.expand(V.graph.sizevars.simplify(index))
        rest, strides = index, []
        for variable in self.variables:
            coefficient = index.coeff(variable)
            if not coefficient.is_Integer or coefficient < 0:
                return None
            strides.append(int(coefficient))
            rest = sympy.expand(rest - coefficient * variable)
        return (strides, int(rest)) if rest.is_Integer and rest >= 0 else None

    def _index_source(self, index: sympy.Expr) -> str:
        index = V.graph.sizevars.simplify(index)
        names: dict[sympy.Symbol, sympy.Symbol] = {}
        for position, (variable, size) in enumerate(self.ranges.items()):
            if variable in index.free_symbols:
                iota = self.kernel.temporary(f"rt.iota({size}, {position}, {len(self.sizes)})")
                names[variable] = sympy.Symbol(iota, integer=True, nonnegative=True)
        for symbol, name in self.indirect.items():
            names[symbol] = sympy.Symbol(name, integer=True, nonnegative=True)
        return str(_print(sympy_subs(index, names)))

    def _check_access(self, name: str, index: sympy.Expr, is_store: bool) -> None:
        facts = buffer_facts(name)
        lane = lane_of(
            V.graph.sizevars.simplify(index) + facts.offset,
            self.ranges,
            facts.size,
            facts.stride,
            stick_of(facts.dtype),
            masked=self.mask is not None,
        )
        self.rules.access(name, lane, facts.dtype, is_store)
        self.accesses.append(Access(name, index, lane.variable))

    # --- memory
    def load(self, name: str, index: sympy.Expr) -> Value:
        """The values of a buffer at `index`: a strided view if affine and unmasked, else a gather."""
        name = V.graph.scheduler.mutation_real_name.get(name, name)
        self._check_access(name, index, is_store=False)
        facts = buffer_facts(name)
        version = f"  # {self.kernel.versions[facts.root]}" if self.kernel.versions[facts.root] else ""
        affine = None if self.mask else self._affine(index)
        if affine is not None:
            flat = self.kernel.flat(facts.root)
            shape, (strides, offset) = _tuple(self.sizes), affine
            text = f"torch.as_strided({flat}, {shape}, {_tuple(strides)}, {facts.offset + offset})"
            return Value(self.kernel.temporary(text + version), facts.dtype)
        where = self._index_source(index + facts.offset)
        if self.mask:
            where = f"torch.where({self.mask}, {where}, 0)"
        return Value(self.kernel.temporary(f"{self.kernel.picked(facts.root, where)}{version}"), facts.dtype)

    def store(self, name: str, index: sympy.Expr, value: Value, mode: str | None = None) -> None:
        """Write `value` at `index`; only plain stores exist on the device."""
        if mode is not None:
            self.rules.refuse("unsupported_op", f"store mode {mode}")
            return
        self._put(name, index, value, self.sizes)

    def store_reduction(self, name: str, index: sympy.Expr, value: Value) -> None:
        """Write the result of a reduction."""
        reduced = [v for v in self.variables[len(self.sizes) - self.reduced :] if self.ranges[v] > 1]
        if any(a.stick in reduced for a in self.accesses):
            self.kernel.sparse.add(buffer_facts(name).root)
            self.rules.reduction_along_stick([self.variables.index(v) for v in reduced])
        kept = self.sizes[: len(self.sizes) - self.reduced]
        self._put(name, index, value, [*kept, *([1] * self.reduced)])

    def _put(self, name: str, index: sympy.Expr, value: Value, shape: list[int]) -> None:
        name = V.graph.scheduler.mutation_real_name.get(name, name)
        self._check_access(name, index, is_store=True)
        facts = buffer_facts(name)
        value = self._as_dtype(value, facts.dtype)
        affine = self._affine(index)
        if affine is None:
            self.rules.refuse("layout", f"scattered store into {name}")
            return
        strides, offset = affine
        if facts.offset == offset == 0 and facts.root == name and _covers(shape, strides, facts.extent):
            self.kernel.define(facts.root, f"rt.flat({value}, {_tuple(shape)}, {facts.dtype})")
            return
        flat = self.kernel.flat(facts.root)
        region = f"{_tuple(shape)}, {_tuple(strides)}, {facts.offset + offset}"
        self.kernel.lines.append(f"rt.store({flat}, {region}, {value})")
        self.kernel.touch(facts.root)

    def _as_dtype(self, value: Value, dtype: torch.dtype) -> Value:
        if value.dtype == dtype or (value.dtype in HALF and dtype in HALF):
            return value
        return self._convert(value, dtype)

    # --- reductions
    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        """A reduction over the trailing loop variables, by the profile's accumulation policy."""
        self.kernel.ops[f"reduction.{reduction_type}"] += 1
        known = self.rules.reduction(reduction_type, src_dtype) and reduction_type in REDUCTIONS
        if not known:
            self.kernel.unimplemented.append(reduction_type)
            first = value[0] if isinstance(value, tuple) else value
            stand_in = Value(str(first), dtype)
            return (stand_in,) * 3 if reduction_type.startswith("welford") else stand_in
        self.rules.reduction_operands([a.buffer for a in self.accesses])
        spread = self.kernel.temporary(f"{value}.expand({_tuple(self.sizes)})")
        if dtype in HALF and reduction_type == "sum":
            return Value(self.kernel.temporary(self._half_sum(spread)), dtype)
        dims = tuple(range(len(self.sizes) - self.reduced, len(self.sizes)))
        through = dtype in INTEGERS and reduction_type in self.rules.profile.content["int_through_fp32"]
        source = f"{spread}.to(torch.float32)" if through else spread
        text = REDUCTIONS[reduction_type].format(v=source, d=dims, n=self.reduced, first=dims[0])
        text = f"{text}.to({dtype})" if through else text
        rounds = dtype in HALF and reduction_type not in EXACT_REDUCTIONS
        return Value(self.kernel.temporary(f"rt.r({text})" if rounds else text), dtype)

    def _half_sum(self, value: str) -> str:
        numerics = self.rules.profile.numerics
        policy = self.rules.profile.reduction_accumulation
        if policy == "chunked":
            return f"rt.chunked_sum({value}, {self.reduced}, {numerics['reduction_chunk']})"
        return f"rt.{'serial_sum' if policy == 'serial' else 'exact_sum'}({value}, {self.reduced})"

    # --- constants, conversions, masks
    def constant(self, value: float | bool, dtype: torch.dtype) -> Value:
        """A scalar; fp16 constants are DL16 ones, saturated as the compiler's encoder does."""
        held = torch.float32 if dtype in HALF else dtype
        number = round_constant(float(value)) if dtype in HALF else value
        literal = f"float('{number}')" if isinstance(number, float) and not math.isfinite(number) else repr(number)
        return Value(self.kernel.temporary(f"torch.tensor({literal}, dtype={held})"), dtype, constant=True)

    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> Value:
        """An index used as a value."""
        text = f"torch.as_tensor({self._index_source(expr)}, dtype={dtype})"
        return Value(self.kernel.temporary(text), dtype, address=True)

    def to_dtype(
        self, x: Value, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> Value:
        """A conversion on the device, by the table of facts 3.6; 2025-11 takes it out and says so."""
        if x.dtype == dtype:
            return x
        if self.rules.profile.removes_conversions:
            print("WARNING: NO-OPING", x.dtype, "->", dtype)  # noqa: T201 the compiler prints it
            return x
        self.kernel.ops["to_dtype"] += 1
        self.rules.conversion(x.dtype, dtype, constant=x.constant or x.address)
        return self._convert(x, dtype)

    def _convert(self, x: Value, dtype: torch.dtype) -> Value:
        is_identity = x.dtype in HALF and dtype in HALF
        if not (x.constant or x.address or is_identity):
            self.kernel.decisions.conversions[f"{x.dtype}>{dtype}".replace("torch.", "")] += 1
        if dtype in HALF:
            text = str(x) if x.dtype in HALF else f"rt.r({x}.to(torch.float32, copy=True))"
        else:
            text = f"{x}.to({dtype})"
        return Value(self.kernel.temporary(text), dtype, x.constant, x.address)

    def masked(self, mask: Value, body: Callable[[], Value], other: float) -> Value:
        """`body` where `mask` holds, else the constant `other`; loads inside are clamped where it does not."""
        outer = self.mask
        self.mask = Value(self.kernel.temporary(f"{outer} & {mask}"), torch.bool) if outer else mask
        value = body()
        self.mask = outer
        self.rules.operation("where", (value.dtype,), constants=0)
        default = self.constant(other, value.dtype)
        return Value(self.kernel.temporary(f"torch.where({mask}, {value}, {default})"), value.dtype)

    def indirect_indexing(self, var: Value, size: Any, check: bool = True, wrap_neg: bool = True) -> sympy.Symbol:
        """A symbol for an index that is read from memory."""
        symbol = sympy.Symbol(f"indirect_{var}", integer=True, nonnegative=True)
        self.rules.takes_addresses()
        wrapped = f"rt.wrap_index({var}, {_print(sympy.sympify(size))})"
        self.indirect[symbol] = self.kernel.temporary(wrapped) if wrap_neg else str(var)
        return symbol

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        """Bounds are the CPU's business: an index out of range raises IndexError there."""

    # --- everything else
    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = [a if isinstance(a, Value) else self.constant(a, _scalar_dtype(a)) for a in args]
        dtype = _result_dtype(name, values)
        if not self._legal(name, values, dtype):
            self.kernel.unimplemented.append(name)
            stand_in = Value(str(values[0]), dtype)
            return (stand_in, stand_in) if name == "frexp" else stand_in
        text = self._source(name, values, dtype)
        rounds = dtype in HALF and name not in EXACT and name not in DL16_SOURCES
        constant, index = all(v.constant for v in values), all(v.constant or v.address for v in values)
        return Value(self.kernel.temporary(f"rt.r({text})" if rounds else text), dtype, constant, index)

    def _source(self, name: str, values: Sequence[Value], dtype: torch.dtype) -> str:
        """The expression; integer arithmetic of memory values goes by way of fp32 where the profile says so."""
        if dtype in HALF and name in DL16_SOURCES:
            return DL16_SOURCES[name](*values)
        through = self.rules.profile.opfunc(name) in self.rules.profile.content["int_through_fp32"]
        if not through or dtype not in INTEGERS or all(v.constant or v.address for v in values):
            return SOURCES[name](*values)
        return f"{SOURCES[name](*(f'{v}.to(torch.float32)' for v in values))}.to({dtype})"

    def _legal(self, name: str, values: Sequence[Value], dtype: torch.dtype) -> bool:
        """Ask the rules, unless only loop indices and constants are combined, which is address arithmetic."""
        if all(v.constant or v.address for v in values):
            return name in SOURCES
        self.kernel.ops[name] += 1
        operands = tuple(v.dtype for v in values if not v.constant) or (dtype,)
        constants = sum(v.constant for v in values)
        state = self.rules.operation(DEVICE_NAMES.get(name, name), operands, constants)
        if state == "works" and constants:
            self.rules.constant(name)
        return state == "works" and name in SOURCES


def _tuple(values: Sequence[Any]) -> str:
    return "(" + "".join(f"{v}, " for v in values).rstrip(" ") + ")"


def _covers(shape: Sequence[int], strides: Sequence[int], extent: int) -> bool:
    """True if a store of `shape` with `strides` writes a whole contiguous buffer of `extent` elements in order."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return expected == extent


def _scalar_dtype(value: Any) -> torch.dtype:
    if isinstance(value, bool):
        return torch.bool
    return torch.int64 if isinstance(value, int) else torch.float32


def _result_dtype(name: str, values: Sequence[Value]) -> torch.dtype:
    """Bool for predicates, else the promoted dtype of the tensor operands (of `where`: without its condition)."""
    if name in PREDICATES:
        return torch.bool
    operands = values[1:] if name == "where" else values
    dtypes = [v.dtype for v in operands if not v.constant] or [v.dtype for v in operands]
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = torch.promote_types(result, dtype)
    return result
