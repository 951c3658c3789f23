"""Prints the lowest cosine between stock embeddings and those of `backend="spyre"` over 50 sentences.

Run as a script: FOLDER MANIFEST. It imports `spyre_adapters` as a user does, never the factory's own name for it.
"""

from __future__ import annotations

import sys

import torch
from sentence_transformers import SentenceTransformer
from spyre_adapters import enable_sentence_transformers

SUBJECTS = ("A cat", "The bank", "Our train", "She", "The old lighthouse keeper", "Rain", "This model", "Il gatto",
            "Ein Zug", "El banco")  # fmt: skip
PREDICATES = ("sleeps.", "opened an account for the river trust yesterday.", "is late again, as it was last week!",
              "counts to one hundred and forgets seventeen.", "ist da?")  # fmt: skip


def main(folder: str, manifest: str) -> None:
    sentences = [f"{s} {p}" for s in SUBJECTS for p in PREDICATES]
    stock = SentenceTransformer(folder, device="cpu").encode(sentences, convert_to_tensor=True)
    enable_sentence_transformers()
    adapted = SentenceTransformer(folder, backend="spyre", model_kwargs={"spyre_manifest": manifest})
    ours = adapted.encode(sentences, convert_to_tensor=True).cpu()
    assert ours.shape == stock.shape == (50, stock.shape[1])
    sys.stdout.write(f"{float(torch.nn.functional.cosine_similarity(ours, stock.cpu()).min())}\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
