"""Mathematical equivalence per patch, judged before any model runs: exact, bounded, not equivalent or unknown.

judge_document(claim, stock, document, seed)                 a document of one number (P01)
judge_patches(patches, pairs, subject, config, prefix)       structural and code patches, block graph by block graph

How each answer is reached: `docs/decisions/0009-four-answers-of-equivalence.md`.
"""

from pipeline.verification.equivalence.elementwise import Claim, claims_of, judge_document
from pipeline.verification.equivalence.judge import judge_patches, reach_of, subject_of

__all__ = ["Claim", "claims_of", "judge_document", "judge_patches", "reach_of", "subject_of"]
