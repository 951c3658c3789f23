"""P97: attention over blocks (BigBird) as the full attention that stock itself takes within a length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from ..errors import PatchDoesNotApply, ShapeRefused
from ..rebinding import own_function
from ..reversal import Reversal
from .base import PHASE_COMPLETE, HostCall, Patch, PatchContext, Target, Undo, types_of

KIND, SPARSE, FULL, CHANGE = "attention_type", "block_sparse", "original_full", "set_attention_type"


@dataclass(frozen=True)
class FullWithinLimit(Patch):
    """Changes to full attention before the first call instead of in it; what stock would do in blocks is refused.

    Stock changes, and never back, at the first text of at most (5 + 2 * random blocks) * block size tokens. A text
    that is longer sees random blocks there, which full attention is not.
    """

    pattern: ClassVar[str] = "P97"
    mathematics: ClassVar[str] = (
        "up to the length that its blocks need, stock's attention over blocks is full attention"
    )

    def match(self, model: nn.Module) -> list[Target]:
        """The model and its parts that change with it, also when stock has changed them in a call before.

        Raises PatchDoesNotApply if there are none, or the configuration asks for full attention itself.
        """
        holders = [Target(p, m) for p, m in model.named_modules() if hasattr(m, KIND) and hasattr(type(m), CHANGE)]
        asked = getattr(model.config, KIND, None)
        if not holders or holders[0].module is not model or asked != SPARSE:
            raise PatchDoesNotApply("P97: the model has no attention over blocks that it can change to full attention")
        return holders

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Lets stock make the full attention modules, around the same linears, and notes what there was."""
        undo, limit = Reversal(), longest_full(model)
        holders = [t.module for t in self.match(model) if getattr(t.module, KIND) == SPARSE]
        before = [dict(m._modules) for m in holders]
        if holders:
            getattr(model, CHANGE)(FULL)
        for holder, children in zip(holders, before, strict=True):
            made = {name: child for name, child in holder._modules.items() if child is not children.get(name)}
            holder._modules.update(children)
            holder.__dict__[KIND] = SPARSE
            undo.set_attribute(holder, KIND, FULL)
            for name, child in made.items():
                undo.set_module(holder, name, child)  # type: ignore[arg-type]

        def stage(inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
            tokens = inputs["input_ids"] if inputs.get("input_ids") is not None else inputs["inputs_embeds"]
            if tokens.shape[1] > limit:
                raise ShapeRefused(
                    f"{type(model).__name__}: {tokens.shape[1]} tokens; beyond {limit} stock attends to random blocks, "
                    f"which the adapter does not; truncate to {limit}"
                )
            return inputs

        undo.add(context.add_stage(PHASE_COMPLETE, stage))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes of the model, of its parts that change, and of both sorts of attention."""
        targets = self.match(model)
        return [*types_of(targets), *{kind for t in targets for kind in _named_classes(t.module)}]


def _named_classes(holder: nn.Module) -> list[type]:
    """The module classes that the method which changes the attention names."""
    function = own_function(holder, CHANGE)
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    return [kind for kind in named if isinstance(kind, type) and issubclass(kind, nn.Module)]


def longest_full(model: Any) -> int:
    """Tokens up to which stock changes to full attention."""
    return int((5 + 2 * model.config.num_random_blocks) * model.config.block_size)
