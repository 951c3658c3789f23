"""A small server that speaks the Hub's HTTP API to the real `huggingface_hub` client, from a folder or a catalogue.

For demonstrations and tests without a network, and for installations that keep their models on their own disk:

    python -m pipeline.catalogue.local_hub --root DIR --port 8001     then     HF_ENDPOINT=http://127.0.0.1:8001

`LocalHub` runs the same server in a thread, as a context manager, and can be told to misbehave (`Fault`).
"""

from pipeline.catalogue.local_hub.repository import HubModel, load_root, model_from_entry
from pipeline.catalogue.local_hub.server import Fault, LocalHub

__all__ = ["Fault", "HubModel", "LocalHub", "load_root", "model_from_entry"]
