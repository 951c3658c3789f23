"""What one compilation knows and records: the profile, the policy on refusals, and the audit of everything decided.

A strict session raises at the first refusal, as the device's compiler does; a recording one notes it, takes the
operation's output as right dtype and default layout, and goes on.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from sim_backend.errors import Unsupported
from sim_backend.profiles import Profile

RefusalKind = Literal["unsupported_op", "unsupported_dtype", "layout", "shape_limit", "dynamic_shape", "graph_break"]


@dataclass(frozen=True)
class Origin:
    """Where an operation comes from: ATen overload, "file.py:line", module path, and its arguments' facts."""

    op: str
    source: str = ""
    module: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    scalars: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Something the profile cannot do. `thing` is the text after "Spyre backend does not support: "."""

    kind: RefusalKind
    thing: str
    origin: Origin
    erratum: str | None = None
    at_call: bool = False

    @property
    def message(self) -> str:
        """The text the device shows."""
        return self.thing if self.at_call else f"Spyre backend does not support: {self.thing}"


@dataclass(frozen=True)
class Trigger:
    """A known wrong-value defect that this code will meet."""

    erratum: str
    detail: str
    origin: Origin


@dataclass
class KernelRecord:
    """The audit of one bundle: its name, loop-level operations with counts, native calls, kernel-local buffers."""

    name: str
    nodes: int
    ops: dict[str, int]
    locals: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data; written into the generated module so that a cache hit replays the audit."""
        return {"name": self.name, "nodes": self.nodes, "ops": self.ops, "locals": self.locals}


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

    def refuse(self, refusal: Refusal) -> None:
        """Raise Unsupported, or note the refusal and return when recording."""
        if not self.recording:
            raise Unsupported(refusal.thing)
        self.refusals.append(refusal)

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
