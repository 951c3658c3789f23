"""What one compilation knows and records: the profile, the policy on refusals, and the audit of everything decided.

A strict session raises at the first refusal, as the device's compiler does; a recording one notes it, takes the
operation's output as right dtype and default layout, and goes on.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sim_backend.compiler.decisions import Decisions
from sim_backend.errata.rule import Evaluation, RefusalKind, Refuse, Refusing, Triggered, Unimplemented, Within, Wrong
from sim_backend.errors import Unsupported
from sim_backend.layouts import SpyreTensorLayout
from sim_backend.profiles import Profile

if TYPE_CHECKING:
    from sim_backend.compiler.program import Program

__all__ = ["KernelRecord", "Origin", "Refusal", "RefusalKind", "Session", "Trigger", "current_session", "entered"]


@dataclass(frozen=True)
class Origin:
    """Where an operation comes from: ATen overload, "file.py:line", module path, and its arguments' facts."""

    op: str
    source: str = ""
    module: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    scalars: tuple[Any, ...] = ()
    node: Any = field(default=None, compare=False, repr=False)  # the FX node, in a compiled graph
    assumed: bool = field(
        default=False, compare=False
    )  # eager: an operand is a missing operation's, through views alone


@dataclass(frozen=True)
class Refusal:
    """Something the profile cannot do. `thing` is the text after "Spyre backend does not support: ".

    `effect` is given if it is more than such a refusal: an abort, another exception.
    """

    kind: RefusalKind
    thing: str
    origin: Origin
    erratum: str | None = None
    at_call: bool = False
    effect: Refusing | None = None

    @property
    def message(self) -> str:
        """The text the device shows."""
        if self.effect is not None:
            return self.effect.message(self.thing)
        return self.thing if self.at_call else f"Spyre backend does not support: {self.thing}"


@dataclass(frozen=True)
class Trigger:
    """A known wrong-value defect that this code will meet."""

    erratum: str
    detail: str
    origin: Origin


@dataclass
class KernelRecord:
    """The audit of one bundle: its name, loop-level operations with counts, native calls, kernel-local buffers.

    `errata` are the rules that were asked about its operations, also those that did not trigger.
    """

    name: str
    nodes: int
    ops: dict[str, int]
    locals: int
    errata: tuple[Evaluation, ...] = ()
    decisions: Decisions = field(default_factory=Decisions)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; written into the generated module so that a cache hit replays the audit."""
        plain = {"name": self.name, "nodes": self.nodes, "ops": self.ops, "locals": self.locals}
        return {**plain, "errata": [e.to_dict() for e in self.errata], **self.decisions.to_dict()}


@dataclass
class Session:
    """State of one compilation."""

    profile: Profile
    recording: bool = False
    refusals: list[Refusal] = field(default_factory=list)
    triggers: list[Trigger] = field(default_factory=list)
    fallbacks: list[Origin] = field(default_factory=list)
    kernels: list[KernelRecord] = field(default_factory=list)
    unimplemented: list[str] = field(default_factory=list)
    required_layouts: dict[str, SpyreTensorLayout] = field(default_factory=dict)  # buffer -> what was asked for
    sparse: set[str] = field(default_factory=set)  # buffers with one element per stick
    evaluations: dict[str, tuple[Evaluation, ...]] = field(default_factory=dict)
    has_regions: bool = False  # the graph calls nested compile regions
    program: Program | None = None  # what they add up to, once they are checked

    def refuse(self, refusal: Refusal) -> None:
        """Raise Unsupported (or what the refusal's effect raises), or note the refusal and return when recording."""
        if not self.recording:
            raise Unsupported(refusal.thing) if refusal.effect is None else refusal.effect.error(refusal.thing)
        self.refusals.append(refusal)

    def meet(self, found: Triggered, origin: Origin) -> None:
        """Note a triggered rule: a prediction for wrong values, a refusal else (which raises unless recording).

        What values decide is no prediction; the audit of the bundle has it.
        An unimplemented operation of a graph is refused where its loop is written, with a warning and an error at the
        call.
        """
        effect = found.rule.effect
        if isinstance(effect, Wrong | Within):
            if not found.rule.by_value:
                self.trigger(found.rule.erratum, found.detail, origin)
        elif isinstance(effect, Refuse):
            self.refuse(Refusal(effect.kind, effect.text or found.detail, origin, found.rule.erratum))
        elif not (isinstance(effect, Unimplemented) and found.call.form == "compiled"):
            self.refuse(Refusal(effect.kind, found.detail, origin, found.rule.erratum, True, effect))

    def note(self, name: str, asked: Evaluation) -> None:
        """Keep the outcome of a rule with the FX node `name`."""
        self.evaluations[name] = (*self.evaluations.get(name, ()), asked)

    def take_evaluations(self, names: Iterable[str]) -> tuple[Evaluation, ...]:
        """The distinct evaluations of the FX nodes `names`, in order; they are given out once."""
        taken = [e for name in names for e in self.evaluations.pop(name, ())]
        return tuple(dict.fromkeys(taken))

    def trigger(self, erratum: str, detail: str, origin: Origin) -> None:
        """Note that the wrong-value defect `erratum` applies here."""
        self.triggers.append(Trigger(erratum, detail, origin))


_current: contextvars.ContextVar[Session | None] = contextvars.ContextVar("spyre_session", default=None)


def current_session() -> Session:
    """The session of the compilation that is running. Raises RuntimeError outside one."""
    session = _current.get()
    if session is None:
        raise RuntimeError("no compilation for spyre is running")
    return session


@contextlib.contextmanager
def entered(session: Session) -> Iterator[Session]:
    """Make `session` the current one."""
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)
