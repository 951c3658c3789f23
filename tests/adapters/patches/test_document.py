"""Drafted code as released: documents stand in for the forward, take any batch, and leave the model as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

import adapters
from adapters.errors import PatchConflict, PatchDoesNotApply, PatchParameters, ShapeRefused
from adapters.patches.registry import patch_from
from adapters.releases.manifest import Manifest, manifest_from_dict, record_digests
from adapters.replay.documents import DocumentSet, cases_for
from tests.adapters.patches import drafted

CAPTURE_S = 600


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("drafted") / "documents.json"
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    argv = [sys.executable, str(drafted.__file__), str(out)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=CAPTURE_S)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(out.read_text())["documents"]
    return found


def model(**changed: Any) -> Any:
    from transformers import AutoConfig, AutoModel

    fields = {**drafted.CONFIG, **changed}
    kind = fields.pop("model_type")
    torch.manual_seed(3)
    return AutoModel.from_config(AutoConfig.for_model(kind, **fields)).eval()


def patch(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return {"pattern": "document", "parameters": {"documents": documents}}


def batch(rows: int, length: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows * 1000 + length)
    ids = torch.randint(5, 120, (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, max(1, length // 2) :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def outputs(adapted: Any, shapes: list[tuple[int, int]]) -> list[torch.Tensor]:
    with torch.no_grad():
        return [adapted(**batch(*shape)).last_hidden_state for shape in shapes]


def assert_alike(found: list[torch.Tensor], expected: list[torch.Tensor], shapes: list[tuple[int, int]]) -> None:
    for one, other, shape in zip(found, expected, shapes, strict=True):
        real = batch(*shape)["attention_mask"].bool()
        assert one.shape == other.shape
        torch.testing.assert_close(one[real], other[real], atol=2e-2, rtol=0)


SHAPES = [(1, 5), (3, 64), (11, 40), (2, 100), (9, 128)]


def test_lengths_double_until_the_longest_text_fits_and_end_at_the_models_limit() -> None:
    assert cases_for(64) == [(8, 64), (1, 64)]
    assert [length for _, length in cases_for(200)][::2] == [64, 128, 256]
    assert [length for _, length in cases_for(200, limit=140)][::2] == [64, 128, 140]


def test_any_batch_and_length_is_what_the_patches_give(documents: list[dict[str, Any]]) -> None:
    with adapters.adapt(model(), patches=drafted.PATCHES, device="cpu", compile=False) as handle:
        expected = outputs(handle.model, SHAPES)
    with adapters.adapt(model(), patches=[patch(documents)], device="cpu", compile=False) as handle:
        assert handle.report()["dtype"] == "float16"
        assert_alike(outputs(handle.model, SHAPES), expected, SHAPES)


def test_in_fp32_it_is_the_stock_model(documents: list[dict[str, Any]]) -> None:
    stock = model()
    expected = outputs(stock, SHAPES)
    with adapters.adapt(stock, patches=[patch(documents)], device="cpu", dtype="float32", compile=False):
        found = outputs(stock, SHAPES)
    for one, other, shape in zip(found, expected, SHAPES, strict=True):
        real = batch(*shape)["attention_mask"].bool()
        torch.testing.assert_close(one[real], other[real], atol=1e-5, rtol=0)
    assert all(torch.equal(a, b) for a, b in zip(outputs(stock, SHAPES), expected, strict=True)), "undone"


def test_on_the_device_its_blocks_are_compiled_and_counted(documents: list[dict[str, Any]]) -> None:
    shapes = SHAPES[:2]
    expected = outputs(model(), shapes)
    with adapters.adapt(model(), patches=[patch(documents)], device="spyre") as handle:
        assert_alike(outputs(handle.model, shapes), expected, shapes)
        assert handle.model.forward.block_calls == 2 * drafted.CONFIG["num_hidden_layers"]


def test_what_documents_do_not_take_is_refused(documents: list[dict[str, Any]]) -> None:
    with adapters.adapt(model(), patches=[patch(documents)], device="cpu", compile=False) as handle:
        with pytest.raises(ShapeRefused, match="129 tokens"):
            handle.model(**batch(1, 129))
        with pytest.raises(ShapeRefused, match="output_attentions"):
            handle.model(**batch(1, 9), output_attentions=True)
    short = DocumentSet([d for d in documents if d["case"]["length"] == 64], {})
    with pytest.raises(ShapeRefused, match="64 at most"):
        short.run(batch(1, 65))


def test_another_size_another_patch_beside_it_and_a_spoilt_document_are_refused(
    documents: list[dict[str, Any]],
) -> None:
    wide, stock = model(intermediate_size=512), model()
    with pytest.raises(PatchDoesNotApply, match="is not"):
        adapters.adapt(wide, patches=[patch(documents)], device="cpu", compile=False)
    with pytest.raises(PatchConflict, match="no other patch"):
        adapters.adapt(stock, patches=[patch(documents), drafted.PATCHES[1]], device="cpu", compile=False)
    spoilt = json.loads(json.dumps(documents))
    spoilt[0]["graphs"][0]["nodes"][0]["op"] = "aten.bernoulli.p"
    with pytest.raises(PatchDoesNotApply, match="not allowed"):
        adapters.adapt(stock, patches=[patch(spoilt)], device="cpu", compile=False)
    with pytest.raises(PatchParameters, match="one dtype"):
        patch_from(patch([])).dtype  # noqa: B018 - it raises
    outputs(stock, SHAPES[:1])


def test_a_manifest_carries_documents_and_binds_them(documents: list[dict[str, Any]]) -> None:
    recorded = record_digests(model(), [patch(documents)])
    manifest = Manifest("tiny", "1", "bert", "profile-2026-08", {"families": ["bert"]}, tuple(recorded))
    back = manifest_from_dict(json.loads(json.dumps(manifest.to_dict())))
    with adapters.adapt(model(), manifest=back, device="cpu", compile=False) as handle:
        assert handle.report()["adapter"]["name"] == "tiny"
    moved = json.loads(json.dumps(manifest.to_dict()))
    moved["patches"][0]["parameters"]["documents"][0]["graphs"][0]["nodes"].pop()
    with pytest.raises(adapters.ManifestRefused, match="digest"):
        manifest_from_dict(moved)
