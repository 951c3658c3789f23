"""Mathematical equivalence per patch, judged before any model runs: exact, bounded, not equivalent or unknown.

`elementwise` judges documents of one number (P01), `blocks` structural and code patches, block graph by block graph.
How each answer is reached: `docs/decisions/0009-four-answers-of-equivalence.md`.
"""
