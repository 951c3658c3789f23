"""Controls per family: `python -m benchmarks.controls [FAMILY ...] [--json] [--layers N] [--kept FILE]`.

On the narrowest model of each family of the starter catalogue, with calibrated synthetic weights (two layers or one
period, vocabulary cut; beyond a width of 1,024 fewer heads of the same size), every control is run as the gate runs it;
the real MiniLM stands beside them. A family whose case would be void is `unknown`; `UNKNOWN` lists those that are, with
the reason. With `--kept` each row is added to a file as it is measured, and rows that stand there are not measured
again.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.catalogue.starter import load_starter
from pipeline.errors import FactoryError
from pipeline.verification.measurements import ControlResult

SEED, LAYERS, VOCABULARY, LARGEST = 20261130, 2, 3_000, 1_200_000_000
WIDEST = 1_024
WIDTHS = ("hidden_size", "d_model", "dim", "n_embd", "emb_dim")
HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head")
SHRINK = (*WIDTHS, *HEADS, "num_key_value_heads", "intermediate_size", "d_ff", "ffn_dim", "hidden_dim", "n_inner")
"""Fields of a configuration that become smaller together; the size of a head stays."""
REAL = "real MiniLM-L6"
REAL_MODEL = "sentence-transformers/all-MiniLM-L6-v2"

UNKNOWN = {
    "lfm2": "layers without a softmax over scores: the recipe refuses them",
    "longformer": "scores come from an einsum over windows, in which dropping the scale is not expressed",
}
"""Families without a verdict on synthetic weights, with the reason; a test holds that these and no others are."""


@dataclass(frozen=True)
class Row:
    """One family: `status` is "caught" or "unknown" with `reason`; cosines are those the gate judges controls by."""

    family: str
    model: str
    depth: str
    status: str
    reason: str
    ideal_token_cosine: float | None = None
    controls: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    width: int = 0


def families() -> dict[str, CatalogueEntry]:
    """Family to its narrowest entry with a configuration, families in the order of the starter catalogue."""
    found: dict[str, CatalogueEntry] = {}
    for entry in load_starter():
        kind = (entry.config or {}).get("model_type")
        if kind and (kind not in found or width_of(entry.config or {}) < width_of(found[kind].config or {})):
            found[kind] = entry
    return found


def width_of(config: dict[str, Any]) -> int:
    """The width of the residual stream; 0 for a model that is nested in another."""
    return next((config[name] for name in WIDTHS if config.get(name)), 0)


def narrowed(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with fewer heads of the same size, so that the width is at most `WIDEST`, if it halves."""
    heads = next((config[name] for name in HEADS if config.get(name)), 1)
    by = 1
    while width_of(config) // by > WIDEST and heads % (2 * by) == 0:
        by *= 2
    smaller = {name: max(1, config[name] // by) for name in SHRINK if config.get(name)}
    return {**config, **smaller} if by > 1 else dict(config)


def cut_vocabulary(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with a small token table; special ids beyond it move inside, each to its own.

    Of a model with parts it is the table of the part that reads text.
    """
    if isinstance(config.get("text_config"), dict):
        return {**config, "text_config": cut_vocabulary(config["text_config"])}
    if (config.get("vocab_size") or 0) <= VOCABULARY:
        return dict(config)
    ids = sorted(k for k, v in config.items() if k.endswith("_token_id") and isinstance(v, int) and v >= VOCABULARY)
    return {**config, **{name: 1 + place for place, name in enumerate(ids)}, "vocab_size": VOCABULARY}


def measure_family(family: str, entry: CatalogueEntry, layers: int = LAYERS) -> Row:
    """The controls of one family. A model that the recipe refuses or that cannot be built is `unknown`, with why."""
    from pipeline.weights.synthetic.build import synthesise

    started = time.monotonic()
    try:
        config = narrowed(cut_vocabulary(entry.config or {}))
        require_small(config, layers)
        made = synthesise(config, layers=layers)
        row = _judged(family, entry.model_id, made.model, None, made.report.depth, "synthetic")
        row = replace(row, width=width_of(config))
    except (FactoryError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        row = Row(family, entry.model_id, "", "unknown", f"{type(error).__name__}: {str(error)[:200]}")
    return replace(row, seconds=took(started))


def took(started: float) -> float:
    """Seconds since then."""
    return round(time.monotonic() - started, 1)


def require_small(config: dict[str, Any], layers: int) -> None:
    """Raises ValueError for a model that even cut does not fit: a text model nested in another cannot be cut."""
    import torch

    from pipeline.weights.synthetic.build import build_stock, load_config, truncated_config

    with torch.device("meta"):
        model = build_stock(truncated_config(load_config(config), layers).config)
    count = sum(p.numel() for p in model.parameters())
    if count > LARGEST:
        raise ValueError(f"{count / 1e6:.0f} M parameters after the cut, more than are measured here")


def measure_real() -> Row:
    """The same controls on the real MiniLM, with texts."""
    from pipeline.execution.folders import packaged_folder
    from pipeline.execution.models import load_weights
    from pipeline.execution.weights import load_tokenizer

    started = time.monotonic()
    folder = packaged_folder(REAL_MODEL)
    if folder is None:
        raise SystemExit("the package with the real MiniLM is not installed")
    row = _judged(REAL, REAL_MODEL, load_weights(folder), load_tokenizer(folder), "full", "real")
    return replace(row, width=width_of(json.loads((folder / "config.json").read_text())), seconds=took(started))


def _judged(family: str, name: str, model: Any, tokenizer: Any, depth: str, weights: str) -> Row:
    from pipeline.verification.compare import measure_case, stock_runs
    from pipeline.verification.gate import rules_of, void_reason
    from pipeline.verification.measurements import Measurements, Place, Weights
    from pipeline.verification.parts import is_causal
    from pipeline.verification.probes import probe_batches

    probe = probe_batches(model.config, tokenizer, SEED, causal=is_causal(model))[0]
    stock = stock_runs(model, probe, "mean")
    case = measure_case(probe, stock.ideal, stock, "mean", Place.DEVICE)
    void = void_reason(case, rules_of(Measurements(Weights(weights))))
    return Row(
        family,
        name,
        depth,
        "unknown" if void else "caught",
        void.text if void else "",
        case.ideal_token_cosine,
        {c.name: _figures(c) for c in case.controls},
    )


def _figures(control: ControlResult) -> dict[str, Any]:
    if not control.applicable:
        return {"applicable": False, "broken": control.broken, "detail": control.detail}
    token, centred = control.worst_token_cosine, control.centred_pooled_cosine
    return {"applicable": True, "caught": control.caught, "token_cosine": token, "centred_pooled_cosine": centred}


def as_text(rows: list[Row]) -> str:
    """A table: per family the lowest token cosine of each control (of wrong pooling the pooled one), `-` where none."""
    names = list(dict.fromkeys(name for row in rows for name in row.controls))
    lines = [
        f"{'family':<20} {'depth':<9} {'width':>5} {'status':<8} {'ideal':>6} " + " ".join(f"{n[:9]:>9}" for n in names)
    ]
    for row in rows:
        cells = [_cell(row.controls.get(name)) for name in names]
        ideal = f"{row.ideal_token_cosine:.4f}" if row.ideal_token_cosine is not None else "-"
        lines.append(
            f"{row.family:<20} {row.depth:<9} {row.width:>5} {row.status:<8} {ideal:>6} {' '.join(cells)} {row.reason}"
        )
    return "\n".join(lines)


def _cell(figures: dict[str, Any] | None) -> str:
    if not figures or not figures["applicable"]:
        return f"{'broken' if figures and figures['broken'] else '-':>9}"
    token = figures["token_cosine"]
    value = token if token is not None else figures["centred_pooled_cosine"]
    return f"{value:>8.3f}{' ' if figures['caught'] else '!'}"


def kept_rows(path: Path | None) -> dict[str, Row]:
    """Rows by family that were measured before."""
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return {row.family: row for row in rows}


def measured(name: str, entry: CatalogueEntry | None, layers: int, path: Path | None) -> Row:
    """One row, said on standard error, and kept if there is a file for it."""
    row = measure_real() if entry is None else measure_family(name, entry, layers)
    gc.collect()
    sys.stderr.write(f"{row.family}: {row.status} {row.reason} {row.seconds} s\n")
    if path is not None:
        with path.open("a") as out:
            out.write(json.dumps(asdict(row)) + "\n")
    return row


def main() -> None:
    """Measure the named families, or all; print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="*")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--kept", type=Path)
    given = parser.parse_args()
    known, kept = families(), kept_rows(given.kept)
    wanted = {REAL: None, **{name: known[name] for name in given.family or known}}
    rows = [kept.get(name) or measured(name, entry, given.layers, given.kept) for name, entry in wanted.items()]
    print(json.dumps([asdict(row) for row in rows], indent=2) if given.as_json else as_text(rows))


if __name__ == "__main__":
    main()
