"""One measurement of `benchmarks.simulator`, in the process it is about; prints JSON on its last line."""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from typing import Any

import torch

BATCH, LENGTH = 2, 64
WARM_UPS, ROUNDS = 3, 5

BERT = {"attn_implementation": "sdpa", "use_cache": False}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-base": ("BertConfig", {}),
    "bert-base-6": ("BertConfig", {"num_hidden_layers": 6}),
    "bert-small": ("BertConfig", {"num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4}),
    "minilm-l6": (
        "BertConfig",
        {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536},
    ),
    "qwen3-8b": (
        "Qwen3Config",
        {
            "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
            "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
        },
    ),
    "gemma3": ("Gemma3TextConfig", {}),
}  # fmt: skip

COMPILER = (
    "torch._inductor.compile_fx", "torch._inductor.codegen.memory_planning", "torch._inductor.codegen.pallas",
    "torch._inductor.codegen.cuda_combined_scheduling", "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.codegen.cpp_wrapper_gpu", "torch._inductor.codegen.halide", "torch._inductor.codegen.mps",
    "torch._inductor.runtime.caching", "torch.distributed.tensor.experimental", "torch.export._trace",
    "torch.export._unlift", "sympy.tensor.tensor", "sim_backend.capabilities", "sim_backend.compiler.regions",
    "sim_backend.compiler.scheduling", "sim_backend.compiler.wrapper", "sim_backend.compiler.runtime",
    "sim_backend.compiler.swap", "sim_backend.compiler.torch_hash",
)  # fmt: skip


def build(name: str, device: str = "cpu") -> Any:
    """The model of the table, in eval mode with random weights (or on meta)."""
    import transformers

    kind, fields = MODELS[name]
    config = getattr(transformers, kind)(**fields, **BERT)
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.AutoModel.from_config(config).eval()


def inputs(name: str) -> dict[str, torch.Tensor]:
    """Token ids and a mask without padding: [2, 64] int64."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1000, 20000, (BATCH, LENGTH), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.int64)}


def adapted(name: str, **where: Any) -> Any:
    """The model with its bundled adapter."""
    from adapters import adapt

    return adapt(build(name), **where).model


def _import_compiler() -> None:
    """What torch and the simulator import at the first compilation, which is not what is measured."""
    for name in COMPILER:
        importlib.import_module(name)


def _seconds(call: Any) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@torch.no_grad()
def forward(name: str) -> dict[str, Any]:
    """Ratios of the device's forward to the CPU's, by turns, after warm-up."""
    device, host = adapted(name), adapted(name, device="cpu", compile=False, dtype=torch.float32)
    batch = inputs(name)
    for _ in range(WARM_UPS):
        device(**batch), host(**batch)
    times = [(_seconds(lambda: device(**batch)), _seconds(lambda: host(**batch))) for _ in range(4 * ROUNDS)]
    return {"ratios": [a / b for a, b in times], "device": [a for a, _ in times], "host": [b for _, b in times]}


@torch.no_grad()
def first(name: str) -> dict[str, Any]:
    """The first forward in block form: seconds of tracing, compiling and running; imports are done before.

    With the peak of resident memory until then, less that of the idle process, over the bytes of the fp32 weights.
    """
    _import_compiler()
    import transformers.models.bert.modeling_bert  # noqa: F401

    import adapters  # noqa: F401

    torch.zeros(1).to("spyre")
    idle = _peak()
    model, batch = adapted(name, keep_stock=False), inputs(name)
    weights = 4 * sum(p.numel() for p in model.parameters())
    seconds = _seconds(lambda: model(**batch))
    return {"seconds": seconds, "memory": (_peak() - idle) / weights, "idle": idle, "weights": weights}


@torch.no_grad()
def graph(name: str) -> dict[str, Any]:
    """Seconds of the first call of the whole encoder as one graph on the device, its layers nested regions."""
    _import_compiler()
    import sim_backend

    encoder = build(name).half().to("spyre").encoder
    hidden = torch.randn(BATCH, LENGTH, 768).half().to("spyre")
    compiled = sim_backend.GraphForm(encoder)
    return {"seconds": _seconds(lambda: compiled(hidden))}


def capability(name: str) -> dict[str, Any]:
    """Seconds of five reports, after one of another model."""
    import sim_backend

    other = build("bert-small", "meta")
    sim_backend.capability(other, inputs("bert-small"), "profile-2026-08", dtype=torch.float16)
    model, batch = build(name, "meta"), inputs(name)
    call = lambda: sim_backend.capability(model, batch, "profile-2026-08", dtype=torch.float16)  # noqa: E731
    return {"seconds": [_seconds(call) for _ in range(ROUNDS)]}


def _peak() -> int:
    """Bytes of resident memory at most so far in this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def imported() -> dict[str, Any]:
    """Milliseconds of torch's own step over the installed backends, which `import torch` ends with.

    It is all that the package adds. The rest of the import scatters by ten times the target, so that the difference of
    two whole imports measures the machine. Started with autoload off, else torch has taken the step already.
    """
    return {"milliseconds": 1000 * _seconds(torch._import_device_backends)}


TASKS = {
    "forward": forward, "first": first, "graph": graph, "capability": capability, "import": imported,
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
