"""What a request is about: a catalogue's row, the Hub's answer, or a configuration that was sent.

The Hub is asked only for a model (or a revision) that no catalogue lists.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.catalogue.entry import CatalogueEntry, WeightsForm
from pipeline.catalogue.hub import HubClient, hub_client
from pipeline.catalogue.starter import find_starter
from pipeline.database.unit_of_work import assert_no_transaction, reading
from pipeline.errors import EnvironmentProblem, NotFound
from pipeline.inspection.files import CONFIG, python_files, weights_form
from pipeline.requests.errors import BadConfig, HubUnreachable
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.catalogue import entry_of
from pipeline.sweeps.errors import UnknownModel

UNRANKED = 0
"""The rank of a model that no listing ranks."""
MAX_CONFIG_BYTES, MAX_DEPTH = 262_144, 32
LOCAL = "local"
"""The owner in the name of a model that only its configuration is known of."""


def find_model(model: str | None, revision: str | None, config: dict[str, Any] | None) -> CatalogueEntry | None:
    """The row of what was asked for if no catalogue has it; None if one has. No transaction is open meanwhile.

    Raises `BadConfig`, `UnknownModel`, `HubUnreachable`.
    """
    assert_no_transaction()
    if config is not None:
        return entry_from_config(config)
    assert model is not None
    try:
        with reading() as session:
            listed_entry(session, model, revision)
    except UnknownModel:
        return entry_from_hub(model, revision)
    return None


def listed_entry(session: Session, name: str, revision: str | None = None) -> CatalogueEntry:
    """The catalogue's row of a model (at a revision), stored or of the bundled catalogue. Raises `UnknownModel`."""
    checkpoint = sweeps.checkpoint_of_model(session, name, revision)
    entry = entry_of(checkpoint) if checkpoint else find_starter(name)
    if entry is None or revision not in (None, entry.revision):
        at = f" at revision {revision!r}" if revision else ""
        raise UnknownModel(
            f"No catalogue here lists {name!r}{at}: check the spelling, or run `spyre-factory catalog refresh`."
        )
    return entry


def entry_from_hub(model: str, revision: str | None, client: HubClient | None = None) -> CatalogueEntry:
    """The Hub's row of a model at a revision (newest if None). Raises `UnknownModel`, `HubUnreachable`."""
    hub = client or hub_client()
    try:
        hub.probe()
        found = hub.listing(model, revision)
        text = hub.read_small(model, found.revision, CONFIG) if not found.gated or hub.token else None
        config = json.loads(text) if text else None
    except NotFound as error:
        raise UnknownModel(str(error)) from error
    except ValueError:
        config = None  # inspection reads it again and says what is wrong with it
    except EnvironmentProblem as error:
        raise HubUnreachable(
            f"{model!r} is in no catalogue here and {error}. Either set HF_ENDPOINT to a mirror that this service "
            "reaches, or send the model's `config` instead of its name: its weights stay at home."
        ) from error
    facts: dict[str, Any] = config if isinstance(config, dict) else {}
    return CatalogueEntry(
        model_id=model,
        rank=UNRANKED,
        revision=found.revision,
        model_type=facts.get("model_type"),
        gated=found.gated,
        custom_code=bool(facts.get("auto_map")) or bool(python_files(tuple(found.files))),
        config=facts or None,
        weights_form=weights_form(found.files),
    )


def entry_from_config(config: dict[str, Any]) -> CatalogueEntry:
    """The row of a model of which only the configuration is known, named by its digest. Raises `BadConfig`."""
    _check(config, 0)
    if not isinstance(config.get("model_type"), str):
        raise BadConfig("The configuration has no `model_type`: send the content of the model's config.json.")
    text = canonical(config)
    if len(text) > MAX_CONFIG_BYTES:
        raise BadConfig(f"The configuration has {len(text)} bytes, at most {MAX_CONFIG_BYTES} are read.")
    name = f"{LOCAL}/config-{hashlib.sha256(text).hexdigest()[:20]}"
    return CatalogueEntry(
        model_id=name,
        rank=UNRANKED,
        model_type=config["model_type"],
        custom_code=bool(config.get("auto_map")),
        config=config,
        weights_form=WeightsForm.UNKNOWN,
    )


def _check(value: Any, depth: int) -> None:
    """Refuse what JSON libraries accept and databases do not."""
    if depth > MAX_DEPTH:
        raise BadConfig(f"The configuration is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadConfig("The configuration holds a number that is not finite.")
    if isinstance(value, str) and not _is_plain(value):
        raise BadConfig("The configuration holds text that is not valid Unicode, or a NUL character.")
    if isinstance(value, dict):
        for key, item in value.items():
            _check(key, depth + 1)
            _check(item, depth + 1)
    if isinstance(value, list):
        for item in value:
            _check(item, depth + 1)


def _is_plain(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
