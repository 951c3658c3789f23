"""The legality rules of one scheduler node: operations, dtypes, conversions, stick accesses; each with its origin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import sympy
import torch
from torch._inductor.virtualized import V
from torch.fx import Node

from sim_backend.compiler.decisions import Restickify
from sim_backend.compiler.defects import unimplemented_erratum
from sim_backend.compiler.origins import origin_of, pick_origin, splits_stick, splitting_view
from sim_backend.compiler.session import Refusal, RefusalKind, Session
from sim_backend.compiler.sticks import Lane
from sim_backend.errata import operands as operand_rules
from sim_backend.errata import rotary
from sim_backend.errata.rule import Evaluation
from sim_backend.profiles import Profile

# Words in ATen names by which the origin of a device OpFunc is found among a node's origins.
_WORDS = {
    "gelufwd": ("gelu",),
    "relufwd": ("relu",),
    "realdiv": ("div", "mean"),
    "where3": ("where", "masked_fill"),
    "clip": ("clamp",),
}


class _Read(NamedTuple):
    name: str
    variable: sympy.Symbol
    dtype: torch.dtype


class NodeRules:
    """Checks what one node does. In a strict session the first refusal raises Unsupported."""

    def __init__(self, session: Session, origins: Iterable[Node], *, reduces: bool = False) -> None:
        self.session = session
        self.reduces = reduces
        self.origins = list(origins)
        self.reads: list[_Read] = []
        self.stored: sympy.Symbol | None = None  # the variable along the sticks of what is written
        self.addresses = False
        self.restickifies: list[Restickify] = []
        self.reads_broadcast: list[str] = []
        self.illegal_sticks = 0

    @property
    def profile(self) -> Profile:
        """The profile of the compilation."""
        return self.session.profile

    def refuse(
        self,
        kind: RefusalKind,
        thing: str,
        words: Sequence[str] = (),
        erratum: str | None = None,
        at_call: bool = False,
    ) -> None:
        """Refuse `thing`, found at the origin whose operator's name holds one of `words`."""
        origin = origin_of(pick_origin(self.origins, words))
        self.session.refuse(Refusal(kind, thing, origin, erratum, at_call))

    def operation(
        self, name: str, operands: Sequence[torch.dtype], constants: int
    ) -> Literal["works", "unimplemented"]:
        """A pointwise operation on tensor operands of these dtypes and so many constants.

        An operation the device lacks compiles to a runtime exception (facts 3.2, U).
        """
        if self.profile.ideal:
            return "works"
        opfunc = self.profile.opfunc(name)
        words = _WORDS.get(opfunc, (name,))
        if opfunc not in self.profile.loop_ops and opfunc != "identity":
            self._unimplemented(name, words)
            return "unimplemented"
        for dtype in dict.fromkeys(operands):
            self._dtype(opfunc, dtype, constants, words)
        return "works"

    def native(self, op: str) -> bool:
        """A native call of the ATen operation `op`; False if the op table only compiles it to an exception (U)."""
        if self.profile.cell(op, "compiled") != "U":
            return True
        name = op.split(".")[1]
        self._unimplemented(name, (name,))
        return False

    def reduction(self, name: str, dtype: torch.dtype) -> bool:
        """A reduction over values of `dtype`; False if the device has none of that name."""
        if self.profile.ideal:
            return name != "xor_sum"
        if name not in self.profile.reductions:
            self._unimplemented(name, (name, "var", "std"))
            return False
        if problem := operand_rules.dtype_problem(self.profile, name, dtype):
            self.refuse("unsupported_dtype", problem, (name, "mean", "softmax"))
        return True

    def reduction_operands(self, names: Sequence[str]) -> None:
        """The buffers that a reduction reads: one of constants and loop indices alone has none (facts 3.7)."""
        if not names and self.profile.legal_sticks and self.profile.layouts == "current":
            self.refuse("unsupported_op", f"reduction operands: {list(names)}")

    def reduction_along_stick(self, dims: Sequence[int]) -> None:
        """A reduction of the loop dimensions `dims`, one of them along the stick; 2025-11 takes no others with it."""
        if len(dims) > 1 and not self.profile.mixes_reductions:
            self.refuse("layout", f"reduction on both stick and non-stick dimensions {list(dims)}")

    def constant(self, name: str) -> None:
        """A scalar operand of the loop-level operation `name`; 2025-11 compiles none (facts 3.3)."""
        if self.profile.compiles_constants:
            return
        if not self.session.recording:
            raise RuntimeError("TOOO: implement SDSC generation for constants")
        self.refuse("unsupported_op", f"a constant in {name}")

    def conversion(self, source: torch.dtype, target: torch.dtype, *, constant: bool) -> None:
        """A conversion on the device; constants are converted by the compiler."""
        names = [str(d).removeprefix("torch.") for d in (source, target)]
        if not constant and not self.profile.converts(names[0], names[1]):
            self.refuse("unsupported_dtype", f"type conversion from {source} to {target}", ("_to_copy", "convert"))

    def access(self, name: str, lane: Lane, dtype: torch.dtype, is_store: bool, operand: Node | None = None) -> None:
        """An access of the buffer `name`; collects stick variables so that `finish` finds those that differ.

        `operand` is the FX node of what is read, where it is known.
        """
        if not self.profile.legal_sticks:
            return
        if lane.problem is not None:
            self._illegal_stick(lane.problem, dtype, name, operand)
        elif lane.variable is None:
            if not is_store:
                self.reads_broadcast.append(name)
        elif not is_store:
            self.reads.append(_Read(name, lane.variable, dtype))
        elif not self.reduces:  # a reduction along the stick is sparse; compacting it is not a restickify
            self.stored = lane.variable

    def takes_addresses(self) -> None:
        """Integers that are read here are subscripts: their sticks need not be those of the result."""
        self.addresses = True

    def finish(self) -> None:
        """An operand whose stick dimension is not the result's needs a restickify (facts 2.4, 4.8)."""
        reads = [r for r in self.reads if r.dtype.is_floating_point or not self.addresses]
        target = self.stored or next((r.variable for r in reads), None)
        self._ask_about_views()
        for read in dict.fromkeys(r for r in reads if r.variable != target):
            self.restickify(read.name, read.dtype, str(read.variable), str(target))

    def _ask_about_views(self) -> None:
        """E-16, where nothing illegal was met: the nearest view that changes the last dimension, if it splits it."""
        node = pick_origin(self.origins)
        if node is None or self.illegal_sticks or not self.profile.has("E-16"):
            return
        view = splitting_view(node)
        if view is not node and view is not None and splits_stick(view, 64):
            self._note_split(view, "")

    def restickify(self, name: str, dtype: torch.dtype, source: str, target: str) -> None:
        """Move the buffer `name` to the stick dimension `target`; only DL16 can be moved (facts 2.4)."""
        if not self.profile.legal_sticks:
            return
        if not self.profile.restickifies:
            self.refuse("layout", "binop with incompatible DCIs")
        elif not self.can_restickify(dtype):
            self.refuse("layout", f"ReStickifyOpHBM on DataFormats.{operand_rules.FORMATS[dtype]}")
        self.restickifies.append(Restickify(name, str(dtype).removeprefix("torch."), source, target))

    def can_restickify(self, dtype: torch.dtype) -> bool:
        """True for what the data operation moves (facts 4.8): DL16, which a bool is on the device, too."""
        return (
            dtype == torch.bool
            or str(dtype).removeprefix("torch.") in self.profile.content["limits"]["restickify_dtypes"]
        )

    def stored_bool(self, name: str) -> None:
        """A bool buffer that leaves its kernel (E-51)."""
        if problem := operand_rules.stored_bool_problem(self.profile, name):
            self.refuse("unsupported_dtype", problem, erratum="E-51")

    def _illegal_stick(self, expression: str, dtype: torch.dtype, name: str, operand: Node | None) -> None:
        eps = 128 // dtype.itemsize if dtype in (torch.float32, torch.int32) else 64
        buffer = V.graph.try_get_buffer(name)
        source = buffer.get_origin_node() if buffer is not None and operand is None else None
        start = operand if operand is not None else pick_origin(self.origins)
        node = splitting_view(start, source) or start
        thing = f"Unexpected stick expression {expression}: expected Mod(var, {eps})"
        splits = node is not None and splits_stick(node, eps)
        if splits and rotary.is_switched_off(self.profile):
            return
        self.illegal_sticks += 1
        erratum = "E-16" if splits and self.profile.has("E-16") else None
        if erratum is not None:
            self._note_split(node, expression)
        self.session.refuse(Refusal("layout", thing, origin_of(node), erratum))

    def _note_split(self, view: Node | None, expression: str) -> None:
        """E-16 was asked about `view`; it applies if there is an `expression`. Kept with the bundle of this node."""
        node = pick_origin(self.origins)
        if view is not None and node is not None:
            asked = Evaluation("E-16", bool(expression), str(view.target), expression)
            self.session.note(node.name, asked)

    def _unimplemented(self, name: str, words: Sequence[str]) -> None:
        """Compiles, warns when the module is loaded, and raises at the first call; a recording session notes it."""
        if self.session.recording:
            erratum = unimplemented_erratum(pick_origin(self.origins, words))
            self.refuse("unsupported_op", f"unimplemented operation {name}", words, erratum, at_call=True)
        self.session.unimplemented.append(name)

    def _dtype(self, opfunc: str, dtype: torch.dtype, constants: int, words: Sequence[str]) -> None:
        profile = self.profile
        checks = (
            (operand_rules.dtype_problem(profile, opfunc, dtype), None),
            (operand_rules.constant_comparison_problem(profile, opfunc, dtype) if constants else None, "E-51"),
            (operand_rules.integer_bool_problem(profile, opfunc, dtype), "E-61"),
        )
        for problem, erratum in checks:
            if problem:
                self.refuse("unsupported_dtype", problem, words, erratum)
                return
