"""The agent's six tools as the model sees them, and the check of what it passes to them."""

from __future__ import annotations

from typing import Any, NamedTuple

from agents.errors import MalformedAnswer
from agents.types import Exactness

TEXT: dict[str, Any] = {"type": "string"}
PYTHON_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "number": (int, float)}


class Tool(NamedTuple):
    """One tool: JSON types by argument, and which must be given."""

    name: str
    description: str
    arguments: dict[str, dict[str, Any]]
    required: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        """The tool in the OpenAI format."""
        parameters = {
            "type": "object",
            "properties": self.arguments,
            "required": list(self.required),
            "additionalProperties": False,
        }
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    @property
    def signature(self) -> str:
        """Name and arguments in one line; optional ones carry a question mark."""
        names = [name if name in self.required else f"{name}?" for name in self.arguments]
        return f"{self.name}({', '.join(names)})"


READ_SOURCE = Tool(
    "read_source",
    "stock source of what is to be patched, or of another class of transformers by its dotted name",
    {"name": TEXT},
    (),
)
SHOW_DIAGNOSIS = Tool("show_diagnosis", "what fails, where, with which shapes and constants", {}, ())
SEARCH_PATTERNS = Tool(
    "search_patterns",
    "known replacements whose text holds words of the query, with their mathematics",
    {"query": TEXT},
    ("query",),
)
RUN_REPRODUCER = Tool("run_reproducer", "run the minimal reproducer of the failure on the device", {}, ())
TEST_PATCH = Tool("test_patch", "capture and test code without submitting it", {"code": TEXT}, ("code",))
SUBMIT = Tool(
    "submit",
    "submit code as the patch, or say with `outcome` that none is needed or possible",
    {
        "code": TEXT,
        "explanation": {**TEXT, "description": "why it is the same mathematics"},
        "exactness": {**TEXT, "enum": [e.value for e in Exactness]},
        "bound": {"type": "number", "description": "largest relative error, if exactness is bounded"},
        "outcome": {**TEXT, "enum": ["patch", "cannot_be_patched", "no_patch_needed"]},
    },
    ("explanation",),
)
TOOLS = (READ_SOURCE, SHOW_DIAGNOSIS, SEARCH_PATTERNS, RUN_REPRODUCER, TEST_PATCH, SUBMIT)


def find_tool(name: str, arguments: dict[str, Any]) -> Tool:
    """The tool of a call. Raises MalformedAnswer unless it exists and the arguments are its own."""
    tool = next((t for t in TOOLS if t.name == name), None)
    if tool is None:
        raise MalformedAnswer(f"there is no tool {name[:60]!r}")
    check_arguments(tool, arguments)
    return tool


def check_arguments(tool: Tool, arguments: dict[str, Any]) -> None:
    """Raises MalformedAnswer unless the arguments are those of the tool, with their types and choices."""
    unknown = sorted(set(arguments) - set(tool.arguments))
    missing = [name for name in tool.required if name not in arguments]
    if unknown or missing:
        raise MalformedAnswer(f"{tool.name}: unknown arguments {unknown}, missing arguments {missing}"[:500])
    for name, value in arguments.items():
        rule = tool.arguments[name]
        if not isinstance(value, PYTHON_TYPES[rule["type"]]) or isinstance(value, bool):
            raise MalformedAnswer(f"{tool.name}: {name} must be a {rule['type']}")
        if value not in rule.get("enum", (value,)):
            raise MalformedAnswer(f"{tool.name}: {name} must be one of {rule['enum']}")
