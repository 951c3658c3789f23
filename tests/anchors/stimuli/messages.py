"""Facts 3.7: classes and texts of errors and warnings that a public call can meet."""

from __future__ import annotations

import torch
from anchors.published import Dies, Raises, Right, unimplemented, unsupported
from anchors.stimulus import APR, AUG, NOV, SEP, Pair, both, both_eagerly, compiled, normal, stimulus, there

ALWAYS = (APR, AUG, SEP)


@stimulus(
    "3.7",
    "1.6",
    published={p: Raises("RuntimeError", "Spyre backend does not support dtype ComplexFloat") for p in (AUG, SEP)},
)
def complex_to_the_device() -> Pair:
    return torch.zeros(4, dtype=torch.complex64).to("spyre"), torch.zeros(4)


@stimulus(
    "3.7", "1.6", published={p: Raises("RuntimeError", "Spyre backend does not support dtype Double") for p in ALWAYS}
)
def double_to_the_device() -> Pair:
    return torch.zeros(4, dtype=torch.float64).to("spyre"), torch.zeros(4)


@stimulus("3.7", "1.6", published={APR: Dies("SIGABRT")})
def int32_to_the_device_in_spring() -> Pair:
    return torch.zeros(4, dtype=torch.int32).to("spyre"), torch.zeros(4)


@stimulus(
    "3.7",
    published={p: Raises("RuntimeError", "Expected all tensors to be on the same device, but found") for p in ALWAYS},
)
def operands_on_two_devices() -> Pair:
    return there(normal(64, 64)) + normal(64, 64).half(), normal(64, 64)


@stimulus(
    "3.7",
    published={
        p: Raises("NotImplementedError", "Could not run 'aten::erf' with arguments from the 'spyre' backend")
        for p in ALWAYS
    },
)
def eager_operation_without_a_kernel() -> Pair:
    return both_eagerly(torch.erf, normal(64, 64))


@stimulus("3.7", published={p: unimplemented("erf") for p in ALWAYS})
def compiled_operation_without_an_opfunc() -> Pair:
    return both(torch.erf, normal(64, 64))


@stimulus("3.1", "3.7", published={p: Right(0.01, warns="cumsum.* is falling back to cpu") for p in ALWAYS})
def fallback_is_right_and_warns() -> Pair:
    return both_eagerly(lambda x: torch.cumsum(x, -1), normal(4, 64, scale=0.05).abs())


@stimulus("3.7", published={AUG: unsupported(r"topk with k=200 is not supported \(max k=128\)")})
def topk_of_200() -> Pair:
    return both(lambda x: torch.topk(x, 200).values, normal(4, 256))


@stimulus("3.7", published={AUG: unsupported("slice_scatter with step=2")})
def slice_scatter_with_a_step() -> Pair:
    return both(lambda x, y: torch.slice_scatter(x, y, dim=0, step=2), normal(64, 64), normal(32, 64))


@stimulus(
    "3.6",
    "3.7",
    published={
        AUG: unsupported(r"type conversion from torch\.float16 to torch\.int32"),
        SEP: unsupported(r"type conversion from torch\.float16 to torch\.int32"),
    },
)
def conversion_the_device_lacks() -> Pair:
    return compiled(lambda x: x.to(torch.int32), normal(64, 64)), normal(64, 64)


@stimulus("2.4", "3.7", published={AUG: unsupported("ReStickifyOpHBM on DataFormats.IEEE_FP32")})
def restickify_of_fp32() -> Pair:
    return both(lambda x, y: x.t() + y, normal(64, 128), normal(128, 64), dtype=torch.float32)


@stimulus(
    "3.7",
    "5.2",
    published={p: Raises("RuntimeError", r"Failed to allocate \d+ bytes on Spyre device\.") for p in ALWAYS},
)
def allocation_beyond_the_card() -> Pair:
    return torch.empty(2**40, dtype=torch.float16, device="spyre"), torch.zeros(1)


@stimulus(
    "3.7",
    "5.3",
    published={NOV: Raises("RuntimeError", r"Spyre backend does not support type conversion yet during copy\.")},
)
def cast_while_copying_in_2025() -> Pair:
    return normal(64).to("spyre", torch.float16), normal(64)


@stimulus(
    "3.2",
    published={
        p: Raises("RuntimeError", "Pin memory can only be on CPU|[Oo]nly dense CPU tensors can be pinned")
        for p in (AUG,)
    },
)
def pinned_memory_on_the_device() -> Pair:
    return torch.empty(64, device="spyre", pin_memory=True), torch.zeros(64)


@stimulus("3.7", "3.2", published={APR: Raises("RuntimeError", r"Error: In-device copy not implemented\.")})
def copy_on_the_device_in_spring() -> Pair:
    return torch.empty(64, dtype=torch.float16, device="spyre").copy_(there(normal(64))), normal(64)
