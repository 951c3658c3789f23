"""Figures of one family's bundled adapter on the simulated device: cases, exactness, what each patch is needed for.

The model is the one of `families.yaml`: two layers at real width, calibrated synthetic weights. Cases are batches of 1
and 8 texts, padded on either side, at lengths around the device's bucket, at the longest (at most 512), and beyond a
window. Stock in fp32 on the CPU is what they are compared with.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.families import entry_of
from benchmarks.figures import Figure
from pipeline.settings import Settings
from pipeline.verification.policy import current_policy

SEED = 0
LENGTHS, LONGEST, BATCHES, SIDES = (1, 63, 64, 65, 200), 512, (1, 8), ("right", "left")
WINDOW = 64
"""Windows are cut to this, so that 2w + 2 tokens stay few."""
MILLION = 1_000_000
EXACT, SLOWER = 1e-5, 1.5
"""Largest relative error of exact patches in fp64; how much longer the patched model may take on the CPU (ours)."""
POOLED = ("P80", "P12")
"""Patches that place what comes after the model."""


@dataclass(frozen=True)
class Case:
    """One batch: `batch` texts of up to `length` tokens, the later ones shorter, padded on `side`."""

    batch: int
    length: int
    side: str

    def inputs(self, config: Any) -> dict[str, Any]:
        """Host tensors, int64 [batch, length]; padding has the model's own id."""
        import torch

        generator = torch.Generator().manual_seed(self.batch * 1_000 + self.length)
        vocabulary = config.get_text_config().vocab_size
        ids = torch.randint(3, vocabulary, (self.batch, self.length), generator=generator)
        lengths = torch.tensor([max(1, self.length - row * self.length // self.batch) for row in range(self.batch)])
        mask = (torch.arange(self.length)[None] < lengths[:, None]).long()
        pad = getattr(config.get_text_config(), "pad_token_id", None) or 0
        found = {"input_ids": ids.masked_fill(mask == 0, pad), "attention_mask": mask}
        return found if self.side == "right" else {k: v.flip(1) for k, v in found.items()}


def cases_of(model: Any) -> list[Case]:
    """The cases of a model; a batch of one has no padding, so only one side."""
    from adapters.limits import longest_input

    longest = min(longest_input(model) or LONGEST, LONGEST)
    window = window_of(model.config)
    lengths = sorted({n for n in (*LENGTHS, longest, *([2 * window + 2] if window else [])) if n <= longest})
    return [Case(b, n, s) for n in lengths for b in BATCHES for s in (SIDES if b > 1 else SIDES[:1])]


SHORT = (Case(1, 1, "right"), Case(8, 65, "right"), Case(2, 40, "right"))
"""Cases of the ablation."""


def window_of(config: Any) -> int | None:
    """How far a windowed layer looks, None for a model without one."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None) or ()
    local = getattr(text, "local_attention", None)
    sliding = getattr(text, "sliding_window", None)
    if local:
        return int(local) // 2
    return int(sliding) if sliding and (not kinds or "sliding_attention" in kinds) else None


def narrowed(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with its window cut to `WINDOW`."""
    fields = {"sliding_window": WINDOW, "local_attention": 2 * WINDOW}
    return {**config, **{k: min(config[k], v) for k, v in fields.items() if config.get(k)}}


def figures_of(family: str) -> Iterator[Figure]:
    """All figures of a family; those of a family without a bundled adapter are not measured."""
    import torch

    import adapters
    from adapters.describe import describe
    from pipeline.execution.device import open_device
    from pipeline.weights.synthetic.build import synthesise

    profile = Settings().profile
    model: Any = synthesise(narrowed(entry_of(family).config), SEED).model
    found = adapters.find(model, profile=profile)
    if found is None:
        yield Figure(f"{family}: cases that fail", None, "", 0)
        return
    patches = list(found.for_model(describe(model)).patches)
    device = open_device("simulator", profile)
    device.start()
    limits = current_policy().limits("embedding", "float16")
    with torch.no_grad():
        yield from on_device(family, model, patches, device, limits)
        yield from exactness(family, model, patches)
        yield slower(family, model, patches)
        needless = [p["pattern"] for n, p in enumerate(patches) if not is_needed(model, patches, n, device, limits)]
        yield Figure(f"{family}: patches that nothing needs {' '.join(needless)}".strip(), len(needless), "", 0)


def on_device(family: str, model: Any, patches: list[Any], device: Any, limits: Any) -> Iterator[Figure]:
    """Lowest token and pooled cosine over all cases, CPU fallbacks."""
    cases = cases_of(model)
    stock = [outputs(model, case) for case in cases]
    before = sum(device.fallback_counts().values())
    tokens, pooled = [], []
    import adapters

    with adapters.adapt(model, patches=patches, device="spyre"):
        for case, expected in zip(cases, stock, strict=True):
            token, mean = agreement(outputs(model, case), expected, case.inputs(model.config)["attention_mask"])
            tokens.append(token)
            pooled.append(mean)
    failing = [c for c, t in zip(cases, tokens, strict=True) if not t >= limits["device_token_cosine"]]
    yield Figure(f"{family}: cases of {len(cases)} that fail {failing or ''}".strip(), len(failing), "", 0)
    for name, values, limit in (("token", tokens, "device_token_cosine"), ("pooled", pooled, "pooled_cosine")):
        below = round((1 - min(values)) * MILLION, 1)
        yield Figure(f"{family}: lowest {name} cosine: below 1 by", below, "ppm", round((1 - limits[limit]) * MILLION))
    yield Figure(f"{family}: CPU fallbacks", sum(device.fallback_counts().values()) - before, "", 0)


def outputs(model: Any, case: Case) -> Any:
    """The last hidden state [batch, length, width] on the host."""
    return model(**case.inputs(model.config)).last_hidden_state.cpu()


def agreement(found: Any, expected: Any, mask: Any) -> tuple[float, float]:
    """Lowest cosine over real tokens and over mean-pooled texts; NaN counts as 0."""
    import torch

    from adapters.embedding import mean

    pairs = ((found[mask.bool()], expected[mask.bool()]), (mean(found, mask), mean(expected, mask)))
    cosines = [torch.cosine_similarity(a.double(), b.double(), dim=-1).nan_to_num(0.0).min() for a, b in pairs]
    return float(cosines[0]), float(cosines[1])


def exactness(family: str, model: Any, patches: list[Any]) -> Iterator[Figure]:
    """The exact patches together in fp64 on the CPU, against stock: largest difference of the largest value."""
    import adapters

    exact = [p for p in patches if p.get("exactness") == "exact"]
    case = Case(2, min(200, LONGEST), "right")
    mask = case.inputs(model.config)["attention_mask"].bool()
    wide = model.double()
    stock = outputs(wide, case)[mask]
    with adapters.adapt(wide, patches=exact, device="cpu", dtype="float64", compile=False):
        found = outputs(wide, case)[mask]
    model.float()
    error = float((found - stock).abs().max() / stock.abs().max())
    yield Figure(f"{family}: exact patches in fp64, relative error", error, "", EXACT)


def slower(family: str, model: Any, patches: list[Any]) -> Figure:
    """CPU seconds of the patched model in fp32 over those of stock, on whole buckets."""
    import adapters

    case, plain = Case(8, 128, "right"), [p for p in patches if p["pattern"] != "P56"]
    stock = seconds(model, case)
    with adapters.adapt(model, patches=plain, device="cpu", compile=False):
        patched = seconds(model, case)
    return Figure(f"{family}: CPU time patched over stock", round(patched / stock, 3), "x", SLOWER)


def seconds(model: Any, case: Case) -> float:
    """The least CPU time of three runs after a first."""
    outputs(model, case)
    taken = []
    for _ in range(3):
        began = time.process_time()
        outputs(model, case)
        taken.append(time.process_time() - began)
    return min(taken)


def is_needed(model: Any, patches: Sequence[Any], place: int, device: Any, limits: Any) -> bool:
    """Whether a case fails without the patch: an error, a token that is too far off, or an operation on the CPU."""
    import adapters

    if patches[place]["pattern"] in POOLED:
        return not pools_on_device(model)
    rest = [p for n, p in enumerate(patches) if n != place]
    stock = [outputs(model, case) for case in SHORT]
    before = sum(device.fallback_counts().values())
    try:
        with adapters.adapt(model, patches=rest, device="spyre"):
            for case, expected in zip(SHORT, stock, strict=True):
                mask = case.inputs(model.config)["attention_mask"]
                if agreement(outputs(model, case), expected, mask)[0] < limits["device_token_cosine"]:
                    return True
    except Exception:  # noqa: BLE001 - whatever the device or the set raises without the patch is the answer
        return True
    return sum(device.fallback_counts().values()) > before


def pools_on_device(model: Any) -> bool:
    """Whether mean pooling, as sentence-transformers does it, runs on the device itself."""
    import torch

    from pipeline.execution.embedder import pool_mean

    hidden = torch.randn(2, 64, model.config.get_text_config().hidden_size, dtype=torch.float16)
    mask = torch.ones(2, 64, dtype=torch.int64)
    before = sum(torch.spyre.fallback_counts().values())  # type: ignore[attr-defined]
    try:
        torch.compile(pool_mean)(hidden.to("spyre"), mask.to("spyre")).cpu()
    except Exception:  # noqa: BLE001 - as above
        return False
    return sum(torch.spyre.fallback_counts().values()) == before  # type: ignore[attr-defined]
