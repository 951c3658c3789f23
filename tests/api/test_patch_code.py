"""Both sides of a patch: the stock function that fails, and what the pattern library runs in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.pages.patch_code import applied_code, forward_of_model, stock_functions
from api.pages.sources import pattern_source, pattern_sources

LIBRARY = '''
LIMIT = 3


class Base(Patch):
    """A pattern."""

    pattern: ClassVar[str] = "P0"

    def match(self, model):
        """Looks only."""
        return looks_only(model)

    def helper(self):
        return reached(LIMIT)

    def apply(self, model):
        return self.helper()

    def replaced(self, model):
        """Everything."""
        return []


class Derived(Base):
    pattern: ClassVar[str] = "P1"
    function: ClassVar[Any] = staticmethod(through_the_class)


@decorated
def reached(x):
    return further(x)


def further(x):
    return x


def through_the_class(x):
    return x


def looks_only(x):
    return x
'''


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "library.py"
    path.write_text(LIBRARY)
    return path


def test_what_a_pattern_applies_is_what_acts_and_what_that_reaches(library: Path) -> None:
    code = "\n".join(applied_code(library, "Base"))
    assert code.startswith("def apply(self, model):")
    for shown in ("def helper(self):", "@decorated\ndef reached(x):", "def further(x):"):
        assert shown in code
    for hidden in ("looks_only", "through_the_class", "def replaced", "Derived"):
        assert hidden not in code


def test_a_derived_pattern_shows_what_it_inherits_and_what_its_class_names(library: Path) -> None:
    code = "\n".join(applied_code(library, "Derived"))
    assert "def apply(self, model):" in code
    assert "def through_the_class(x):" in code
    assert applied_code(library, "Missing") == []


def test_every_pattern_of_the_library_has_code_that_is_applied() -> None:
    for pattern, sources in pattern_sources().items():
        for source in sources:
            assert applied_code(source.path, source.name), (pattern, source.name)
    found = pattern_source("P20", {"head_dim": 32})
    assert found is not None
    assert found.replaces == "The attention classes and the owners of the output projection."


def test_lines_of_one_stock_function_are_shown_together() -> None:
    found = stock_functions(
        ["modeling_bert.py:180", "activations.py:66", "modeling_bert.py:185", "no_such_file.py:1", ""]
    )
    assert [excerpt.place for excerpt in found] == [
        "transformers/models/bert/modeling_bert.py:180",
        "transformers/activations.py:66",
    ]
    assert [line.number for line in found[0].lines if line.named] == [180, 185]
    assert found[0].lines[0].text.lstrip().startswith("def ")


def test_a_patch_of_the_whole_model_is_shown_beside_the_models_forward() -> None:
    found = forward_of_model({"architectures": ["BertModel"], "model_type": "bert"})
    assert found is not None
    assert found.lines[0].text.lstrip().startswith("def forward(")
    for config in (None, {}, {"architectures": ["NoSuchModel"], "model_type": "bert"}, {"model_type": "../x"}):
        assert forward_of_model(config) is None
    assert forward_of_model({"architectures": "BertModel", "model_type": "bert"}) is None
