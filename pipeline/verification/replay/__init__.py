"""Replay: the trusted side of verification. A document is validated, then run; no candidate code is ever imported.

validate_model(document, stock)     raises DocumentRefused unless every rule holds
examine(document, stock)            the same, and what it is made of, for evidence
same_structure(documents)           one structure over all cases
reachable(document)                 stock tensors that the output rests on
left_out(stock, patched)            weights the stock output rests on and the patched one does not
ModelReplay(document, tensors, precision).run(inputs, device, compiled)
"""

from pipeline.verification.replay.errors import DocumentRefused
from pipeline.verification.replay.model import Blocks, ModelReplay
from pipeline.verification.replay.precision import Precision
from pipeline.verification.replay.structure import left_out, reachable, same_structure
from pipeline.verification.replay.validate import Facts, document_digest, examine, validate_model

__all__ = [
    "Blocks",
    "DocumentRefused",
    "Facts",
    "ModelReplay",
    "Precision",
    "document_digest",
    "examine",
    "left_out",
    "reachable",
    "same_structure",
    "validate_model",
]
