"""Silent wrong values: which block, operation, fusion or border is wrong on the device, and under which condition.

`boundaries` compares block by block (each fed with the CPU's values, and end to end), `operations` runs every
distinct operation of a bad block alone, `fusion` bisects a block whose operations are right alone, `experiments`
changes one thing at a time until the values come right, and `search` puts them in order. `programs` holds pieces of a
block as runnable source, `rounding` says what 16-bit rounding explains.

Black box: values only; it would do the same on a card.
"""
