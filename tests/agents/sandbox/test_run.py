"""`run_in_sandbox`: what goes in, what comes out, and that it fails closed and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agents.errors import SandboxUnavailable as AnySandboxUnavailable
from agents.sandbox import KilledBy, Limits, OutFile, SandboxUnavailable, plan, run_in_sandbox, seccomp

REPOSITORY = Path(__file__).resolve().parents[3]
SLEEP = "import time; time.sleep(99)"


@pytest.mark.sandbox
def test_files_go_in_and_come_out() -> None:
    script = "open('out', 'wb').write(open('in', 'rb').read()[::-1])"
    result = run_in_sandbox(script, files_in={"in": b"\x00\xffabc"}, files_out=["out", "absent"])
    assert result.files == {"out": b"cba\xff\x00"}
    assert result.refused == {}
    assert result.succeeded


@pytest.mark.sandbox
def test_a_command_is_run_as_given_and_its_status_comes_back() -> None:
    assert run_in_sandbox([plan.PYTHON, "-c", "raise SystemExit(7)"]).exit == 7
    missing = run_in_sandbox(["/bin/sh"])
    assert missing.exit == 127
    assert "/bin/sh" in missing.stderr


@pytest.mark.sandbox
def test_streams_are_separate_and_undecodable_bytes_survive_as_marks() -> None:
    result = run_in_sandbox("import os\nos.write(1, b'a\\xff')\nos.write(2, b'b')")
    assert (result.stdout, result.stderr) == ("a�", "b")


@pytest.mark.sandbox
def test_what_was_written_before_a_limit_is_still_shown_but_no_file_leaves() -> None:
    script = "import time\nprint('started', flush=True)\nopen('out', 'w').write('x')\ntime.sleep(99)"
    result = run_in_sandbox(script, files_out=["out"], limits=Limits(wall_s=0.5))
    assert (result.stdout, result.killed_by, result.exit, result.files) == ("started\n", KilledBy.WALL_CLOCK, None, {})


@pytest.mark.sandbox
def test_only_named_packages_are_shown() -> None:
    script = "import packaging\ntry:\n    import pyseccomp\nexcept ImportError:\n    print('hidden')"
    assert run_in_sandbox(script, packages=("packaging",)).stdout == "hidden\n"
    assert "ModuleNotFoundError" in run_in_sandbox("import packaging").stderr


@pytest.mark.sandbox
def test_tools_are_importable_and_read_only(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 3\n")
    script = "import kit.helper\nprint(kit.helper.VALUE)\nopen(kit.helper.__file__, 'a')"
    result = run_in_sandbox(script, tools={"kit/helper.py": tmp_path / "helper.py"})
    assert result.stdout == "3\n"
    assert "PermissionError" in result.stderr


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "a\0b", "x" * 101])
def test_a_name_that_is_a_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="plain file name"):
        run_in_sandbox("pass", files_out=[OutFile(name)])
    with pytest.raises(ValueError, match="plain file name"):
        run_in_sandbox("pass", files_in={name: b""})


@pytest.mark.sandbox
def test_two_runs_at_once_do_not_meet() -> None:
    script = "import os, sys\nopen('me', 'w').write(sys.argv[1])\nprint(sorted(os.listdir('/work')), open('me').read())"
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run_in_sandbox, script.replace("sys.argv[1]", repr(name))) for name in ("one", "two")]
    assert [r.result().stdout.split()[-1] for r in runs] == ["one", "two"]


@pytest.mark.sandbox
def test_no_descriptor_stays_open() -> None:
    run_in_sandbox("pass")
    before = _descriptors()
    run_in_sandbox("pass", files_in={"a": b"1"}, files_out=["a"])
    run_in_sandbox("import time; time.sleep(9)", limits=Limits(wall_s=0.2))
    assert _descriptors() == before


def _descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir() if entry.exists()}


@pytest.mark.sandbox
def test_no_process_survives_the_death_of_the_caller() -> None:
    token = f"orphan-{os.getpid()}-{time.monotonic_ns()}"
    inner = f"import os, sys; os.execv(sys.executable, [sys.executable, '-c', {SLEEP!r}, {token!r}])"
    code = f"from agents.sandbox import run_in_sandbox\nrun_in_sandbox({inner!r})"
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY) as caller:
        assert _wait_until(lambda: _running(token))
        caller.send_signal(signal.SIGKILL)
    assert _wait_until(lambda: not _running(token))


def _wait_until(holds: object) -> bool:
    return any(holds() or time.sleep(0.05) for _ in range(600))  # type: ignore[operator]


def _running(token: str) -> bool:
    listing = subprocess.run(["ps", "axww", "-o", "args="], capture_output=True, text=True, check=True).stdout
    return any(line.endswith(token) for line in listing.splitlines())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a user to drop")
@pytest.mark.sandbox
def test_root_drops_to_a_user_that_no_one_else_is() -> None:
    script = "print(next(x for x in open('/proc/self/mountinfo') if ' /work ' in x))"
    uids = {run_in_sandbox(script).stdout.split("uid=")[1].split(",")[0] for _ in range(2)}
    assert len(uids) == 2
    assert "0" not in uids


def test_without_bubblewrap_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plan.shutil, "which", lambda *_, **__: None)
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap") as raised:
        run_in_sandbox("pass")
    assert isinstance(raised.value, AnySandboxUnavailable)


@pytest.mark.parametrize("broken", ["/bin/false", "/nonexistent/bwrap", "/bin/true"])
def test_a_bubblewrap_that_does_not_work_is_unavailable_not_a_result(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setattr(plan, "bubblewrap", lambda: broken)
    with pytest.raises(SandboxUnavailable, match="could not be set up"):
        run_in_sandbox("pass")


def test_without_a_filter_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    seccomp.filter_program.cache_clear()
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(SandboxUnavailable, match="libseccomp2"):
        run_in_sandbox("pass")
    monkeypatch.undo()
    seccomp.filter_program.cache_clear()


def test_a_package_that_is_not_installed_is_unavailable() -> None:
    with pytest.raises(SandboxUnavailable, match="no-such-package"):
        run_in_sandbox("pass", packages=("no-such-package",))
