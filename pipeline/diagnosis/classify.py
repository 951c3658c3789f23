"""From an exception to a failure kind: exception type first, then the frame that raised, text last.

The table is ordered; the first row that matches decides. What no row matches is `unclassified` and shown as such.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agents.types import FailureKind


@dataclass(frozen=True)
class Raised:
    """An exception as a child reports it: class name, the innermost frame's file, and the message."""

    type: str
    frame: str
    message: str


@dataclass(frozen=True)
class Matcher:
    """One row: type and frame are full-match patterns, text is searched; None matches everything."""

    kind: FailureKind
    type: str | None = None
    frame: str | None = None
    text: str | None = None

    def matches(self, raised: Raised) -> bool:
        """True if every given pattern agrees."""
        return (
            (self.type is None or re.fullmatch(self.type, raised.type) is not None)
            and (self.frame is None or re.search(self.frame, raised.frame) is not None)
            and (self.text is None or re.search(self.text, raised.message, re.IGNORECASE) is not None)
        )


_K = FailureKind
MATCHERS: tuple[Matcher, ...] = (
    Matcher(_K.MEMORY_LIMIT, type=r"OutOfMemoryError|MemoryError"),
    Matcher(_K.MEMORY_LIMIT, type="RuntimeError", text=r"Failed to allocate \d+ bytes on Spyre device"),
    Matcher(_K.DYNAMIC_SHAPE, type=r"FailOnRecompileLimitHit|RecompileError|RecompileLimitExceeded"),
    Matcher(_K.DYNAMIC_SHAPE, type="RecursionError", text=r"recompile.limit"),
    Matcher(_K.GRAPH_BREAK, type=r"Unsupported", frame=r"torch/_dynamo/"),
    Matcher(_K.GRAPH_BREAK, type=r"TorchRuntimeError|UserError|InternalTorchDynamoError"),
    Matcher(_K.DYNAMIC_SHAPE, type=r"GuardOnDataDependentSymNode|DataDependentOutputException"),
    Matcher(_K.RUNTIME_ABORT, type=r"CalledProcessError|InductorError", text=r"CalledProcessError|dxp_standalone"),
    Matcher(_K.UNSUPPORTED_DTYPE, type=r"Unsupported|InductorError", text=r"DataFormats\.|type conversion|dtype"),
    Matcher(_K.UNSUPPORTED_DTYPE, type=r"Unsupported|InductorError", text=r"on a bool attention mask"),
    Matcher(_K.SHAPE_LIMIT, type=r"Unsupported|InductorError", text=r"span|multiple of 64|head dim"),
    Matcher(_K.LAYOUT, type=r"Unsupported|InductorError", text=r"stick|restickify|layout"),
    Matcher(_K.UNSUPPORTED_OP, type=r"Unsupported|InductorError"),
    Matcher(_K.UNSUPPORTED_OP, type="RuntimeError", text=r"contains unimplemented operation"),
    Matcher(_K.UNSUPPORTED_OP, type="NotImplementedError", text=r"Could not run|not implemented"),
    Matcher(_K.UNSUPPORTED_DTYPE, type="RuntimeError", text=r"does not support dtype"),
    Matcher(_K.GATED, type="GatedRepoError"),
    Matcher(_K.PICKLE_WEIGHTS, type="UnpicklingError"),
    Matcher(_K.MALFORMED, type=r"SafetensorError|JSONDecodeError|UnicodeDecodeError"),
    Matcher(_K.TIMEOUT, type=r"TimeoutExpired|TimeoutError"),
    Matcher(_K.CRASHED, type=r"ProcessExitedException|BrokenProcessPool"),
    Matcher(
        _K.QUANTISED,
        type=r"ImportError|ValueError|RuntimeError",
        frame=r"transformers/(quantizers|integrations/(bitsandbytes|awq|gptq))",
    ),
    Matcher(_K.REMOTE_CODE, type="ValueError", text=r"trust_remote_code"),
    Matcher(_K.UNKNOWN_ARCHITECTURE, type=r"ValueError|KeyError", frame=r"transformers/models/auto/"),
)

MEASURED: frozenset[FailureKind] = frozenset(
    {
        _K.WRONG_VALUES,
        _K.NON_FINITE,
        _K.CPU_REFERENCE,
        _K.CPU_FALLBACK,
        _K.NO_NATIVE_WEIGHTS,
        _K.TOO_LARGE,
        _K.ADAPTER_MISFIT,
    }
)
"""Kinds that nothing in a model's run raises: values, transfers, what inspection reads from the files of a checkpoint,
and a released adapter that capture cannot put on the model."""

NOT_OF_A_MODEL = r"^(?!.*(transformers/models/|transformers_modules/|adapters/patches/|drafted\.py))"
"""Frames outside the code that is judged: a model, a patch or a draft that opens what it may not is at fault itself."""

OURS: tuple[Matcher, ...] = (
    Matcher(_K.UNCLASSIFIED, type="OSError", text=r"No space left on device|Too many open files|Stale file handle"),
    Matcher(_K.UNCLASSIFIED, type=r"ConnectionError|ConnectTimeout|ReadTimeout|LocalEntryNotFoundError"),
    Matcher(_K.UNCLASSIFIED, type=r"ConnectionRefusedError|ConnectionResetError"),
    Matcher(_K.UNCLASSIFIED, type=r"BrokenPipeError|PermissionError", frame=NOT_OF_A_MODEL),
    Matcher(
        _K.UNCLASSIFIED, type=r"ModuleNotFoundError", text=r"No module named '(sim_backend|adapters|pipeline|agents)"
    ),
)
"""Faults of the installation: they never count against a model."""


def is_ours(raised: Raised) -> bool:
    """True for a fault of the installation (disk, network, files of the factory)."""
    return any(m.matches(raised) for m in OURS)


def classify(raised: Raised) -> FailureKind:
    """The kind of the first matching row, `unclassified` if there is none."""
    return next((m.kind for m in MATCHERS if m.matches(raised)), FailureKind.UNCLASSIFIED)
