"""Printing, saving, pickling and deep copies work whatever the profile refuses, and show values, not codes."""

from __future__ import annotations

import copy
import io
import pickle

import torch


def spyre_half() -> torch.Tensor:
    return torch.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=torch.float16).to("spyre")


def test_printing_uses_no_device_operation_and_names_the_device() -> None:
    torch.spyre.reset_fallback_counts()
    text = repr(spyre_half())
    assert "1.5000, -2.0000" in text
    assert "device='spyre:0'" in text
    assert torch.spyre.fallback_counts() == {}


def test_saved_tensors_load_on_the_device_and_on_the_cpu() -> None:
    stored = io.BytesIO()
    torch.save({"t": spyre_half(), "p": torch.nn.Parameter(spyre_half())}, stored)
    for location, kind in ((None, "spyre"), ("cpu", "cpu")):
        stored.seek(0)
        loaded = torch.load(stored, map_location=location)
        assert loaded["t"].device.type == kind
        assert isinstance(loaded["p"], torch.nn.Parameter)
        assert torch.equal(loaded["p"].detach().cpu(), spyre_half().cpu())


def test_pickles_and_deep_copies_are_equal_and_independent() -> None:
    t = spyre_half()
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert other.device.type == "spyre"
        assert torch.equal(other.cpu(), t.cpu())
        other.zero_()
    assert t.cpu().ne(0).all()


def test_modules_move_copy_and_load_state() -> None:
    layer = torch.nn.Linear(4, 3).half()
    moved = copy.deepcopy(layer).to("spyre")
    again = copy.deepcopy(moved)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again.weight.detach().cpu(), moved.weight.detach().cpu())
    assert moved.cpu().weight.device.type == "cpu"
