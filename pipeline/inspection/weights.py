"""Facts of the safetensors files of a local checkpoint, from their headers: size, dtype, count, truncation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import EnvironmentProblem
from pipeline.inspection.chain import Chain
from pipeline.inspection.files import INDEX, MAX_SMALL_BYTES, SHARD, is_safe_name
from pipeline.inspection.safetensors_header import Header, HeaderError, merge, read_header

_MAX_INDEX = 16 * MAX_SMALL_BYTES


@dataclass(frozen=True)
class WeightsFacts:
    """All None: no native weights here. `fault` is one clause."""

    parameters: int | None = None
    dtype: str | None = None
    bytes: int | None = None
    quantised: bool = False
    fault: str | None = None


def inspect_weights(folder: Path, chain: Chain) -> WeightsFacts:
    """Checks every native weight file of the folder. Raises EnvironmentProblem if one cannot be read."""
    root = folder / chain.transformer_path if is_safe_name(chain.transformer_path or "-") else folder
    try:
        paths = weight_files(root) + [p for d in chain.dense if (p := folder / d.path / "model.safetensors").is_file()]
        headers = [read_header(path) for path in paths]
    except HeaderError as fault:
        return WeightsFacts(fault=f"its {fault}", bytes=0)
    except OSError as error:
        raise EnvironmentProblem(f"the weights in {str(folder)!r} cannot be read: {error.strerror or error}") from error
    return _summary(paths, headers)


def weight_files(root: Path) -> list[Path]:
    """The safetensors files transformers would load from `root`; empty if there are none. Raises HeaderError."""
    single, index = root / "model.safetensors", root / INDEX
    if single.is_file():
        return [single]
    if not index.is_file():
        return []
    shards = _indexed(index)
    missing = sorted(name for name in shards if not (root / name).is_file())
    if missing:
        raise HeaderError(f"{INDEX} names {missing[0]!r:.80}, which is not there")
    return [root / name for name in sorted(shards)]


def _indexed(index: Path) -> set[str]:
    if index.stat().st_size > _MAX_INDEX:
        raise HeaderError(f"{INDEX} is larger than {_MAX_INDEX:,} bytes")
    try:
        shards = set(json.loads(index.read_bytes())["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HeaderError(f"{INDEX} is not an index of weight files") from error
    if not shards or not all(isinstance(name, str) and SHARD.fullmatch(name) for name in shards):
        raise HeaderError(f"{INDEX} names files that are no shards of it")
    return shards


def _summary(paths: list[Path], headers: list[Header]) -> WeightsFacts:
    if not headers:
        return WeightsFacts()
    whole = merge(headers)
    return WeightsFacts(whole.parameters, whole.dtype, sum(path.stat().st_size for path in paths), whole.quantised)
