"""How big a document may be. Honest documents stay far below: six layers with padded heads need 75 kB, 500 nodes."""

from __future__ import annotations

from typing import Final

MIB = 1 << 20
MAX_BYTES: Final = 8 * MIB  # of the JSON
MAX_NODES: Final = 20_000  # in all sections together
MAX_GRAPHS: Final = 128
MAX_CALLS: Final = 512
MAX_DEPTH: Final = 12  # nesting of lists and objects
LITERAL_ELEMENTS: Final = 64  # of one literal tensor
DISTINCT_NUMBERS: Final = 256  # distinct float literals, those inside literal tensors included
LITERAL_NODES: Final = 64
VALUE_BYTES: Final = 4096 * MIB  # of one value
SECTION_BYTES: Final = 65_536 * MIB  # of all new memory of one section's fake run
CONSTANT_FACTOR: Final = 16  # new memory of the constants, as a multiple of the stock tensors, beside
CONSTANT_BYTES: Final = 512 * MIB  # this much
MATRIX_OUTSIDE: Final = 4  # matrix products on the device outside blocks (an embedding's projection)
