"""Which card this process uses, of how many it sees (facts 5.1, 5.5).

The choice is made at the start: `set_device` before it, else LOCAL_RANK, else card 0. A process has one card; another
one raises, and where E-66 says that processes share a card, so does a second process.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

MOST_CARDS = 8  # of one drawer (facts 1.1)
MOST_HOST_COMPUTE_STREAMS = 8
FIRST_HOST_COMPUTE_STREAM = 65
SECOND_DEVICE = (
    f"Host compute stream id {FIRST_HOST_COMPUTE_STREAM} is already registered; "
    "only one Spyre device per process is supported"
)
ONE_DEVICE = "only one Spyre device per process is simulated"  # where E-66 is off
FUNCTIONS = ("PF", "VF", "MOCK")  # the card itself, a virtual function of it, the driver without a card
NO_ANSWER = "the virtual function of the Spyre card does not answer\n"
IN_USE = "SPYRE_IN_USE"  # set to the process that uses the device, for the processes it starts

_held: list[IO[str]] = []


def count(profile: Any) -> int:
    """Cards this process sees: as many as SPYRE_DEVICES lists or AIU_WORLD_SIZE says, the fewer of both, else 1.

    FLEX_DEVICE changes no number: each card is one device, whatever it is used as. Raises RuntimeError if either of
    the first two is none that the runtime knows. 2025-11 always sees one and asks nothing.
    """
    if profile.runtime["devices"] == "one":
        return 1
    function()
    listed = [d for d in os.environ.get("SPYRE_DEVICES", "").split(",") if d.strip()]
    world = _number("AIU_WORLD_SIZE", len(listed) or 1, MOST_CARDS)
    return min(world, len(listed) or world)


def function() -> str:
    """What a card is used as: FLEX_DEVICE, one of `FUNCTIONS`, by default PF. Raises RuntimeError for another."""
    named = os.environ.get("FLEX_DEVICE", "").strip() or FUNCTIONS[0]
    if named not in FUNCTIONS:
        raise RuntimeError(f"FLEX_DEVICE={named!r} is none of {', '.join(FUNCTIONS)}")
    return named


def meet_function(profile: Any) -> None:
    """E-54: where the profile has the hang of virtual functions, the start of one does not return."""
    hangs = profile.has("E-54") and profile.content["cut_date"] > profile.errata["E-54"]["page_fault_until"]
    if hangs and function() == "VF":
        sys.stderr.write(NO_ANSWER)
        sys.stderr.flush()
        threading.Event().wait()


def chosen(profile: Any, pending: int | None) -> int:
    """The card of this process. Raises RuntimeError if there is no such card."""
    cards = count(profile)
    index = _number("LOCAL_RANK", 0, None) if pending is None else pending
    if pending is None and cards == 1:
        return 0  # a launcher that shows each process one card
    if not 0 <= index < cards:
        raise RuntimeError(
            f"Invalid device 'spyre:{index}': this process has {cards} Spyre device; "
            "only one Spyre device per process is supported"
        )
    return index


def host_compute_streams() -> int:
    """TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS, at most 8; default 4. Raises RuntimeError if it is no such number."""
    return _number("TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS", 4, MOST_HOST_COMPUTE_STREAMS)


def _number(name: str, default: int, most: int | None) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isdigit() or (most is not None and not 1 <= int(text) <= most):
        raise RuntimeError(f"{name}={text!r} is not a number{'' if most is None else f' from 1 to {most}'}")
    return int(text)


def claim(profile: Any, index: int) -> None:
    """Note for child processes that the device is in use, and take the card where processes share it (E-66).

    Raises RuntimeError if another process has it.
    """
    if profile.errata.get("E-66", {}).get("cards") == "shared":
        _hold(Path(tempfile.gettempdir()) / f"spyre-card-{index}.lock")
    os.environ[IN_USE] = str(os.getpid())


def _hold(path: Path) -> None:
    handle = path.open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        handle.close()
        raise RuntimeError(SECOND_DEVICE) from error
    _held.append(handle)


def used_by_parent() -> bool:
    """True if this process was started by a Python process that uses the device."""
    return os.environ.get(IN_USE, str(os.getpid())) != str(os.getpid())
