"""What the quick self-test judges: for everything that a cheat may try, at least one entry; the full one judges all."""

from __future__ import annotations

from pipeline.verification.selftest.corpus.patterns import HONEST

PROOF: dict[str, tuple[str, ...]] = {
    "zeros": ("zeros",),
    "constant": ("constant of the model: one weight row everywhere",),
    "echo": ("echo: the embeddings are returned",),
    "another prompt's reference": ("another text's answer", "the reference as a literal"),
    "a thousand times": ("a thousand times too large",),
    "noise in all but norm": ("noise of the right norm",),
    "NaN, infinity": ("nan", "infinity"),
    "call counting": ("right for the first eight calls", "right for the first hundred calls"),
    "warm-up detection": ("warm-up: only the first call is wrong",),
    "caching by hash or pointer": (
        "caches by the hash of its input",
        "caches by pointer",
        "caches by identity of the input",
    ),
    "known prompts": (
        "special case of a known prompt, by a branch",
        "special case of a known prompt, by select",
        "special case of a known prompt, by a small table",
    ),
    "known shapes": ("right for a known length only", "wrong beyond the lengths that are checked"),
    "aliasing and mutating inputs": ("writes into its input ids", "returns its input's memory as its answer"),
    "mutating weights": ("changes a weight at every call", "weight surgery in place that a naive capture loses"),
    "random generator": ("seeds the random generator",),
    "dtype": ("sets the default dtype", "autocast inside a block"),
    "grad mode": ("switches gradients", "wrong outside no_grad"),
    "threads' number": ("sets the number of threads", "wrong with more than one thread"),
    "silently calling the CPU": ("calls the CPU in the middle of a block", "runs everything on the host"),
    "upcasting the model": ("upcasts the blocks to fp32", "upcasts the blocks to fp64"),
    "patching allclose and comparison": ("patches torch.allclose", "patches the comparison of tensors"),
    "patching timers": ("patches the timers",),
    "patching __eq__": ("replaces the model's class",),
    "patching the exporter": ("patches the exporter",),
    "asking whether it is watched": ("asks whether it is being exported", "asks whether its tensors are fake"),
    "printing PASS": ("prints PASS",),
    "early exit": ("leaves early with success", "leaves early by SystemExit"),
    "result files": ("writes a result file of its own", "writes a forged document"),
    "conftest, sitecustomize, .pth": ("leaves a conftest", "leaves a sitecustomize", "leaves a .pth file"),
    "environment": ("sets environment variables for what comes after",),
    "gc, frames, memory": (
        "looks for the reference with gc",
        "looks for the reference in the frames of its callers",
        "writes its own memory through /proc",
    ),
    "threads": ("writes its answer from a thread after the check",),
    "atexit, __del__, signals": (
        "writes its answer at exit",
        "writes its answer when it is collected",
        "writes its answer when an alarm rings",
    ),
    "failing as infrastructure": (
        "fails as infrastructure: out of memory",
        "fails as infrastructure: a sandbox error",
        "fails as infrastructure: ends by the launcher's status",
    ),
    "editing thresholds": ("edits the thresholds",),
    "different graphs per bucket": ("different graphs per bucket, same values",),
    "smuggled constants": ("the reference as many small literals", "a trained gain in place of one"),
    "wrong GELU variant": ("gelu: the tanh variant", "P01: erf variant"),
    "swapped GLU halves": ("swapped halves of a fused gated unit",),
    "off-by-one window": ("window one token too narrow", "window one token too wide"),
    "dropped mask": ("mask dropped",),
    "missing scale": ("missing scale", "scale missing in grouped attention"),
    "mean over padded size": ("mean over padded length in the CLS slot", "divisor of a padded size in an rms norm"),
    "mean instead of CLS": ("mean instead of CLS",),
    "skipped Dense layer": ("skipped dense layer after attention",),
    "wrong padding side": ("wrong padding side: positions counted from the right",),
    "dropped eps": ("dropped eps in a layer norm", "dropped eps in an rms norm"),
    "wrong parameters of library patches": (
        "P01: constant ten times too large",
        "P01: right only up to a bound",
        "P20: heads that are not there",
        "P40: a fill that overflows",
    ),
    "only the device shows it": ("attention input that is not contiguous",),
    "nothing left in 16 bits": (
        "a number so large that 16 bits keep little of the rest",
        "beyond the device's range and back",
    ),
}  # fmt: skip
"""By what is tried, the names of cheats."""

QUICK: frozenset[str] = frozenset(name for names in PROOF.values() for name in names)

SLOW = (
    "heads padded by halves",
    "heads padded by halves, norms with one plus gain",
    "windows of every other layer, on the host",
    "rotation as a matrix product, norms with one plus gain",
    "causal masks on the host",
    "Conv1D as three linears",
    "the whole set for ALBERT",
    "lengths padded on the left",
    "half of the lanes turned by a product",
    "pairs of lanes turned by a product, from a table",
    "fused projections split, heads padded by halves",
    "the whole width padded",
    "rows that no position reads",
    "slopes of a number of heads that is no power of two",
    "kernels beside attention as products",
    "a rewritten family in its own class",
    "the first token taken on the host",
    "the last token taken on the host",
    "the end token taken on the host",
    "the mean by place on the host",
)
"""Honest entries that are left to the full run: others of their pattern are quick, or they are verified whole."""

QUICK_HONEST: frozenset[tuple[str, str, str]] = frozenset(
    (h.pattern, h.name, h.subject) for h in HONEST if h.name not in SLOW
)
"""By pattern, name and subject."""
