"""Pattern P01: the document of an element-wise module, rewritten by the rule table.

The stock module is captured by trusted code on fake tensors; what leaves here is a validated document and the chain of
rules that led to it. Nothing is rewritten unless a diagnosis names an operation that must go; then
the cheapest form is taken.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agents.drafters.rules.device import computes, cost_of, largest_difference, stays_in_range
from agents.drafters.rules.rewrite import Rewriting, rewrite
from agents.drafters.rules.rule import Rule
from agents.drafters.rules.table import RULES
from agents.drafters.rules.terms import Call, Const, Input, Term, subterms
from agents.types import Exactness, Failure

Document = dict[str, Any]
CaptureStock = Callable[[str], Document]

MARGIN = 1.25
"""What is claimed over the largest difference found at some hundred points per octave."""

STOCK_PACKAGES = ("transformers.", "torch.nn.")
"""Where a module class may come from: its constructor is called here, so it must be code we installed."""


class NotRewritable(ValueError):
    """The rules cannot draft a document; the message says why."""


@dataclass(frozen=True)
class DocumentDraft:
    """A validated document that holds none of the failing operations, and how it was derived."""

    document: Document
    proof: tuple[str, ...]
    exactness: Exactness
    bound: float | None


def capture_stock(module_class: str) -> Document:
    """The document of the stock module class, made without arguments. Raises NotRewritable."""
    from adapters.document import capture_module
    from adapters.errors import DocumentRefused

    if not module_class.startswith(STOCK_PACKAGES):
        raise NotRewritable(f"{module_class!r} is not a class of transformers or torch")
    module, _, name = module_class.rpartition(".")
    try:
        return capture_module(getattr(importlib.import_module(module), name)())
    except (ImportError, AttributeError, TypeError, DocumentRefused) as error:
        raise NotRewritable(f"{module_class!r} cannot be captured as an element-wise module: {error}") from error


class DocumentRules:
    """Drafts documents; each stock module is captured once, each document drafted once for a profile.

    `added` are rules beside those of the table: what people accepted.
    """

    def __init__(self, capture: CaptureStock = capture_stock, added: Sequence[Rule] = ()) -> None:
        self._capture, self._rules = capture, (*RULES, *added)
        self._stock: dict[str, Term] = {}
        self._drafts: dict[str, DocumentDraft | NotRewritable] = {}

    def draft(self, module_class: str, failures: Sequence[Failure], profile: str | None = None) -> DocumentDraft:
        """The cheapest document without any operation that the failures name or the profile lacks.

        Without a profile only the failures count. Raises NotRewritable.
        """
        key = repr((module_class, profile, failures))
        if key not in self._drafts:
            try:
                self._drafts[key] = self._draft(module_class, failures, profile)
            except NotRewritable as error:
                self._drafts[key] = error
        found = self._drafts[key]
        if isinstance(found, NotRewritable):
            raise found
        return found

    def why_not(self, module_class: str, failure: Failure, profile: str | None = None) -> str | None:
        """Why no document cures a failure; None if one does."""
        try:
            self.draft(module_class, [failure], profile)
        except NotRewritable as error:
            return str(error)
        return None

    def _draft(self, module_class: str, failures: Sequence[Failure], profile: str | None) -> DocumentDraft:
        if module_class not in self._stock:
            self._stock[module_class] = to_term(self._capture(module_class))
        stock = self._stock[module_class]
        unwanted = _unwanted(stock, failures, profile)
        rewriting = rewrite(stock, unwanted, self._rules, cost_of, partial(stays_in_range, stock))
        _check_cured(module_class, failures, stock, rewriting)
        document = to_document(rewriting.term)
        return DocumentDraft(document, rewriting.proof, rewriting.exactness, _bound(stock, document, rewriting))


def _bound(stock: Term, document: Document, rewriting: Rewriting) -> float | None:
    """The claim of an approximating chain: what its rules allow, or what is found if the module enlarges it."""
    if rewriting.bound is None:
        return None
    return max(rewriting.bound, MARGIN * largest_difference(to_document(stock), document))


def _unwanted(stock: Term, failures: Sequence[Failure], profile: str | None) -> Callable[[Call], bool]:
    """Calls that may not remain: those the failures name, and new ones that the profile lacks."""
    own = {part.op for part in subterms(stock) if isinstance(part, Call)}

    def unwanted(call: Call) -> bool:
        if any(concerns(failure, call) for failure in failures):
            return True
        return profile is not None and call.op not in own and not computes(profile, call)

    return unwanted


def _check_cured(module_class: str, failures: Sequence[Failure], stock: Term, rewriting: Rewriting) -> None:
    for failure in failures:
        if not _calls(failure, stock):
            raise NotRewritable(f"{failure.op} of {failure.source} does not occur in {module_class!r}")
        if left := _calls(failure, rewriting.term):
            raise NotRewritable(f"no rewrite rule fits {left[0]} of {module_class!r}")


def _calls(failure: Failure, term: Term) -> list[Call]:
    return [part for part in subterms(term) if isinstance(part, Call) and concerns(failure, part)]


def concerns(failure: Failure, call: Call) -> bool:
    """Whether a call is what a failure speaks about: same operation, and a constant among those it names if any."""
    if not (call.op == failure.op or call.op.startswith(f"{failure.op}.")):
        return False
    numbers = [s for s in failure.scalars if isinstance(s, int | float)]
    return not numbers or any(isinstance(a, Const) and a.value in numbers for a in call.args)


def to_term(document: Document) -> Term:
    """The output of a document as a term; its input is `x`. Raises NotRewritable for a tensor given by keyword."""
    values: list[Term] = [Input("x")]
    for node in document["nodes"]:
        args = tuple(values[a["ref"]] if isinstance(a, dict) else Const(a) for a in node["args"])
        kwargs = node.get("kwargs", {})
        if any(isinstance(value, dict) for value in kwargs.values()):
            raise NotRewritable(f"{node['op']} takes a tensor by keyword")
        values.append(Call(node["op"], args, tuple(sorted(kwargs.items()))))
    return values[document["output"]["ref"]]


def to_document(term: Term) -> Document:
    """The validated document of a term over the input `x`; shared subterms are computed once."""
    from adapters.document import validate

    numbers: dict[Term, int] = {Input("x"): 0}
    nodes: list[dict[str, Any]] = []
    for part in subterms(term):
        if isinstance(part, Call):
            nodes.append(_node(part, numbers))
            numbers[part] = len(nodes)
    return validate({"version": 1, "nodes": nodes, "output": {"ref": numbers[term]}})


def _node(call: Call, numbers: dict[Term, int]) -> dict[str, Any]:
    args = [a.value if isinstance(a, Const) else {"ref": numbers[a]} for a in call.args]
    node: dict[str, Any] = {"op": call.op, "args": args}
    return node | ({"kwargs": dict(call.kwargs)} if call.kwargs else {})


def without_powers(document: Document) -> Document:
    """The same function with whole and half powers as products and roots, by the rules of P01 alone; others stay."""
    from agents.drafters.rules.powers import POW, POWERS

    done = rewrite(to_term(document), lambda call: call.op in (POW, "aten.square.default"), POWERS)
    return to_document(done.term)
