"""The fake copy of a model: what is tied stays tied, what is not stays apart, equal layers are made once."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sim_backend.compiler.fake_model import fake_copy
from sim_backend.device import start

PATHS = ["layers.0", "layers.1", "layers.2"]


class Block(torch.nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, width, bias=False), torch.nn.Linear(width, 8, bias=False)


class Model(torch.nn.Module):
    def __init__(self, *blocks: Block) -> None:
        super().__init__()
        self.layers, self.head = torch.nn.ModuleList(blocks), torch.nn.Linear(8, 8, bias=False)


def copied(model: torch.nn.Module, paths: list[str]) -> list[list[int]]:
    """Ids of the fake weights of every block, and of the head alone at the end."""
    start()
    made = fake_copy(model, FakeTensorMode(), torch.float16, paths)
    return [[id(b.first.weight), id(b.second.weight)] for b in made.layers] + [[id(made.head.weight)]]


def test_equal_layers_are_made_once() -> None:
    first, second, third, head = copied(Model(Block(), Block(), Block()), PATHS)
    assert first == second == third
    assert len({*first, *head}) == 3


def test_without_blocks_every_parameter_has_its_own() -> None:
    assert len({i for ids in copied(Model(Block(), Block()), []) for i in ids}) == 5


def test_layers_of_another_size_have_their_own() -> None:
    first, second, third, _ = copied(Model(Block(), Block(16), Block()), PATHS)
    assert first == third
    assert not {*first} & {*second}


def test_a_tied_weight_stays_tied_and_ties_no_other_layer() -> None:
    model = Model(Block(), Block(), Block())
    model.layers[1].second.weight = model.layers[1].first.weight
    model.layers[2].first.weight = model.head.weight
    first, second, third, head = copied(model, PATHS)
    assert first[0] != first[1]
    assert second[0] == second[1] != first[0]
    assert third == [head[0], first[1]]


def test_blocks_inside_blocks_share_nothing() -> None:
    start()
    made = fake_copy(Model(Block()), FakeTensorMode(), None, ["layers.0", "layers.0.first", "layers.0.second"])
    assert made.layers[0].first.weight is not made.layers[0].second.weight
