"""P01 to P05: an element-wise module replaced by an operator document (`document.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import nn

from ..digests import name_of
from ..document import build, validate
from ..errors import PatchDoesNotApply
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of


@dataclass(frozen=True)
class ReplaceElementwise(Patch):
    """Replaces every instance of `module_class` ("module.QualName") by the replay of `document`.

    No code of the document is executed: it is validated and rebuilt from a dictionary of operators. Whether it is the
    same function is for the verifier to say.
    """

    pattern: ClassVar[str] = "P01"
    mathematics: ClassVar[str] = "the same function from other operators, e.g. pow(x, 3) = x*x*x"

    module_class: str = ""
    document: dict[str, Any] = field(default_factory=dict)

    def match(self, model: nn.Module) -> list[Target]:
        """Every instance of the class, once. Raises PatchDoesNotApply if there is none or it has parameters."""
        targets = [Target(path, m) for path, m in model.named_modules() if name_of(type(m)) == self.module_class]
        if not targets:
            raise PatchDoesNotApply(f"P01: the model has no {self.module_class!r}")
        if any(True for t in targets for _ in t.module.parameters()):
            raise PatchDoesNotApply(f"P01: {self.module_class!r} has parameters")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Puts one shared replay module in each place. Raises DocumentRefused for a document that breaks a rule."""
        replay = build(self.document)
        wanted = {id(t.module) for t in self.match(model)}
        undo = Reversal()
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if id(child) in wanted:
                    undo.set_module(parent, name, replay)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The replaced class."""
        return types_of(self.match(model))

    def parameters(self) -> dict[str, Any]:
        """The class's name and the validated document."""
        return {"module_class": self.module_class, "document": validate(self.document)}
