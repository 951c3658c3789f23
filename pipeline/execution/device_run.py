"""The device child: runs one model on the device in block form and leaves outputs, fallbacks and any error behind.

`python -m pipeline.execution.device_run SPEC.json OUT.json`. SPEC: `folder` (config and weights), `profile`, `device`,
`patches` (list or null), `documents` (JSON file of a candidate's documents, replayed instead of applying patches) with
`document_of` (which of them each batch runs; null where they are a set that runs any batch), `begun` (file to leave
before anything that is judged runs), `batches` (safetensors, keys "N.input_ids" ...), `outputs` (safetensors to write,
keys "N", fp32 [batch, length, width]). OUT: `error` ({type, frame, message} or null), `fallbacks`, `executed` (batches
run), `blocks` (block calls that ended on the device), `seconds`. An exception of the model or device is a result, not a
failure of this process.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from adapters.replay.documents import DocumentSet
from adapters.runner import recompiling_is_limited
from agents.capture.stock import stock_tensors
from pipeline.errors import CheckpointProblem
from pipeline.execution.device import Device, open_device
from pipeline.execution.models import load_weights
from pipeline.verification.parts import pad_id
from pipeline.verification.replay import Blocks, Constants, ModelReplay

Batch = dict[str, torch.Tensor]


def read_batches(path: Path) -> list[Batch]:
    """The batches written by `write_batches`, in order."""
    batches: dict[int, Batch] = {}
    for key, tensor in load_file(path).items():
        number, name = key.split(".", 1)
        batches.setdefault(int(number), {})[name] = tensor
    return [batches[n] for n in sorted(batches)]


def write_batches(path: Path, batches: list[Batch]) -> None:
    """Store batches of host tensors under "N.name"."""
    save_file({f"{n}.{k}": v.contiguous() for n, batch in enumerate(batches) for k, v in batch.items()}, path)


def place(model: Any, patches: list[dict[str, Any]] | None) -> Any:
    """Put the model on the device for good: through its patches, or stock in block form in its own dtype."""
    import adapters

    return adapters.adapt(model, patches=patches or [], device="spyre", keep_stock=False)


class BlockCount:
    """Counts block calls whose result lies on the device: the proof that the graph ran there."""

    def __init__(self, model: Any) -> None:
        from adapters.structure import find_blocks

        self._hooked, self._forward = 0, model.forward
        for block in find_blocks(model):
            block.module.register_forward_hook(self._count)

    @property
    def calls(self) -> int:
        """Calls so far; an adapter that is a set of documents counts its own."""
        return int(getattr(self._forward, "block_calls", self._hooked))

    def _count(self, _block: Any, _args: Any, output: Any) -> None:
        first = output if isinstance(output, torch.Tensor) else output[0]
        self._hooked += first.device.type == "spyre"


def run_batches(model: Any, batches: list[Batch]) -> Iterator[torch.Tensor]:
    """The last hidden state of every batch on the host, fp32."""
    with torch.no_grad():
        for batch in batches:
            yield model(**batch).last_hidden_state.cpu().float()


class Replayed:
    """A candidate on the device: each batch is run from its document, or all from the set, blocks compiled once."""

    def __init__(self, model: Any, documents: list[dict[str, Any]], document_of: list[int] | None) -> None:
        self._pad_id = pad_id(model.config)
        self._tensors = stock_tensors(model)
        self._documents, self._document_of = documents, document_of
        self.calls = 0

    def run(self, batches: list[Batch]) -> Iterator[torch.Tensor]:
        """The last hidden state of every batch on the host, fp32. `calls` counts block calls on the device."""
        with recompiling_is_limited():
            yield from self._as_a_set(batches) if self._document_of is None else self._each(batches, self._document_of)

    def _as_a_set(self, batches: list[Batch]) -> Iterator[torch.Tensor]:
        whole = DocumentSet(self._documents, self._tensors, pad_id=self._pad_id)
        for batch in batches:
            yield whole.run(batch, "spyre", compiled=True).float()
            self.calls = whole.block_calls

    def _each(self, batches: list[Batch], document_of: list[int]) -> Iterator[torch.Tensor]:
        blocks, constants = Blocks(), Constants()
        for batch, number in zip(batches, document_of, strict=True):
            replay = ModelReplay(self._documents[number], self._tensors, blocks=blocks, constants=constants)
            output = replay.run(batch, "spyre", compiled=True)
            self.calls += replay.block_calls
            yield output.float()


def describe_error(error: BaseException) -> dict[str, str]:
    """Type, innermost frame and shortened message; an exception that only wraps another is unwrapped."""
    inner = getattr(error, "inner_exception", None) or error
    frames = traceback.extract_tb(inner.__traceback__)
    frame = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return {"type": type(inner).__name__, "frame": frame, "message": str(inner)[:2000]}


def run(spec: dict[str, Any], device: Device, loaded: Any = None) -> dict[str, Any]:
    """Run every batch; the first error ends the run and is part of the answer. `loaded` is the folder's model."""
    started = time.monotonic()
    outputs: dict[str, torch.Tensor] = {}
    error: dict[str, str] | None = None
    blocks: BlockCount | Replayed | None = None
    try:
        model = loaded if loaded is not None else load_weights(Path(spec["folder"]))
        Path(spec["begun"]).touch()
        batches = read_batches(Path(spec["batches"]))
        if spec.get("documents"):
            blocks = Replayed(model, json.loads(Path(spec["documents"]).read_text()), spec["document_of"])
            found = blocks.run(batches)
        else:
            place(model, spec["patches"])
            blocks = BlockCount(model)
            found = run_batches(model, batches)
        for number, output in enumerate(found):
            outputs[str(number)] = output.contiguous()
    except Exception as caught:  # noqa: BLE001 - the boundary: whatever the model or device raises is the result
        error = describe_error(caught)
    save_file(outputs, spec["outputs"])
    return {
        "error": error,
        "fallbacks": device.fallback_counts(),
        "executed": len(outputs),
        "blocks": blocks.calls if blocks else 0,
        "seconds": round(time.monotonic() - started, 3),
    }


class DeviceRun:
    """The device child as one that stands by: device started and, if `folder` is known, weights loaded beforehand."""

    def __init__(self, kind: str, profile: str, folder: Path | None = None) -> None:
        self._kind, self._profile, self._folder = kind, profile, folder
        self._device: Device | None = None
        self._loaded: Any = None

    def prepare(self) -> None:
        """Starts the device and imports the compiler. Weights that do not load are a result of the run."""
        import torch._inductor.compile_fx  # noqa: F401 - imported now, while another process works

        self._device = start(self._kind, self._profile)
        if self._folder is not None:
            with suppress(CheckpointProblem):
                self._loaded = load_weights(self._folder)

    def work(self, task: str) -> None:
        """`task` is the JSON list of the two paths, SPEC and OUT."""
        spec_path, out_path = map(Path, json.loads(task))
        spec = json.loads(spec_path.read_text())
        if self._device is None or (spec["device"], spec["profile"]) != (self._kind, self._profile):
            raise ValueError(f"this child stands by for {self._profile} on {self._kind}")
        same = self._folder is not None and spec["folder"] == str(self._folder)
        out_path.write_text(json.dumps(run(spec, self._device, self._loaded if same else None)))


def start(kind: str, profile: str) -> Device:
    """The device, usable in this process from now on."""
    warnings.simplefilter("once")
    device = open_device(kind, profile)
    device.start()
    return device


def main() -> None:
    """Read SPEC, run, write OUT."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(run(spec, start(spec["device"], spec["profile"]))))


if __name__ == "__main__":
    main()
