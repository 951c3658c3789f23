"""Replay: the trusted side of verification. A document is validated, then run; no candidate code is ever imported.

check_code(source)                  lint of drafted code
check_case(document, ...)           it is for the case that was asked for
validate_model(document, stock)     raises DocumentRefused unless every rule holds
examine(document, stock)            the same, and what it is made of, for evidence
Examiner(stock).examine(document)   the same for many documents of one model
same_structure(documents)           one structure over all cases
reachable(document)                 stock tensors that the output rests on
strange_uses_of_tokens(stock, patched)                   what token ids become that stock does not make of them
looks_up_made_tables(document)      token ids are rows of a table that surgery made
left_out(stock, patched)            weights that the stock output rests on and the patched one does not
ModelReplay(document, tensors, precision).run(inputs, device, compiled)
check_binding(config, patches, document, run, seed)     the code, run in the sandbox, equals the replay
"""

from adapters.replay.errors import DocumentRefused
from adapters.replay.model import Blocks, Constants, ModelReplay
from adapters.replay.precision import Precision
from adapters.replay.validate import Examiner, Facts, check_case, document_digest, examine, validate_model
from pipeline.verification.replay.binding import check_binding
from pipeline.verification.replay.lint import check_code
from pipeline.verification.replay.structure import left_out, reachable, same_structure
from pipeline.verification.replay.tokens import looks_up_made_tables, strange_uses_of_tokens

__all__ = [
    "Blocks",
    "Constants",
    "DocumentRefused",
    "Examiner",
    "Facts",
    "ModelReplay",
    "Precision",
    "check_binding",
    "check_case",
    "check_code",
    "document_digest",
    "examine",
    "left_out",
    "looks_up_made_tables",
    "reachable",
    "same_structure",
    "strange_uses_of_tokens",
    "validate_model",
]
