"""Capture: from a stock model, patches and a case to a document of what the patched model computes, on fake tensors.

Nothing here has weights or knows how it is graded. In production this package runs inside the sandbox, where drafted
code may be applied, and what it answers is untrusted; the trusted side uses it for stock models and library patches.

    case      batch, length, dtype that runs, names of the inputs
    device    the pretended device that placement moves to
    stock     the stock model of a config on fake tensors
    apply     library patches and drafted code, then placement
    tape      every operator of surgery and placement, sliced back to the names of stock tensors
    calls     the calls of the declared blocks, recorded and exported
    likeness  calls that did the same, told apart by the tensors they hold
    graphs    FX graphs, normalised and written as JSON
    model     the whole: one document per case

It is shown to the sandbox as a folder of its own, so it imports of ours only `adapters`.
"""
