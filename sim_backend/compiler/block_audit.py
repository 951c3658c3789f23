"""One transformer block on fake tensors, compiled as the device's compiler would, with every refusal noted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.exc import MissingOperatorWithDecomp, MissingOperatorWithoutDecomp
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from sim_backend.compiler.all_rows import AllRows
from sim_backend.compiler.decompositions import decomposition_table
from sim_backend.compiler.fake_model import fake_like
from sim_backend.compiler.origins import source_line
from sim_backend.compiler.registration import register
from sim_backend.compiler.session import Origin, Refusal, RefusalKind, Session
from sim_backend.compiler.swap import compiling, config_patches
from sim_backend.errors import CompilerFault, Unsupported
from sim_backend.profiles import Profile

_RECORDING = {"force_disable_caches": True}
# What stands for a refusal even where no rule noted one: ours, and Inductor's for an operation that it cannot lower.
_REFUSALS = (Unsupported, NotImplementedError, MissingOperatorWithDecomp, MissingOperatorWithoutDecomp)
# A size or a branch that depends on values: compilation is for static shapes (facts 4.9).
_DYNAMIC = (GuardOnDataDependentSymNode, DynamicOutputShapeException, DataDependentOutputException)


@dataclass
class BlockAudit:
    """The audit of one kind of block, its operator graph's digest, and its result for fake tensors."""

    session: Session
    digest: str
    operations: int
    result: Any

    def fresh_result(self) -> Any:
        """The block's result as new fake tensors; call it inside the fake mode."""
        return tree_map(lambda v: fake_like(v) if isinstance(v, torch.Tensor) else v, self.result)


class _Recorder:
    """A Dynamo backend that compiles in recording mode, keeps the graph's digest, and runs the graph as it is."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.digests: list[str] = []
        self.operations = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
        import copy

        from torch._inductor.compile_fx import compile_fx

        self.digests.append(graph_digest(gm))
        self.operations += sum(n.op.startswith("call") for n in gm.graph.nodes)
        table = decomposition_table(self.session.profile)
        compile_fx(
            copy.deepcopy(gm),
            list(example_inputs),
            config_patches={**config_patches(), **_RECORDING},
            decompositions=table,
        )
        return gm.forward


def audit_block(
    block: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], profile: Profile, mode: FakeTensorMode
) -> BlockAudit:
    """Compile `block` for fake arguments. Never raises for what the device refuses; a graph break is a refusal too.

    Raises CompilerFault where the compiler fails for another reason: that is ours and says nothing of the block.
    """
    register()
    session = Session(profile, recording=True)
    recorder = _Recorder(session)
    with _disable_current_modes(), mode, compiling(session):
        torch._dynamo.reset()
        try:
            compiled = torch.compile(block, backend=recorder, fullgraph=True, dynamic=False)
            result = compiled(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as error:
            _note(session, error)
            with AllRows():
                result = block(*args, **kwargs)
    digest = hashlib.sha256("".join(recorder.digests).encode()).hexdigest()
    return BlockAudit(session, digest, recorder.operations, result)


def _note(session: Session, error: Exception) -> None:
    """What stopped the compilation, as a refusal. Raises CompilerFault if it is none."""
    if isinstance(error, torch._dynamo.exc.InternalTorchDynamoError):
        raise CompilerFault(_first_line(error)) from error
    if not isinstance(error, torch._dynamo.exc.BackendCompilerFailed):  # Dynamo could not make one graph of it
        origin = Origin("graph_break", source=source_line(str(error)))
        session.refuse(Refusal("graph_break", _first_line(error), origin, at_call=True))
        return
    cause = error.inner_exception
    if not isinstance(cause, (*_REFUSALS, *_DYNAMIC)):
        raise CompilerFault(f"{type(cause).__name__}: {_first_line(cause)}") from error
    kind: RefusalKind = "dynamic_shape" if isinstance(cause, _DYNAMIC) else "unsupported_op"
    origin = Origin("compilation", source=source_line(str(error)))
    session.refuse(Refusal(kind, _first_line(cause), origin, at_call=True))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def graph_digest(gm: torch.fx.GraphModule) -> str:
    """sha256 of the operator graph: operators, topology, sizes and dtypes in order; never names."""
    position: dict[torch.fx.Node, int] = {}
    lines = []
    for index, node in enumerate(gm.graph.nodes):
        position[node] = index
        arguments = torch.fx.map_arg((node.args, node.kwargs), lambda n: f"%{position[n]}")
        target = "" if node.op in ("placeholder", "output", "get_attr") else _target_name(node.target)
        value = node.meta.get("example_value")
        facts = (tuple(value.shape), str(value.dtype)) if isinstance(value, torch.Tensor) else ""
        lines.append(f"{node.op} {target} {'' if node.op == 'placeholder' else _without_floats(arguments)} {facts}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _target_name(target: Any) -> str:
    return (
        target
        if isinstance(target, str)
        else f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"
    )


def _without_floats(value: Any) -> str:
    """The arguments with scalar constants masked: those belong to the second digest (design §2)."""
    return str(tree_map(lambda v: "f" if isinstance(v, float) else v, value))
