"""Step 1 of the recipe: every parameter from its own named random stream, by what its module is."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.verification.parts import Batch, is_linear, is_norm, module_hooks, rows, shortest_text, token_table
from pipeline.weights.synthetic import recipe


def stream_for(seed: int, name: str) -> torch.Generator:
    """The generator of one parameter: sha256 of recipe, seed and name decides it."""
    digest = hashlib.sha256(f"{recipe.RECIPE}/{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def draw(model: nn.Module, batch: Batch, seed: int) -> frozenset[nn.Module]:
    """Fills the parameters of `model` in place; returns the norms whose gain is 1 + weight.

    Tables fixed by formula (frozen while other parameters train) stay. Parameters of other modules keep a constant
    value and are drawn anew with std 1/sqrt(fan_in) where their values vary, so that nothing depends on global state.
    """
    frozen = _frozen(model)
    called = _called_tables(model, batch)
    offset = frozenset(m for m in model.modules() if is_norm(m) and not bool(_weight(m).any()))
    done = set(frozen)
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if parameter not in done:
                _draw_one(module, name, parameter, model, seed, module in offset, parameter in called)
                done.add(parameter)
    return offset


def _weight(module: nn.Module) -> Tensor:
    weight: Any = module.weight
    data: Tensor = weight.data
    return data


def _frozen(model: nn.Module) -> set[nn.Parameter]:
    parameters = list(model.parameters())
    frozen = {p for p in parameters if not p.requires_grad}
    return frozen if len(frozen) < len(parameters) else set()


def _called_tables(model: nn.Module, batch: Batch) -> set[nn.Parameter]:
    """Weights of the tables that are looked up (others are read directly)."""
    called: set[nn.Parameter] = set()
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding)]
    with torch.no_grad(), module_hooks(tables, after=lambda m, *_: called.update(m.parameters())):
        model(**shortest_text(batch))
    return called


def _draw_one(
    module: nn.Module, name: str, parameter: nn.Parameter, model: nn.Module, seed: int, offset: bool, called: bool
) -> None:
    generator, data = stream_for(seed, name), parameter.data
    is_weight = name.endswith("weight")
    if isinstance(module, nn.Embedding):
        data.normal_(0, _table_std(module, _model_width(model), called), generator=generator)
    elif is_norm(module) and is_weight:
        gain = torch.empty_like(data).normal_(0, recipe.GAIN_SIGMA, generator=generator).exp_()
        data.copy_(gain.clamp_(recipe.GAIN_LOW, recipe.GAIN_HIGH) - float(offset))
    elif is_norm(module):
        data.normal_(0, recipe.NORM_BIAS_STD, generator=generator)
    elif is_linear(module):
        std = rows(module).shape[1] ** -0.5 if is_weight else recipe.LINEAR_BIAS_STD
        data.normal_(0, std, generator=generator)
    elif data.numel() > 1 and bool((data != data.flatten()[0]).any()):
        fan_in = data.numel() // data.shape[0] if data.dim() > 1 else data.numel()
        data.normal_(0, fan_in**-0.5, generator=generator)


def _model_width(model: nn.Module) -> int:
    table = token_table(model)
    if table is None:
        raise recipe.RecipeRefused(f"recipe {recipe.RECIPE} needs a token table, {type(model).__name__} has none")
    return table.embedding_dim


def _table_std(table: nn.Embedding, width: int, called: bool) -> float:
    if not called and table.embedding_dim > recipe.NARROW:
        return recipe.PROJECTED_TABLE_STD
    if table.embedding_dim not in (width,) and table.embedding_dim <= recipe.NARROW:
        return recipe.RELATIVE_TABLE_STD
    return recipe.TYPE_TABLE_STD if table.num_embeddings <= recipe.TYPE_TABLE_ROWS else recipe.TABLE_STD
