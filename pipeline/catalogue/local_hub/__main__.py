"""Runs the local Hub until SIGINT or SIGTERM: `python -m pipeline.catalogue.local_hub [--root DIR] [--starter]`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from pipeline.catalogue.local_hub.repository import load_root, model_from_entry
from pipeline.catalogue.local_hub.server import LocalHub
from pipeline.catalogue.starter import load_starter


def main() -> int:
    """Serves and prints the endpoint as the only line of standard output."""
    options = _options()
    models = load_root(options.root) if options.root else []
    if options.starter:
        models = [model_from_entry(e) for e in load_starter()] + models
    try:
        hub = LocalHub(models, port=options.port).start()
    except OSError as error:
        sys.stderr.write(f"port {options.port} cannot be used: {error.strerror}; choose another with --port\n")
        return 1
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    sys.stdout.write(f"{hub.url}\n")
    sys.stdout.flush()
    stop.wait()
    hub.stop()
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serves a folder of models with the Hub's HTTP API.")
    parser.add_argument("--root", type=Path, help="folder of ORG/NAME model folders")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--starter", action="store_true", help="serve the bundled catalogue's configurations too")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
