"""What an adapter does to answers: `python -m benchmarks.adapters [--json] [--only PATTERN]`.

Group `minilm`: the real all-MiniLM-L6-v2 with the bundled adapter on the simulated device (default profile), against
sentence-transformers on the CPU, on `sentences.yaml` (twenty sentences in ten languages, and longer texts made of them,
up to beyond the maximum). Figures: the distribution of cosines, and for the small search task how far rankings agree.
Groups `family NAME`: the bundled adapter of each family of `families.yaml`, see `family_cases`; the profile is that of
the settings (SPYRE_FACTORY_PROFILE).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.families import load_table
from benchmarks.figures import Figure, main
from pipeline.verification.policy import current_policy

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
MILLION = 1_000_000
TOP = 10
BATCH = 32
LIMITS = current_policy().limits("embedding", "float16")
"""The gate's own."""


class Texts(NamedTuple):
    """What is encoded: `documents` are sentences and longer texts, `queries` what is searched for among them."""

    queries: list[str]
    documents: list[str]


def load_texts() -> Texts:
    """The sentences, then for each language texts of 2, 5 and 10 sentences and of all of them (truncated)."""
    import yaml

    content = yaml.safe_load((Path(__file__).parent / "sentences.yaml").read_text(encoding="utf-8"))
    queries = content.pop("queries")
    sentences = [sentence for language in content.values() for sentence in language]
    longer = [" ".join(language[:count]) for language in content.values() for count in (2, 5, 10, len(language))]
    return Texts(queries, sentences + longer)


def encode_both(texts: list[str]) -> tuple[Any, Any]:
    """(CPU, device) embeddings [texts, width], fp32 and normalised."""
    from sentence_transformers import SentenceTransformer

    from adapters import disable_sentence_transformers, enable_sentence_transformers
    from pipeline.execution.device import open_device
    from pipeline.execution.folders import packaged_folder
    from pipeline.settings import Settings

    open_device("simulator", Settings.model_fields["profile"].default).start()
    folder = str(packaged_folder(MODEL))
    enable_sentence_transformers()
    try:
        models = [SentenceTransformer(folder, device="cpu"), SentenceTransformer(folder, backend="spyre")]
    finally:
        disable_sentence_transformers()
    cpu, device = (m.encode(texts, batch_size=BATCH, normalize_embeddings=True) for m in models)
    return cpu, device


def minilm() -> Iterator[Figure]:
    """Cosines and agreement of rankings of the real MiniLM, device against CPU."""
    texts = load_texts()
    cpu, device = encode_both([*texts.queries, *texts.documents])
    yield Figure("minilm texts", len(cpu), "", 200, at_least=True)
    yield Figure(
        "minilm texts whose device vector differs from the CPU's",
        int((cpu != device).any(axis=1).sum()),
        "",
        1,
        at_least=True,
    )
    yield from cosines(cpu, device)
    split = len(texts.queries)
    yield from rankings((cpu[:split], cpu[split:]), (device[:split], device[split:]))


def cosines(cpu: Any, device: Any) -> Iterator[Figure]:
    """Lowest, 1st and 5th percentile and median of the cosines, plain and after the CPU's mean is taken away."""
    import numpy as np

    mean = cpu.mean(axis=0)
    for name, limit, shift in (
        ("cosine", LIMITS["pooled_cosine"], 0.0),
        ("mean-centred cosine", LIMITS["centred_pooled_cosine"], mean),
    ):
        left, right = cpu - shift, device - shift
        found = (left * right).sum(axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
        for label, share in (("lowest", 0), ("1st percentile", 1), ("5th percentile", 5), ("median", 50)):
            value = round((1 - float(np.percentile(found, share))) * MILLION, 2)
            yield Figure(f"minilm {name}, {label}: below 1 by", value, "ppm", round((1 - limit) * MILLION))


def rankings(cpu: tuple[Any, Any], device: tuple[Any, Any]) -> Iterator[Figure]:
    """Spearman over all documents (lowest and mean of the queries), the first hit, the first ten."""
    import numpy as np
    from scipy.stats import spearmanr

    scores = [queries @ documents.T for queries, documents in (cpu, device)]
    spearman = [float(spearmanr(a, b).statistic) for a, b in zip(*scores, strict=True)]
    first, then = (np.argsort(-s, axis=1)[:, :TOP] for s in scores)
    shared = [len(set(a) & set(b)) / TOP for a, b in zip(first, then, strict=True)]
    for label, value in (("lowest query", min(spearman)), ("mean", float(np.mean(spearman)))):
        below = round((1 - value) * MILLION, 2)
        yield Figure(
            f"minilm search, Spearman, {label}: below 1 by", below, "ppm", round((1 - LIMITS["spearman"]) * MILLION)
        )
    same = float((first[:, 0] == then[:, 0]).mean())
    yield Figure("minilm search, same first hit", same, "", 1.0, at_least=True)
    yield Figure("minilm search, shared among ten", round(float(np.mean(shared)), 4), "", 0.95, at_least=True)


def of_family(name: str) -> Callable[[], Iterator[Figure]]:
    """What measures one family."""

    def measure() -> Iterator[Figure]:
        from benchmarks.family_cases import figures_of

        yield from figures_of(name)

    return measure


GROUPS = {"minilm": minilm, **{f"family {name}": of_family(name) for name in load_table()}}

if __name__ == "__main__":
    sys.exit(main(GROUPS, __doc__))
