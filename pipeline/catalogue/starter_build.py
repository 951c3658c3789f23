"""Makes `starter.json` from a catalogue file and its configuration table (the format of `file_import`).

    python -m pipeline.catalogue.starter_build CATALOGUE.jsonl.gz CONFIGS.json starter.json

Takes the most downloaded models, then one model of every listed model type that is still missing: the best known
configuration first, then the higher rank. Only facts of models are kept: names, counts and configuration values.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.catalogue.file_import import import_file
from pipeline.catalogue.starter import FORMAT
from pipeline.inspection.sizes import estimate_parameters

TOP = 50
"""Models taken by downloads alone."""

SMALL = 150_000_000
"""Parameters up to which a model is swept first: it runs in seconds on a laptop."""

FIRST = ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/paraphrase-albert-small-v2")
"""Heads of the sweep: the checkpoint whose real weights are bundled, and the one a newcomer reviews."""

MODEL_TYPES = (
    "bert", "distilbert", "electra", "albert", "camembert", "ernie", "roberta", "xlm-roberta", "luke", "xmod",
    "dpr", "flaubert", "convbert", "roformer", "mpnet", "modernbert", "nomic_bert", "gte", "new", "eurobert",
    "jina_embeddings_v3", "qwen2", "qwen3", "llama", "mistral", "gemma", "gemma2", "gemma3_text", "phi", "phi3",
    "t5", "mt5", "deberta", "deberta-v2", "gpt_neo", "gpt2", "gpt_neox", "gptj", "bloom", "clip", "metaclip_2",
    "siglip", "clap", "longformer", "big_bird", "esm", "lfm2", "qwen2_vl", "qwen2_5_vl", "qwen3_vl",
    "llava_next",
)  # fmt: skip
"""Every model type the adapters are planned for; each gets at least one entry, if the catalogue holds one."""

CONFIDENCE = ("exact", "matched", "inferred", "none")
_DEFAULT_FIELDS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "tie_weights_")
_ABOUT = (
    "Facts about published models: names, counts, configuration values. Revisions and file lists are not known; "
    "config_confidence says how a configuration was established (exact, matched or inferred)."
)


def build(entries: list[CatalogueEntry]) -> list[CatalogueEntry]:
    """The starter entries in rank order, with their sweep order."""
    chosen = {e.model_id: e for e in entries[:TOP]}
    chosen |= {e.model_id: e for e in entries if e.model_id in FIRST}
    for kind in MODEL_TYPES:
        if not any(e.model_type == kind for e in chosen.values()):
            chosen |= {e.model_id: e for e in _best(kind, entries)}
    slim = [_slim(e) for e in chosen.values()]
    return sorted(_ordered(slim), key=lambda e: e.rank)


def write(entries: Iterable[CatalogueEntry], path: Path) -> None:
    """Writes the document, one entry per line, so that a change of one model is a change of one line."""
    rows = ",\n".join(json.dumps(e.compact(), ensure_ascii=False, separators=(",", ":")) for e in entries)
    head = f'{{"format":{json.dumps(FORMAT)},\n"about":{json.dumps(_ABOUT)},\n"entries":[\n'
    path.write_text(f"{head}{rows}\n]}}\n", encoding="utf-8")


def _best(kind: str, entries: list[CatalogueEntry]) -> list[CatalogueEntry]:
    same = [e for e in entries if e.model_type == kind]
    return sorted(same, key=lambda e: (CONFIDENCE.index(e.config_confidence or "none"), e.rank))[:1]


def _slim(entry: CatalogueEntry) -> CatalogueEntry:
    """Without the settings of training, which no stage reads."""
    if entry.config is None:
        return entry
    return replace(entry, config={k: v for k, v in entry.config.items() if k not in _DEFAULT_FIELDS})


def _size(entry: CatalogueEntry) -> int | None:
    return entry.parameters or (estimate_parameters(entry.config) if entry.config else None)


def _ordered(entries: list[CatalogueEntry]) -> list[CatalogueEntry]:
    def key(entry: CatalogueEntry) -> tuple[int, int, int]:
        head = FIRST.index(entry.model_id) if entry.model_id in FIRST else len(FIRST)
        small = not entry.dropped and (_size(entry) or SMALL + 1) <= SMALL
        return head, 0 if small else 1, entry.rank

    return [replace(e, sweep_order=place) for place, e in enumerate(sorted(entries, key=key), start=1)]


def main() -> None:
    """Command line of the builder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name in ("catalogue", "configs", "target"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    write(build(import_file(options.catalogue, options.configs)), options.target)


if __name__ == "__main__":
    main()
