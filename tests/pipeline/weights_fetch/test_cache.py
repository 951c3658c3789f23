"""The weights cache: least recently used first, never what is held, never half of anything."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import EnvironmentProblem
from pipeline.weights.cache import RECORD, WeightsCache


def _store(cache: WeightsCache, name: str, used_at: float, size: int = 1000) -> Path:
    with cache.fetching(f"a/{name}", name * 40) as partial:
        (partial / "model.safetensors").write_bytes(bytes(size))
        (partial / RECORD).write_text("")
        folder = cache.publish(partial, cache.folder(f"a/{name}", name * 40))
    os.utime(folder, (used_at, used_at))
    return folder


def test_the_least_recently_used_goes_first(cache: WeightsCache) -> None:
    small = replace(cache, cap_bytes=2500)
    old, new = _store(small, "1", 100), _store(small, "2", 200)
    small.make_room(1000)
    assert (old.exists(), new.exists()) == (False, True)
    assert list(small.root.glob("removed/*")) == []


def test_finding_counts_as_use(cache: WeightsCache) -> None:
    small = replace(cache, cap_bytes=2500)
    old, new = _store(small, "1", 100), _store(small, "2", 200)
    assert small.find("a/1", "1" * 40) == old
    small.make_room(1000)
    assert (old.exists(), new.exists()) == (True, False)


def test_what_is_held_is_never_removed(cache: WeightsCache) -> None:
    small = replace(cache, cap_bytes=2500)
    old, new = _store(small, "1", 100), _store(small, "2", 200)
    with small.hold(old), small.hold(old):
        small.make_room(1000)
        assert (old.exists(), new.exists()) == (True, False)
        with pytest.raises(EnvironmentProblem, match="raise its cap"):
            small.make_room(2000)
    small.make_room(2000)
    assert not old.exists()


def test_a_hold_ends_with_its_process(cache: WeightsCache) -> None:
    small = replace(cache, cap_bytes=1500)
    folder = _store(small, "1", 100)
    code = (
        "import sys, time; from pathlib import Path; from pipeline.weights.cache import WeightsCache\n"
        "with WeightsCache(Path(sys.argv[1])).hold(Path(sys.argv[2])): print('held', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(cache.root), str(folder)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(EnvironmentProblem):
            small.make_room(1000)
    finally:
        child.kill()
        child.communicate()
    small.make_room(1000)
    assert not folder.exists()


def test_holding_what_was_removed_says_so(cache: WeightsCache) -> None:
    with pytest.raises(EnvironmentProblem, match="fetch it again"), cache.hold(cache.folder("a/x", "0" * 40)):
        pass


def test_a_folder_without_its_record_is_not_found_and_is_replaced(cache: WeightsCache) -> None:
    folder = cache.folder("a/1", "1" * 40)
    folder.mkdir(parents=True)
    (folder / "junk").write_text("half")
    assert cache.find("a/1", "1" * 40) is None
    assert _store(cache, "1", 100) == folder
    assert not (folder / "junk").exists()


def test_making_a_cache_touches_nothing(tmp_path: Path) -> None:
    cache = WeightsCache(tmp_path / "none")
    assert cache.find("a/x", "0" * 40) is None
    assert list(tmp_path.iterdir()) == []
