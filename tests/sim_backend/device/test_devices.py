"""Cards and processes: which card a process uses, a second one, a forked child, a child of a process that uses one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sim_backend.device import devices
from sim_backend.profiles import load_profile

pytestmark = pytest.mark.fact("5.1", "5.5")

REGISTERED = "Host compute stream id 65 is already registered; only one Spyre device per process is supported"

RANK = """
import json, os, torch
def text_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "no error"
before = [torch.spyre.device_count(), torch.spyre.current_device(), torch.spyre.is_initialized()]
bad_fork = [torch.spyre._is_in_bad_fork()]
x = torch.ones(4, dtype=torch.float16).to("spyre")
bad_fork.append(torch.spyre._is_in_bad_fork())
read, write = os.pipe()
if os.fork() == 0:
    flags = [torch.spyre._is_in_bad_fork(), torch.spyre.is_initialized(), torch.spyre.is_available()]
    child = [*flags, text_of(lambda: x + x)]
    os.write(write, json.dumps(child).encode())
    os._exit(0)
os.wait()
print(json.dumps({
    "before": before,
    "devices": [str(x.device), str((x + x).device),
                torch.spyre.current_device(), torch.accelerator.current_device_index()],
    "bad fork": bad_fork,
    "in use": os.environ["SPYRE_IN_USE"] == str(os.getpid()),
    "second": [text_of(lambda: torch.ones(2).to("spyre:0")), text_of(lambda: torch.spyre.set_device(0)),
               text_of(lambda: torch.empty(1, device="spyre:0"))],
    "missing": text_of(lambda: torch.empty(1, device="spyre:5")),
    "same": text_of(lambda: torch.spyre.set_device("spyre:1")),
    "streams": [text_of(lambda: torch.spyre.Stream(stream_id=i)) for i in (66, 67)],
    "child": json.loads(os.read(read, 1000)),
    "report": torch.spyre.get_diagnostic_report(),
}))
"""


@pytest.fixture(scope="module")
def rank(run_python: Any) -> dict[str, Any]:
    """A process of rank 1 of 2, started by another that uses the device."""
    environment = {"AIU_WORLD_SIZE": "2", "LOCAL_RANK": "1", "SPYRE_IN_USE": "1", "TORCH_SPYRE_FFDC": "1"}
    return json.loads(run_python(RANK, TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS="2", **environment))


def test_the_local_rank_picks_the_card(rank) -> None:
    assert rank["before"] == [2, 1, False]
    assert rank["devices"] == ["spyre:1", "spyre:1", 1, 1]
    assert rank["same"] == "no error"


@pytest.mark.fact("E-66", "3.7")
def test_a_second_device_of_a_process_is_refused(rank) -> None:
    assert rank["second"] == [REGISTERED] * 3
    assert rank["missing"].startswith("Invalid device 'spyre:5'")


def test_a_child_of_a_process_that_uses_the_device_knows_it_until_it_uses_it_itself(rank) -> None:
    assert rank["bad fork"] == [True, False]
    assert rank["in use"]


@pytest.mark.fact("E-66")
def test_a_forked_child_looks_initialised_and_cannot_compute(rank) -> None:
    assert rank["child"] == [True, True, True, REGISTERED]


def test_the_environment_says_how_many_host_compute_streams_there_are(rank) -> None:
    assert rank["streams"] == ["no error", "Invalid stream id 67: this Spyre device has streams 0 to 66"]


def test_a_diagnostic_report_is_given_when_it_is_switched_on(rank) -> None:
    report = rank["report"]
    assert (report["profile"], report["device"], report["initialized"]) == ("profile-2026-08", 1, True)
    assert report["memory"]["allocation.all.allocated"] > 0
    assert torch.spyre.get_diagnostic_report() is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 1),
        ({"AIU_WORLD_SIZE": "4"}, 4),
        ({"SPYRE_DEVICES": "0,3,5"}, 3),
        ({"SPYRE_DEVICES": "0,3,5", "AIU_WORLD_SIZE": "2"}, 2),
    ],
)
def test_the_number_of_cards_comes_from_the_environment(monkeypatch, environment, expected: int) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert devices.count(load_profile()) == expected


def test_a_device_chosen_before_the_start_is_kept_and_beats_the_rank(monkeypatch) -> None:
    monkeypatch.setenv("AIU_WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert devices.chosen(load_profile(), None) == 3
    assert devices.chosen(load_profile(), 2) == 2
    with pytest.raises(RuntimeError, match="Invalid device 'spyre:4'"):
        devices.chosen(load_profile(), 4)
    monkeypatch.delenv("AIU_WORLD_SIZE")
    assert devices.chosen(load_profile(), None) == 0


@pytest.mark.parametrize("value", ["many", "0", "9", "-1"])
def test_a_number_of_cards_or_streams_that_is_none_is_refused_by_name(monkeypatch, value: str) -> None:
    monkeypatch.setenv("AIU_WORLD_SIZE", value)
    with pytest.raises(RuntimeError, match=f"AIU_WORLD_SIZE='{value}' is not a number from 1 to 8"):
        devices.count(load_profile())
    monkeypatch.setenv("TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS", value)
    with pytest.raises(RuntimeError, match=f"TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS='{value}'"):
        devices.host_compute_streams()


@pytest.mark.parametrize(("named", "used"), [("", "PF"), ("PF", "PF"), ("VF", "VF"), ("MOCK", "MOCK")])
def test_flex_device_says_what_the_card_is_used_as_and_not_how_many_there_are(monkeypatch, named, used) -> None:
    monkeypatch.setenv("FLEX_DEVICE", named)
    monkeypatch.setenv("AIU_WORLD_SIZE", "2")
    assert (devices.function(), devices.count(load_profile())) == (used, 2)


def test_an_unknown_flex_device_is_refused_by_name_but_not_where_nothing_asks(monkeypatch) -> None:
    monkeypatch.setenv("FLEX_DEVICE", "GPU")
    with pytest.raises(RuntimeError, match=r"FLEX_DEVICE='GPU' is none of PF, VF, MOCK"):
        devices.count(load_profile())
    assert devices.count(load_profile("profile-2025-11")) == 1


@pytest.mark.fact("E-54")
def test_e54_the_start_of_a_virtual_function_does_not_return_in_september() -> None:
    source = "import torch; torch.ones(2).to('spyre'); print('started')"
    env = {**os.environ, "SPYRE_SIM_PROFILE": "profile-2026-09", "FLEX_DEVICE": "VF"}
    with subprocess.Popen([sys.executable, "-c", source], env=env, stderr=-1, stdout=-1, text=True) as child:
        assert child.stderr is not None
        assert child.stdout is not None
        said = next((line for line in child.stderr if line == devices.NO_ANSWER), "")
        alive = child.poll() is None
        child.kill()
        assert (said, alive, child.stdout.read()) == (devices.NO_ANSWER, True, "")


@pytest.mark.fact("E-54")
@pytest.mark.parametrize(
    ("profile", "used"), [("profile-2026-08", "VF"), ("profile-2026-04", "VF"), ("profile-2026-09", "PF")]
)
def test_e54_spares_other_profiles_and_other_uses_of_the_card(monkeypatch, profile: str, used: str) -> None:
    monkeypatch.setenv("FLEX_DEVICE", used)
    monkeypatch.setattr(devices.threading, "Event", lambda: pytest.fail("it hangs"))
    devices.meet_function(load_profile(profile))


@pytest.mark.fact("E-66")
def test_a_second_process_fails_where_processes_share_a_card(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(devices, "_held", [])
    monkeypatch.setenv(devices.IN_USE, "")
    shared = load_profile(overrides={"errata.E-66": {"cards": "shared"}})
    devices.claim(shared, 0)
    with pytest.raises(RuntimeError, match=REGISTERED):
        devices.claim(shared, 0)
    devices.claim(shared, 1)
    devices.claim(load_profile(), 0)
    for handle in devices._held:
        handle.close()
