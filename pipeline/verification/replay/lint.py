"""What drafted code may not even mention: ways to learn that it is watched, to keep state, or to leave its place.

This is no wall (the sandbox is): it refuses code that could behave differently once it ships.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from adapters.replay.errors import DocumentRefused

MODULES = frozenset(
    {"torch", "math", "functools", "types", "typing", "collections", "dataclasses", "transformers", "__future__"}
)
"""What drafted code may import, by top-level name."""

FORBIDDEN = frozenset(
    {
        "FakeTensor",
        "FakeTensorMode",
        "Proxy",
        "TorchDispatchMode",
        "TorchFunctionMode",
        "_C",
        "__builtins__",
        "__code__",
        "__globals__",
        "__import__",
        "__subclasses__",
        "_dispatch",
        "_dynamo",
        "_export",
        "_forward_hooks",
        "_global_forward_hooks",
        "_is_fake",
        "_python_dispatch",
        "_subclasses",
        "_version",
        "autocast",
        "compile",
        "compiler",
        "cond",
        "data_ptr",
        "detect_fake_mode",
        "enable_grad",
        "eval",
        "exec",
        "export",
        "fake_mode",
        "fake_tensor",
        "from_file",
        "from_numpy",
        "frombuffer",
        "fx_tracing",
        "gc",
        "get_default_dtype",
        "get_num_threads",
        "globals",
        "is_compiling",
        "is_dynamo_compiling",
        "is_exporting",
        "is_fake",
        "is_fx_symbolic_tracing",
        "is_fx_tracing",
        "is_grad_enabled",
        "is_jit_tracing",
        "is_meta",
        "is_scripting",
        "is_torchdynamo_compiling",
        "is_torchdynamo_exporting",
        "is_tracing",
        "library",
        "load",
        "locals",
        "manual_seed",
        "open",
        "register_module_forward_hook",
        "register_module_forward_pre_hook",
        "register_module_full_backward_hook",
        "register_module_module_registration_hook",
        "register_module_parameter_registration_hook",
        "set_default_dtype",
        "set_deterministic_debug_mode",
        "set_float32_matmul_precision",
        "set_flush_denormal",
        "set_grad_enabled",
        "set_num_interop_threads",
        "set_num_threads",
        "set_rng_state",
        "setrecursionlimit",
        "thread_safe_generator",
        "train",
        "untyped_storage",
        "use_deterministic_algorithms",
        "vars",
    }
)
"""Names, attributes and texts that no patch needs."""

STATE = frozenset(
    {"append", "clear", "extend", "insert", "pop", "popitem", "popleft", "remove", "setdefault", "update", "__next__"}
)
"""Methods that change what they are called on; a patched forward keeps no state."""


class Finding(NamedTuple):
    """One refused place in the code."""

    line: int
    reason: str


def check_code(source: str) -> None:
    """Raises DocumentRefused, which names the first finding, unless the code is clean."""
    for finding in lint_code(source):
        raise DocumentRefused(f"line {finding.line}: {finding.reason}", "code")


def lint_code(source: str) -> list[Finding]:
    """Every finding, in order of lines; a syntax error is one."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return [Finding(getattr(error, "lineno", 0) or 0, f"the code does not parse: {error}")]
    found = [*_mentions(tree), *_states(tree), *_shared(tree)]
    return sorted(set(found))


def _mentions(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node)
        for name in _names(node):
            if name in FORBIDDEN:
                yield Finding(getattr(node, "lineno", 0), f"{name} may not be used")
        if isinstance(node, ast.Call) and _hides_its_name(node):
            yield Finding(node.lineno, "getattr and setattr need their name written out")


def _hides_its_name(call: ast.Call) -> bool:
    is_access = isinstance(call.func, ast.Name) and call.func.id in ("getattr", "setattr")
    return is_access and (len(call.args) < 2 or not isinstance(call.args[1], ast.Constant))


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for name in names:
        if name.split(".")[0] not in MODULES:
            yield Finding(node.lineno, f"module {name!r} may not be imported")
        for part in name.split("."):
            if part in FORBIDDEN:
                yield Finding(node.lineno, f"{part} may not be used")


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.alias):
        return [node.name.rsplit(".", 1)[-1]]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split(".") if len(node.value) < 200 else []
    return []


def _states(tree: ast.AST) -> Iterator[Finding]:
    """State kept by functions that may run in every forward: all but those that set the model up."""
    setup = _setup(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield Finding(node.lineno, "a function keeps state (global or nonlocal)")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node not in setup:
            for inner in _own(node):
                yield from _keeps_state(inner, _locals(node))


def _shared(tree: ast.AST) -> Iterator[Finding]:
    """Assignments to what others use too: attributes of a module, of a class. A patch acts on instances."""
    shared = {*MODULES, *_bound_to_shared(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            if _is_class_of(node.value) or (_root(node.value) in shared and _root(node.value) != "self"):
                yield Finding(node.lineno, f"assigns {node.attr} on a module or class, which others use too")
            elif node.attr in ("__class__", "__dict__"):
                yield Finding(node.lineno, f"assigns {node.attr}")


def _bound_to_shared(tree: ast.AST) -> Iterator[str]:
    """Names for imported modules, for parts of torch and for classes of instances."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign) and (_is_class_of(node.value) or _is_part_of_torch(node.value)):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _is_part_of_torch(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and _root(node) == "torch"


def _is_class_of(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "__class__"
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _setup(tree: ast.AST) -> set[ast.AST]:
    """`apply`, initialisers, and every function that is only ever called, and only by those."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    found: set[ast.AST] = {f for f in functions if f.name in ("apply", "__init__")}
    mentions = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    while True:
        calls = {id(n.func) for f in found for n in _own(f) if isinstance(n, ast.Call)}
        named = {f: [n for n in mentions if n.id == f.name] for f in functions}
        more = {f for f, uses in named.items() if uses and all(id(n) in calls for n in uses)} - found
        if not more:
            return found
        found |= more


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions inside it."""
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo += ast.iter_child_nodes(node)


def _locals(function: ast.AST) -> set[str]:
    """Names a function assigns: what they hold is made afresh in every call."""
    return {n.id for n in _own(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _keeps_state(node: ast.AST, local: set[str]) -> Iterator[Finding]:
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        owner = node.value
        if not (isinstance(node, ast.Subscript) and isinstance(owner, ast.Name) and owner.id in local):
            yield Finding(node.lineno, "a function other than apply assigns to an attribute or item: it keeps state")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STATE:
        owner = node.func.value
        if not (isinstance(owner, ast.Name) and owner.id in local):
            yield Finding(node.lineno, f"{node.func.attr}() changes what outlives the call: it keeps state")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next":
        yield Finding(node.lineno, "next() keeps state")
