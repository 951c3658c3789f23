"""The form of a patch: one Python module that defines one entry function. Checked on the syntax tree, before any run.

This is no wall (the sandbox is). It tells a model at once what no patch may hold: other imports, I/O, ways around
Python's own rules, names with double underscores.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum

from agents.errors import CandidateRefused

MAX_NODES = 4_000
MAX_FINDINGS = 5


class Form(StrEnum):
    """What a patch module defines. Stored text."""

    ELEMENTWISE = "elementwise"
    """`forward(x)`: one tensor in, one of the same shape and dtype out; it becomes a document."""
    MODEL = "model"
    """`apply(model)`: changes instances of the stock model; verified from documents as `pattern: code`."""

    @property
    def entry(self) -> str:
        """The function that the module defines."""
        return {"elementwise": "forward", "model": "apply"}[self.value]

    @property
    def signature(self) -> str:
        """The function with its parameter."""
        return {"elementwise": "forward(x)", "model": "apply(model)"}[self.value]

    @property
    def modules(self) -> tuple[str, ...]:
        """What the module may import, by top-level name."""
        return {"elementwise": ("torch", "math"), "model": ("torch", "math", "functools", "types", "transformers")}[
            self.value
        ]


NAMES = frozenset(
    {
        "breakpoint",
        "classmethod",
        "compile",
        "delattr",
        "dir",
        "eval",
        "exec",
        "exit",
        "globals",
        "help",
        "input",
        "locals",
        "memoryview",
        "open",
        "print",
        "quit",
        "vars",
    }
)
"""Built-in functions that no patch needs."""

PARTS = frozenset(
    {
        "_C",
        "classes",
        "cpp_extension",
        "cuda",
        "distributed",
        "export",
        "from_file",
        "from_pretrained",
        "hub",
        "jit",
        "library",
        "load",
        "load_library",
        "multiprocessing",
        "onnx",
        "ops",
        "package",
        "save",
        "save_pretrained",
        "serialization",
        "tofile",
        "utils",
    }
)
"""Parts of torch and transformers that read, write, load code or reach other processes."""

DUNDERS = frozenset({"__init__", "__future__"})
"""The names with double underscores that a patch may hold."""


DUNDER_IN_TEXT = re.compile(r"__[A-Za-z]\w*?__")
"""Such names in texts are looked up by `getattr` and by `str.format`."""


def check_module(code: str, form: Form) -> None:
    """Raises CandidateRefused, which names up to five findings, unless the code has the form."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CandidateRefused(f"the code does not parse: {str(error)[:300]}") from error
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise CandidateRefused(f"the code has more than {MAX_NODES} nodes")
    found = list(dict.fromkeys([*_shape(tree, form), *_content(tree, form)]))
    if found:
        raise CandidateRefused(f"the module has not the form of a patch: {'; '.join(found[:MAX_FINDINGS])}")


def _shape(tree: ast.Module, form: Form) -> Iterator[str]:
    entries = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == form.entry]
    if len(entries) != 1:
        yield f"it defines {len(entries)} functions `{form.signature}`, exactly one is needed"
    elif not _takes_one(entries[0].args):
        yield f"line {entries[0].lineno}: `{form.entry}` takes exactly one argument"
    for node in tree.body:
        if not isinstance(node, TOP_LEVEL) and not _is_docstring(node):
            yield f"line {node.lineno}: only imports, constants, functions and classes may stand at the top"


TOP_LEVEL = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _takes_one(arguments: ast.arguments) -> bool:
    extra = arguments.vararg or arguments.kwarg or arguments.kwonlyargs
    return len(arguments.args) + len(arguments.posonlyargs) == 1 and not extra


def _content(tree: ast.Module, form: Form) -> Iterator[str]:
    for node in ast.walk(tree):
        line = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (f"{line}: {name!r} may not be imported" for name in _foreign(node, form))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global | ast.Nonlocal):
            yield f"{line}: {type(node).__name__} has no place in a patch"
        for name in _mentioned(node):
            if (
                (_is_dunder(name) and name not in DUNDERS)
                or name in PARTS
                or (isinstance(node, ast.Name) and name in NAMES)
            ):
                yield f"{line}: {name} may not be used"
        if isinstance(node, ast.Call) and _hides_its_name(node):
            yield f"{line}: getattr and setattr need their name written out"


def _foreign(node: ast.Import | ast.ImportFrom, form: Form) -> list[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        names = ["." * node.level + (node.module or "")]
    allowed = {*form.modules, "__future__"}
    return [name for name in names if name.split(".")[0] not in allowed]


def _mentioned(node: ast.AST) -> list[str]:
    """Names, attributes, parts of imports, and such names in texts: what could be looked up."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.alias):
        return node.name.split(".")
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return DUNDER_IN_TEXT.findall(node.value)
    return []


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and len(name) > 4


def _hides_its_name(call: ast.Call) -> bool:
    is_access = isinstance(call.func, ast.Name) and call.func.id in ("getattr", "setattr", "hasattr")
    return is_access and (len(call.args) < 2 or not isinstance(call.args[1], ast.Constant))
