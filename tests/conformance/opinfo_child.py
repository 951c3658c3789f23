"""Runs a share of PyTorch's OpInfo database on the device, in float16, and prints one JSON line per operation.

    python opinfo_child.py FORM SHARE SHARES SAMPLES    (FORM: eager | compiled; the profile by SPYRE_SIM_PROFILE)

The reference is the CPU in fp32 on the very values that are on the device. Outcomes: works, fallback (right, with a
FallbackWarning), raises (a documented error), wrong, and fault (any other exception: ours to mend). In the profiles
whose errata end the process (E-54, E-57, E-59, and integers that no copy takes) each sample runs in a fork and may have
the outcome dies.
"""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

import sim_backend
from sim_backend.device import start
from sim_backend.errors import FallbackWarning, Unsupported

# Their results are not determined by their operands: memory as it is, or random numbers.
UNDETERMINED = (
    "empty", "new_empty", "rand", "normal", "bernoulli", "multinomial", "uniform", "exponential", "cauchy",
    "geometric", "log_normal", "dropout", "alpha_dropout", "rrelu", "fractional_max_pool",
)  # fmt: skip
ABSOLUTE, RELATIVE = 2e-2, 2e-2  # against the size of the reference; DL16 has a unit roundoff of 1e-3
DOCUMENTED = (Unsupported, NotImplementedError, subprocess.CalledProcessError)
DOCUMENTED_TEXTS = (  # facts 3.7
    "which contains unimplemented operation",
    "Spyre backend does not support",
    "Expected all tensors to be on the same device",
    "on Spyre device",
    "Pin memory can only be on CPU",
    "Non strided layout not supported",
    "is not implemented for Spyre",
    "In-device copy not implemented",
    "Unsupported tensor rank",
    "Unsupported data format types",
    "TOOO: implement SDSC generation for constants",
    "matmul: unsupported input",
    "to be on cpu",  # torch's own rule for index tensors, on every device
)


def chosen(share: int, shares: int) -> list[Any]:
    """This share of the operations that take float16 on the CPU, in the order of their names; jiterator is CUDA's."""
    from torch.testing._internal.common_methods_invocations import op_db

    taken = [op for op in op_db if torch.float16 in op.dtypes and not op.name.startswith("jiterator")]
    return sorted(taken, key=lambda op: (op.name, op.variant_test_name))[share::shares]


def name_of(op: Any) -> str:
    """ "std.unbiased": the operation and its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def outcomes(op: Any, form: str, samples: int) -> Iterator[tuple[str, str]]:
    """(outcome, detail) of the first samples for which the CPU has a reference."""
    generated = op.sample_inputs("cpu", torch.float16, requires_grad=False)
    for sample in islice(generated, samples):
        given = (sample.input, *sample.args), sample.kwargs
        determined = not op.name.rpartition(".")[2].startswith(UNDETERMINED)
        sample_of = partial(classify, op.op, given, form, determined)
        yield in_a_fork(sample_of) if sim_backend.current_profile().has("E-57") else sample_of()


def in_a_fork(sample: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """The outcome, or ("dies", name of the signal) if it ended the process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(write, json.dumps(sample()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        return "dies", signal.Signals(-code).name
    outcome, detail = json.loads(text)
    return outcome, detail


def classify(function: Callable[..., Any], given: Any, form: str, determined: bool) -> tuple[str, str]:
    """Run one sample on the CPU and on the device."""
    leaves, structure = tree_flatten(given)
    try:
        device = [leaf.to("spyre") if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        host = [widened(leaf.cpu()) if isinstance(leaf, torch.Tensor) else leaf for leaf in device]
    except Exception as error:  # noqa: BLE001 any exception is an outcome
        return judge(error)
    try:
        expected = call(function, tree_unflatten(host, structure))
    except Exception as error:  # noqa: BLE001 any exception is an outcome
        return "reference", f"{type(error).__name__}: {error}"[:100]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            got = tree_map(to_host, run(function, device, structure, form))
        except Exception as error:  # noqa: BLE001 any exception is an outcome
            return judge(error)
    if determined and (difference := compare(expected, got)):
        return "wrong", difference
    fell = any(issubclass(w.category, FallbackWarning) for w in caught)
    return ("fallback" if fell else "works"), ""


def widened(t: torch.Tensor) -> torch.Tensor:
    """fp32 for half types, anything else as it is."""
    return t.float() if t.dtype in (torch.float16, torch.bfloat16) else t


def to_host(value: Any) -> Any:
    """A result on the host."""
    return widened(value.cpu()) if isinstance(value, torch.Tensor) else value


def call(function: Callable[..., Any], given: Any) -> Any:
    """`function` on (args, kwargs)."""
    args, kwargs = given
    return function(*args, **kwargs)


def run(function: Callable[..., Any], leaves: list[Any], structure: Any, form: str) -> Any:
    """On the device: as single calls, or as one compiled graph whose inputs are the tensors."""
    if form == "eager":
        return call(function, tree_unflatten(leaves, structure))
    torch._dynamo.reset()
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def graph(*tensors: torch.Tensor) -> Any:
        full = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            full[place] = tensor
        return call(function, tree_unflatten(full, structure))

    return torch.compile(graph, fullgraph=True, dynamic=False)(*(leaves[i] for i in places))


def judge(error: BaseException) -> tuple[str, str]:
    """raises for a documented error (or one inside Inductor's wrapper), fault for any other."""
    inner = getattr(error, "inner_exception", None) or error
    text = f"{type(inner).__name__}: {inner}".splitlines()[0][:160]
    documented = isinstance(inner, DOCUMENTED) or any(t in str(inner) for t in DOCUMENTED_TEXTS)
    break_in_graph = isinstance(inner, torch._dynamo.exc.TorchDynamoException)  # Dynamo's own, on any device
    return ("raises" if documented or break_in_graph else "fault"), text


def compare(expected: Any, got: Any) -> str:
    """What differs, or "". DL16 has one code for NaN and infinity, so non-finite values are one class."""
    pairs = list(zip(tree_flatten(expected)[0], tree_flatten(got)[0], strict=False))
    return next((text for e, g in pairs if isinstance(e, torch.Tensor) and (text := differ(e, g))), "")


def differ(expected: torch.Tensor, got: torch.Tensor) -> str:
    """What differs between two tensors, or ""."""
    if expected.shape != got.shape:
        return f"shape {tuple(got.shape)} for {tuple(expected.shape)}"
    if not expected.is_floating_point():
        same = torch.equal(expected.to(torch.float64), got.to(torch.float64)) if expected.numel() else True
        return "" if same else "integers differ"
    expected, got = expected.double(), got.double()
    finite = torch.isfinite(expected)
    if not torch.equal(finite, torch.isfinite(got)):
        return "finite values are not the same ones"
    if not finite.any():
        return ""
    e, g = expected[finite], got[finite]
    allowed = ABSOLUTE * max(1.0, float(e.abs().mean())) + RELATIVE * e.abs()
    worst = float(((e - g).abs() - allowed).max())
    return "" if worst <= 0 or math.isnan(worst) else f"off by {float((e - g).abs().max()):.3g}"


def main() -> None:
    """Two JSON lines per operation: that it started, so that a crash has a name, and its outcomes with details."""
    form, share, shares, samples = sys.argv[1], *map(int, sys.argv[2:5])
    # E-53 counts the compiled operations of a process, which is about this loop and not about an operation.
    sim_backend.use_profile(os.environ["SPYRE_SIM_PROFILE"], {"errata.E-53": None})
    start()
    if form == "compiled":  # what the first compilation sets up is set up once, before samples run in forks
        torch.compile(torch.exp, dynamic=False)(torch.ones(64, dtype=torch.float16).to("spyre"))
    gc.freeze()  # a collection would walk torch and its database, of which nothing dies, once in a few samples
    for op in chosen(share, shares):
        torch.manual_seed(0)  # whatever ran before
        print(json.dumps({"started": name_of(op)}), flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = list(outcomes(op, form, samples))
        print(json.dumps({"op": name_of(op), "outcomes": found}), flush=True)


if __name__ == "__main__":
    main()
