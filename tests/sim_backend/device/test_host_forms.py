"""Printing, saving, pickling and deep copies work whatever the profile refuses, and show values, not codes."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch

pytestmark = pytest.mark.fact("5.1")


def spyre_half() -> torch.Tensor:
    return torch.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=torch.float16).to("spyre")


def test_printing_uses_no_device_operation_and_names_the_device() -> None:
    torch.spyre.reset_fallback_counts()
    text = repr(spyre_half())
    assert "1.5000, -2.0000" in text
    assert "device='spyre:0'" in text
    assert torch.spyre.fallback_counts() == {}


@pytest.mark.fact("1.6")
def test_the_bytes_of_a_storage_on_the_host_are_values_and_not_codes() -> None:
    host = torch.tensor([1.0, -2.5, 65504.0], dtype=torch.float16)
    storage = host.to("spyre").untyped_storage()
    expected = host.to("spyre").cpu().untyped_storage().tolist()
    assert storage.cpu().tolist() == expected
    assert storage.clone().cpu().tolist() == expected


@pytest.mark.fact("1.6")
def test_host_bytes_become_codes_when_the_storage_has_a_dtype_and_stay_bytes_until_then() -> None:
    one_and_two = torch.tensor([1.0, 2.0], dtype=torch.float16).untyped_storage()
    typed = torch.zeros(2, dtype=torch.float16).to("spyre")
    typed.untyped_storage().copy_(one_and_two)
    assert typed.cpu().tolist() == [1.0, 2.0]
    untyped = torch.UntypedStorage(4, device="spyre")
    untyped.copy_(one_and_two)
    assert untyped.cpu().tolist() == one_and_two.tolist()
    later = torch.empty(0, dtype=torch.float16, device="spyre").set_(untyped)
    assert later.cpu().tolist() == [1.0, 2.0]


def test_saved_tensors_load_on_the_device_and_on_the_cpu() -> None:
    stored = io.BytesIO()
    torch.save({"t": spyre_half(), "p": torch.nn.Parameter(spyre_half())}, stored)
    for location, kind in ((None, "spyre"), ("cpu", "cpu")):
        stored.seek(0)
        loaded = torch.load(stored, map_location=location)
        assert loaded["t"].device.type == kind
        assert isinstance(loaded["p"], torch.nn.Parameter)
        assert torch.equal(loaded["p"].detach().cpu(), spyre_half().cpu())


@pytest.mark.usefixtures("_quiet_int64")
def test_a_file_of_host_tensors_loads_on_the_device_with_the_same_values() -> None:
    values = {
        "half": torch.arange(8).half(),
        "bfloat": torch.arange(8).bfloat16().view(2, 4).t(),
        "single": torch.randn(3),
        "long": torch.tensor([1, 2**40 + 7]),
        "bool": torch.tensor([True, False]),
        "byte": torch.tensor([200, 3], dtype=torch.uint8),
    }
    values["shared"] = values["half"][2:5]
    stored = io.BytesIO()
    torch.save(values, stored)
    for location in ("spyre", torch.device("spyre", 0), {"cpu": "spyre:0"}, lambda storage, _: storage.spyre()):
        stored.seek(0)
        loaded = torch.load(stored, map_location=location)
        for name, value in values.items():
            expected = value.to("spyre").cpu()
            assert loaded[name].device.type == "spyre"
            assert torch.equal(loaded[name].cpu(), expected), name
        loaded["half"].zero_()
        assert loaded["shared"].cpu().eq(0).all()


def test_a_state_dict_of_the_device_loads_on_the_device_again() -> None:
    layer, stored = torch.nn.Linear(4, 3).half().to("spyre"), io.BytesIO()
    torch.save(layer.state_dict(), stored)
    for location in (None, "cpu", "spyre"):
        stored.seek(0)
        other = torch.nn.Linear(4, 3).half().to("spyre")
        other.load_state_dict(torch.load(stored, map_location=location))
        assert torch.equal(other.weight.detach().cpu(), layer.weight.detach().cpu())


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
