"""Makes one signed bundle: `python -m pipeline.releases.export_child NUMBER FILE`. It says why it could not."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.database.unit_of_work import reading
from pipeline.errors import FactoryError
from pipeline.releases.bundles import bundle_of
from pipeline.releases.signing import signing_key
from pipeline.settings import get_settings


def main(arguments: Sequence[str]) -> int:
    """Write the bundle beside FILE, then rename it: a reader finds all of it or nothing."""
    number, path = int(arguments[0]), Path(arguments[1])
    try:
        with reading() as session:
            content = bundle_of(session, number, signing_key(get_settings()))
    except FactoryError as problem:
        print(problem, file=sys.stderr)  # noqa: T201 - the parent stores it as the reason
        return 1
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
