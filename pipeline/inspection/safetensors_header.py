"""Reads and checks the header of a safetensors file against its size, without touching a tensor.

Layout (safetensors format): 8 bytes little-endian length N, N bytes of JSON, then the data. Each tensor has a dtype, a
shape and a half-open byte range counted from the end of the header; the ranges cover the data without gap or overlap.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip
"""Bytes per element of each dtype name of the format."""

DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""Dtype names of the weights we load, as torch calls them."""

PACKED = frozenset({"U8", "I8", "F8_E4M3", "F8_E5M2", "U16", "U32"})
"""Dtypes of tensors that hold quantised weights when the float tensors are fewer."""

MAX_HEADER = 100_000_000
"""Bytes; the limit of the reference implementation."""


class HeaderError(ValueError):
    """The file is not the safetensors file its header promises; the message is one clause without the model's name."""


@dataclass(frozen=True)
class Header:
    """`elements` counts numbers per dtype name of the format, `names` holds the tensor names."""

    elements: Counter[str]
    names: frozenset[str]

    @property
    def parameters(self) -> int:
        """Floating-point numbers in the file (integer buffers such as position ids are not parameters)."""
        return sum(n for dtype, n in self.elements.items() if dtype in DTYPES)

    @property
    def dtype(self) -> str | None:
        """The torch name of the float dtype that most numbers have, or None."""
        floats = Counter({DTYPES[d]: n for d, n in self.elements.items() if d in DTYPES})
        return floats.most_common(1)[0][0] if floats else None

    @property
    def quantised(self) -> bool:
        """True if packed integers or 8-bit floats outnumber ordinary floats."""
        return sum(n for d, n in self.elements.items() if d in PACKED) > self.parameters


def read_header(path: Path) -> Header:
    """The checked header. Raises HeaderError for a truncated or inconsistent file, OSError if it can't be read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        declared, length = _declared(file, size)
    return _checked(declared, size - 8 - length, path.name)


def merge(headers: list[Header]) -> Header:
    """One header for all shards."""
    elements: Counter[str] = Counter()
    for header in headers:
        elements.update(header.elements)
    return Header(elements, frozenset().union(*(h.names for h in headers)))


def _declared(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    head = file.read(8)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or length > MAX_HEADER or length + 8 > size:
        raise HeaderError(f"{Path(file.name).name} is truncated or not a safetensors file ({size:,} bytes)")
    try:
        declared = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise HeaderError(f"{Path(file.name).name} has a header that is not JSON") from error
    if not isinstance(declared, dict):
        raise HeaderError(f"{Path(file.name).name} has a header that is not a table of tensors")
    return declared, length


def _checked(declared: Mapping[str, Any], data_bytes: int, name: str) -> Header:
    tensors = {key: value for key, value in declared.items() if key != "__metadata__"}
    spans, elements = [], Counter[str]()
    for key, tensor in tensors.items():
        dtype, count, span = _tensor(key, tensor, name)
        elements[dtype] += count
        spans.append(span)
    _check_cover(sorted(spans), data_bytes, name)
    return Header(elements, frozenset(tensors))


def _tensor(key: str, tensor: Any, name: str) -> tuple[str, int, tuple[int, int]]:
    match tensor:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]} if dtype in BYTES and all(
            type(n) is int and n >= 0 for n in shape
        ):
            count = math.prod(shape)
            if count * BYTES[dtype] == end - begin and begin >= 0:
                return dtype, count, (begin, end)
    raise HeaderError(f"{name} declares tensor {key!r:.80} with a dtype, shape and range that do not fit together")


def _check_cover(spans: list[tuple[int, int]], data_bytes: int, name: str) -> None:
    position = 0
    for begin, end in spans:
        if begin != position:
            raise HeaderError(f"{name} declares tensors that overlap or leave a gap at byte {position:,}")
        position = end
    if position > data_bytes:
        raise HeaderError(
            f"{name} is truncated: its header declares {position:,} bytes of data, {data_bytes:,} are there"
        )
    if position < data_bytes:
        raise HeaderError(f"{name} holds {data_bytes - position:,} bytes more than its header declares")
