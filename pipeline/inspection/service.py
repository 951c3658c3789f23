"""Judges a checkpoint from its configuration and files. Nothing of it is executed, imported or allocated.

Two kinds of result are kept apart: a `problem` makes the model itself unusable (nothing can be captured), a
`weights_problem` only says that its own weights cannot be had (synthetic weights may still be used).
Our own faults (an unreadable folder, transformers missing) raise EnvironmentProblem and never become a problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from adapters.errors import NotRemapped
from adapters.remap import remapped
from agents.types import FailureKind
from pipeline.catalogue.entry import WeightsForm
from pipeline.errors import BadInput, CheckpointProblem
from pipeline.inspection.chain import Chain, ChainError, read_chain
from pipeline.inspection.digest import config_digest
from pipeline.inspection.files import CONFIG, python_files, weights_form
from pipeline.inspection.native import native_class, native_classes
from pipeline.inspection.sizes import Sizes, estimate_parameters, size_fault, text_config, text_sizes
from pipeline.inspection.sources import LocalFolder, Source, read_json
from pipeline.inspection.weights import WeightsFacts, inspect_weights

STATIC_TYPES = frozenset({"model2vec", "staticvectors", "static"})
"""Model types of tables of word vectors: no transformer runs, so no patch is needed."""

DEFAULT_DTYPE = "float32"
"""What transformers loads when neither the configuration nor the weights say."""


class Problem(NamedTuple):
    """Why a checkpoint cannot be used: a stored failure kind and one sentence that names the checkpoint."""

    kind: str
    message: str


@dataclass(frozen=True)
class Inspection:
    """What is known of a checkpoint without running it. None means it could not be found out.

    `dtype` is the torch name the stock checkpoint runs in; `parameters` is counted from safetensors headers where
    `parameters_counted`, else estimated from the configuration; `sizes` are those of the text tower;
    `ships_code` marks a repository with Python of its own beside a stock class that is used instead.
    """

    name: str
    revision: str | None = None
    config: dict[str, Any] | None = None
    config_digest: str | None = None
    model_type: str | None = None
    architectures: tuple[str, ...] = ()
    native_class: str | None = None
    dtype: str | None = None
    sizes: Sizes = field(default_factory=Sizes)
    parameters: int | None = None
    parameters_counted: bool = False
    chain: Chain = field(default_factory=Chain)
    weights_form: WeightsForm = WeightsForm.UNKNOWN
    weights_bytes: int | None = None
    ships_code: bool = False
    gated: bool = False
    static: bool = False
    problem: Problem | None = None
    weights_problem: Problem | None = None

    @property
    def has_real_weights(self) -> bool:
        """True if native weights are there and nothing stands against loading them."""
        return self.weights_form is WeightsForm.SAFETENSORS and self.problem is None and self.weights_problem is None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "weights_form": str(self.weights_form)}


def require_usable(inspection: Inspection, *, real_weights: bool = False) -> Inspection:
    """The same inspection. Raises CheckpointProblem for its problem or, with `real_weights`, its weights problem."""
    problem = inspection.problem or (inspection.weights_problem if real_weights else None)
    if problem is not None:
        raise CheckpointProblem(problem.kind, problem.message)
    return inspection


def inspect_checkpoint(source: Source | Path | str) -> Inspection:
    """The inspection of a local folder (path) or of any `Source`. Model faults are in the result, never raised.

    Raises BadInput if a path is no folder, EnvironmentProblem if the files cannot be read or transformers is missing.
    """
    opened = _open(source)
    names = opened.names()
    form = WeightsForm.UNKNOWN if names is None else weights_form(names)
    base = Inspection(opened.name, revision=opened.revision, gated=opened.gated, weights_form=form)
    try:
        config = read_json(opened, CONFIG)
        if not isinstance(config, Mapping):
            return _with(base, problem=_config_problem(opened, form, config))
        return _judge(opened, names or [], base, dict(config))
    except CheckpointProblem as problem:
        return _with(base, problem=Problem(problem.kind, str(problem)))
    except (ChainError, ValueError) as error:
        return _with(base, problem=_problem(opened, FailureKind.MALFORMED, f"{error}; get it again or report it"))


def _open(source: Source | Path | str) -> Source:
    if not isinstance(source, str | Path):
        return source
    if not Path(source).is_dir():
        raise BadInput(f"{str(source)!r} is not a folder; give a checkpoint folder or a model id such as 'org/name'")
    return LocalFolder(Path(source))


def _judge(source: Source, names: list[str], base: Inspection, config: dict[str, Any]) -> Inspection:
    chain = read_chain(lambda name: read_json(source, name), config)
    facts = _facts(source, names, base, config, chain)
    if facts.static:
        return facts
    problem = _structure_problem(source, facts, config)
    if problem is not None:
        return _with(facts, problem=problem)
    weights = inspect_weights(source.folder, chain) if source.folder else WeightsFacts()
    return _weighed(source, facts, config, weights, _pickled_module(names, chain))


def _facts(source: Source, names: list[str], base: Inspection, config: dict[str, Any], chain: Chain) -> Inspection:
    kind, stock = config.get("model_type"), _stock_words(config)
    architectures = config.get("architectures") or ()
    return _with(
        base,
        config=config,
        model_type=kind if isinstance(kind, str) else None,
        architectures=tuple(str(a) for a in architectures) if isinstance(architectures, list) else (),
        native_class=native_class(str(stock["model_type"])) if isinstance(kind, str) and stock else None,
        chain=chain,
        ships_code=bool(config.get("auto_map")) or bool(python_files(names)),
        static=chain.static or kind in STATIC_TYPES,
    )


def _stock_words(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration as a stock class' one; empty if the stock class cannot stand for the one it is of."""
    try:
        return remapped(config) or config
    except NotRemapped:
        return {}


def _pickled_module(names: list[str], chain: Chain) -> str | None:
    """The first Dense module that has pickle weights and no safetensors."""
    listed = set(names)
    for path in (dense.path for dense in chain.dense):
        if f"{path}/pytorch_model.bin" in listed and f"{path}/model.safetensors" not in listed:
            return path
    return None


def _weighed(
    source: Source, facts: Inspection, config: dict[str, Any], weights: WeightsFacts, pickled: str | None
) -> Inspection:
    return _with(
        facts,
        config_digest=config_digest(config),
        dtype=_config_dtype(config) or weights.dtype or DEFAULT_DTYPE,
        sizes=text_sizes(config),
        parameters=weights.parameters or estimate_parameters(config),
        parameters_counted=weights.parameters is not None,
        weights_bytes=weights.bytes,
        problem=_problem(source, FailureKind.MALFORMED, f"{weights.fault}; fetch it again") if weights.fault else None,
        weights_problem=_weights_problem(source, facts, weights, pickled),
    )


def _config_problem(source: Source, form: WeightsForm, config: Any) -> Problem:
    if config is not None:
        return _problem(source, FailureKind.MALFORMED, "its config.json is not a table of settings")
    if source.gated:
        return _gated(source)
    if form in _NOT_NATIVE:
        return _not_native(source, form)
    return _problem(source, FailureKind.MALFORMED, "it has no config.json, so its architecture is unknown")


def _structure_problem(source: Source, facts: Inspection, config: dict[str, Any]) -> Problem | None:
    """The first reason why no graph can be captured, in the order in which a reader would want to know it."""
    if _needs_remote_code(facts, config):
        return _problem(source, FailureKind.REMOTE_CODE, _why_remote(config))
    if facts.native_class is None:
        return _problem(source, FailureKind.UNKNOWN_ARCHITECTURE, _unknown_architecture(facts.model_type))
    fault = size_fault(config)
    if fault is not None:
        return _problem(source, FailureKind(fault.kind), fault.message)
    if "quantization_config" in config or "quantization" in config:
        return _problem(
            source, FailureKind.QUANTISED, f"its weights are {_method(config)}; use the unquantised original"
        )
    if facts.weights_form is WeightsForm.ADAPTER:
        return _not_native(source, facts.weights_form)
    return None


def _why_remote(config: dict[str, Any]) -> str:
    try:
        remapped(config)
    except NotRemapped as error:
        return f"{error}; its own code is never executed"
    return "it runs only with code from its repository, which is never executed"


def _unknown_architecture(model_type: str | None) -> str:
    if model_type is None:
        return "its config.json names no model_type"
    return f"stock transformers has no class for model_type {model_type!r:.60}"


def _needs_remote_code(facts: Inspection, config: dict[str, Any]) -> bool:
    """Remote code is needed if the repository brings the class and stock transformers does not have it by that name."""
    if facts.chain.foreign is not None:
        return True
    stock = facts.native_class is not None and (
        _stock_words(config) is not config
        or not facts.architectures
        or any(name in native_classes().names for name in facts.architectures)
    )
    return not stock and (bool(config.get("auto_map")) or (facts.native_class is None and facts.ships_code))


_NOT_NATIVE = {
    WeightsForm.GGUF: "GGUF",
    WeightsForm.ONNX: "ONNX",
    WeightsForm.ADAPTER: "PEFT adapter",
    WeightsForm.OTHER: "another framework's",
}


def _weights_problem(source: Source, facts: Inspection, weights: WeightsFacts, pickled: str | None) -> Problem | None:
    if weights.quantised:
        return _problem(source, FailureKind.QUANTISED, "its weights are packed integers; use the unquantised original")
    if facts.gated:
        return _gated(source)
    if facts.weights_form in _NOT_NATIVE:
        return _not_native(source, facts.weights_form)
    if facts.weights_form is WeightsForm.PICKLE or pickled:
        where = f"module {pickled!r} has" if pickled else "it has"
        return _problem(
            source,
            FailureKind.PICKLE_WEIGHTS,
            f"{where} pickle weights only, which are never loaded; convert to safetensors",
        )
    return None


def _not_native(source: Source, form: WeightsForm) -> Problem:
    text = f"it has {_NOT_NATIVE[form]} weights only; use the model they were made from"
    return _problem(source, FailureKind.NO_NATIVE_WEIGHTS, text)


def _gated(source: Source) -> Problem:
    return _problem(
        source, FailureKind.GATED, "its owner must grant access; accept its terms on the Hub and set HF_TOKEN"
    )


def _method(config: Mapping[str, Any]) -> str:
    options = config.get("quantization_config")
    method = options.get("quant_method") if isinstance(options, Mapping) else None
    return f"quantised ({method!s:.30})" if method else "quantised"


def _config_dtype(config: Mapping[str, Any]) -> str | None:
    for holder in (config, text_config(config)):
        value = holder.get("dtype") or holder.get("torch_dtype")
        if isinstance(value, str):
            return value.removeprefix("torch.")
    return None


def _problem(source: Source, kind: FailureKind, text: str) -> Problem:
    return Problem(str(kind), f"{source.name!r}: {text}.")


def _with(inspection: Inspection, **changes: Any) -> Inspection:
    return Inspection(**{**{k: getattr(inspection, k) for k in inspection.__dataclass_fields__}, **changes})
