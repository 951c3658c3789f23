"""Facts 6.6 and the zero-size tensors of 6.3: what kills, refuses or exhausts the process."""

from __future__ import annotations

import torch
from anchors.published import Dies, Raises, Right, aborts, unsupported
from anchors.stimulus import APR, AUG, NOV, SEP, Pair, both_eagerly, compiled, eager, normal, stimulus, there


@stimulus("E-57", "2.4", published={NOV: Dies("SIGSEGV"), APR: Dies("SIGSEGV"), AUG: Right(0), SEP: Right(0)})
def zero_size_tensor_to_the_device() -> Pair:
    return torch.tensor(float(there(torch.empty(0)).numel())), torch.tensor(0.0)


@stimulus("E-57", published={APR: Dies("SIGSEGV"), AUG: Right(0)}, long=True)
def zero_size_tensor_to_the_host() -> Pair:
    return torch.tensor(float(torch.empty(0, device="spyre").cpu().numel())), torch.tensor(0.0)


@stimulus("E-59", published={APR: Dies("SIGFPE")})
def complex_numbers_arise_implicitly() -> Pair:
    return eager(lambda x: x * 1j, normal(64, 64)), normal(64, 64)


@stimulus("E-53", alone=True, published={SEP: Raises("RecursionError", "256|recompile")})
def three_hundred_distinct_eager_calls() -> Pair:
    for n in range(1, 301):
        eager(lambda x: x + 1, torch.ones(1, n))
    return torch.ones(1), torch.ones(1)


@stimulus("E-53", published={AUG: Right(0)})
def three_hundred_distinct_eager_calls_in_august() -> Pair:
    for n in range(1, 301):
        eager(lambda x: x + 1, torch.ones(1, n))
    return torch.ones(1), torch.ones(1)


@stimulus("E-51", published={p: unsupported("") for p in (APR, AUG, SEP)})
def int64_compared_with_a_constant() -> Pair:
    return compiled(lambda x: torch.where(x > 5, 1.0, 0.0), torch.arange(64)), torch.zeros(64)


@stimulus("E-51", published={AUG: Raises("RuntimeError", r"type conversion from torch\.int32 to torch\.int64")})
def int32_subscript_eagerly() -> Pair:
    return both_eagerly(lambda x, i: x[i], normal(64, 64), torch.tensor([3, 5], dtype=torch.int32))


@stimulus("E-55", published={AUG: aborts()}, long=True)
def graph_of_ten_thousand_operations() -> Pair:
    def long(x: torch.Tensor) -> torch.Tensor:
        for _ in range(10_000):
            x = x + 1
        return x

    return compiled(long, normal(64, 64)), normal(64, 64)


@stimulus("E-66", "3.7", published={AUG: Raises("RuntimeError", "only one Spyre device per process is supported")})
def second_device_in_one_process() -> Pair:
    there(normal(64, 64))
    return normal(64, 64).half().to("spyre:1"), normal(64, 64)
