"""Replay: a captured model as data. A document is validated, then run; no code of whoever drafted it is ever imported.

    arguments    one node's arguments against its operator's schema
    operators    the dictionary: what may stand in a block, in a skeleton, in surgery
    frame        keys, types, sizes and counts
    fake_run     shapes, dtypes and places on fake tensors
    validate     every rule, and what a document is made of
    interpreter  runs nodes on real tensors
    model        constants, host parts and blocks, eager or compiled
    precision    as it is, in fp32 or in fp64

The verifier judges documents by it (`pipeline.verification.replay`), an adapter of drafted code runs them.
"""
