"""Module classes of diagnoses and their sources."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.drafters.targets import NoSource, module_class_of, read_class_source
from agents.types import Diagnosis

GELU_NEW = "transformers.activations.NewGELUActivation"


def test_the_source_is_read_without_importing_the_package() -> None:
    text = read_class_source(GELU_NEW)
    assert text.startswith("class NewGELUActivation")
    assert "torch.pow" in text


@pytest.mark.parametrize(
    "name",
    [
        "os.environ",
        "transformers.activations.Nothing",
        "transformers...etc.passwd",
        "transformers.../../x.Y",
        "transformers.NewGELUActivation",
        "activations",
        "",
    ],
)
def test_nothing_else_can_be_read(name: str) -> None:
    with pytest.raises(NoSource):
        read_class_source(name)


def test_the_pattern_names_the_class_and_else_the_evidence(diagnose: Callable[..., Diagnosis]) -> None:
    assert module_class_of(diagnose(("P01", {"module_class": GELU_NEW}))) == GELU_NEW
    assert module_class_of(diagnose(("P01", {}), evidence={"module_class": "a.B"})) == "a.B"
    assert module_class_of(diagnose(("P54", {}))) is None
