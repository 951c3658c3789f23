"""Mutants: documents with one seeded mistake, to measure what the verifier lets through.

mutants(document, seed, count)      for documents of one module (P01) and of whole models alike
"""

from pipeline.verification.mutants.draw import Mutant, mutants

__all__ = ["Mutant", "mutants"]
