"""The self-test's probes from inside: each tries what must not work. Standard library only, run in the sandbox.

Reads `hidden.json` (paths of the machine that must not exist here) and `limits.json`, writes `answer.json`:
[[name, passed, detail], ...]. A probe passes when the attempt fails.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import resource
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

WORK = Path("/work")
LIBC = ctypes.CDLL(None, use_errno=True)
DEVICES = {"null", "zero", "full", "random", "urandom"}
CLONE_NEWUSER = 0x10000000
X86_64_CALLS = {
    "ptrace": (101, 16, 1, 0, 0),
    "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "pidfd_open": (434, 1, 0),
    "pidfd_getfd": (438, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 8, 0),
    "keyctl": (250, 0, -3, 0),
    "add_key": (248, 0, 0, 0, 0, -3),
    "request_key": (249, 0, 0, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "umount2": (166, 0, 0),
    "pivot_root": (155, 0, 0),
    "chroot": (161, 0),
    "fsopen": (430, 0, 0),
    "open_tree": (428, -100, 0, 0),
    "move_mount": (429, -1, 0, -1, 0, 0),
    "unshare": (272, CLONE_NEWUSER),
    "setns": (308, 0, 0),
    "clone of a user namespace": (56, CLONE_NEWUSER | 17, 0, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "init_module": (175, 0, 0, 0),
    "open_by_handle_at": (304, -100, 0, 0),
    "memfd_create": (319, 0, 0),
    "shmget": (29, 0, 4096, 0o1600),
    "mknod": (133, 0, 0o20666, 0x103),
    "setuid": (105, 0),
    "seccomp": (317, 0, 0, 0),
    "vmsplice": (278, 0, 0, 0, 0),
}
"""Call number and arguments by name; each must end with EPERM."""


def refused_call(name: str) -> tuple[bool, str]:
    """The kernel answers EPERM to the call."""
    number, *args = X86_64_CALLS[name]
    ctypes.set_errno(0)
    status = LIBC.syscall(number, *(ctypes.c_long(a) for a in args))
    if name.startswith("clone") and status == 0:
        os._exit(0)
    code = ctypes.get_errno()
    return status == -1 and code == errno.EPERM, f"{status}, {errno.errorcode.get(code, code)}"


def status_lines() -> dict[str, str]:
    """/proc/self/status as a table."""
    lines = (line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: value.strip() for name, value in lines}


def no_capabilities() -> tuple[bool, str]:
    found = {k: v for k, v in status_lines().items() if k.startswith("Cap") and int(v, 16)}
    return not found, str(found or "none")


def privileges_cannot_grow() -> tuple[bool, str]:
    found = status_lines()
    return found["NoNewPrivs"] == "1" and found["Seccomp"] == "2", f"{found['NoNewPrivs']}, {found['Seccomp']}"


def unprivileged_outside() -> tuple[bool, str]:
    """The work folder's owner, which the mount table names by its id on the machine, is not root."""
    line = next(x for x in Path("/proc/self/mountinfo").read_text().splitlines() if x.split()[4] == "/work")
    uid = re.search(r"uid=(\d+)", line)
    return bool(uid and uid[1] != "0" and os.getuid() != 0), f"uid {uid and uid[1]} outside, {os.getuid()} inside"


def own_processes_only() -> tuple[bool, str]:
    pids = sorted(int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit())
    return pids[0] == 1 and len(pids) <= 3, str(pids)


def loopback_only() -> tuple[bool, str]:
    names = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    return names in ([], ["lo"]), str(names)


def no_socket(family: int, kind: int = socket.SOCK_DGRAM) -> tuple[bool, str]:
    try:
        socket.socket(family, kind).close()
    except OSError as error:
        return True, str(error)
    return False, "a socket was opened"


def no_names() -> tuple[bool, str]:
    try:
        return False, str(socket.getaddrinfo("example.com", 80))
    except OSError as error:
        return True, str(error)


def environment_is_ours() -> tuple[bool, str]:
    expected = set(json.loads((WORK / "expected.json").read_text()))
    extra = set(os.environ) - expected - {"LC_CTYPE", "PWD"}
    return not extra, str(sorted(extra))


def only_standard_descriptors() -> tuple[bool, str]:
    links = {int(p.name): _link(p) for p in Path("/proc/self/fd").iterdir()}
    strangers = {fd: link for fd, link in links.items() if fd > 2 and not link.startswith("/proc/")}
    return not strangers, str(links)


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return "/proc/ (the listing itself)"


def empty_input() -> tuple[bool, str]:
    return os.read(0, 10) == b"", "standard input"


def not_writable(path: str) -> tuple[bool, str]:
    target = Path(path) / "probe" if Path(path).is_dir() else Path(path)
    try:
        with target.open("ab") as out:
            out.write(b"")
    except OSError as error:
        return True, str(error)
    return False, f"{target} can be written"


def hidden_paths() -> tuple[bool, str]:
    seen = [path for path in json.loads((WORK / "hidden.json").read_text()) if Path(path).exists()]
    return not seen, str(seen or "none seen")


def no_factory_code() -> tuple[bool, str]:
    """Neither the factory's modules nor its name is found where packages are."""
    roots = [Path("/opt/packages"), Path("/opt/interpreter"), Path("/usr/lib/python3")]
    found = [str(p) for root in roots if root.exists() for p in root.glob("**/pipeline/verification")]
    return not found, str(found)


def made_up_users() -> tuple[bool, str]:
    lines = Path("/etc/passwd").read_text().splitlines()
    return len(lines) == 1, str(sorted(p.name for p in Path("/etc").iterdir()))


def few_devices() -> tuple[bool, str]:
    names = {p.name for p in Path("/dev").iterdir()}
    return names <= DEVICES, str(sorted(names))


def no_terminal() -> tuple[bool, str]:
    try:
        Path("/dev/tty").open("rb").close()
    except OSError as error:
        return True, str(error)
    return False, "/dev/tty opens"


def supervisor_is_closed() -> tuple[bool, str]:
    readable = [name for name in ("environ", "mem", "maps", "fd/4") if _opens(f"/proc/1/{name}")]
    return not readable, str(readable)


def _opens(path: str) -> bool:
    try:
        Path(path).open("rb").close()
    except OSError:
        return False
    return True


def supervisor_survives() -> tuple[bool, str]:
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV):
        os.kill(1, number)
    time.sleep(0.05)
    state = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[0]
    return state in "RS", f"state {state}"


def kernel_settings_fixed() -> tuple[bool, str]:
    paths = ("/proc/sys/kernel/core_pattern", "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger")
    writable = [path for path in paths if _writes(path)]
    return not writable, str(writable)


def _writes(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        return False
    return True


def own_host_name() -> tuple[bool, str]:
    return os.uname().nodename == "sandbox", os.uname().nodename


def limit_is(kind: int, name: str) -> tuple[bool, str]:
    expected = json.loads((WORK / "limits.json").read_text())[name]
    soft, hard = resource.getrlimit(kind)
    return soft == expected and hard <= expected + 1, f"{soft}, {hard}"


def no_core_dumps() -> tuple[bool, str]:
    return resource.getrlimit(resource.RLIMIT_CORE) == (0, 0), str(resource.getrlimit(resource.RLIMIT_CORE))


def forks_run_out() -> tuple[bool, str]:
    """Fork until refused; fewer than the limit may be born."""
    allowed = json.loads((WORK / "limits.json").read_text())["processes"]
    children: list[int] = []
    try:
        while len(children) <= allowed:
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except OSError as error:
        return True, f"{len(children)} forks, then {error}"
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return False, f"{len(children)} forks"


def large_file_refused() -> tuple[bool, str]:
    size = json.loads((WORK / "limits.json").read_text())["file_size"]
    return _write_fails("large", size + 1, errno.EFBIG)


def full_folder_refused() -> tuple[bool, str]:
    size = json.loads((WORK / "limits.json").read_text())["file_size"]
    room = json.loads((WORK / "limits.json").read_text())["tmp"]
    parts = [f"part{i}" for i in range(room // size + 2)]
    try:
        return any(_write_fails(name, size, errno.ENOSPC)[0] for name in parts), f"{len(parts)} files of {size} bytes"
    finally:
        for name in parts:
            (WORK / name).unlink(missing_ok=True)


def _write_fails(name: str, size: int, code: int) -> tuple[bool, str]:
    try:
        with (WORK / name).open("wb", buffering=0) as out:
            written = sum(out.write(bytes(1 << 20)) for _ in range(size >> 20))
            written += out.write(bytes(size & ((1 << 20) - 1) or 1))
    except OSError as error:
        return error.errno == code, str(error)
    return written < size, f"{written} bytes written"


def memory_refused() -> tuple[bool, str]:
    size = json.loads((WORK / "limits.json").read_text())["address_space"]
    try:
        return len(bytearray(size)) < 0, "allocated"
    except MemoryError:
        return True, "MemoryError"


PROBES: dict[str, Callable[[], tuple[bool, str]]] = {
    "user is unprivileged outside and inside": unprivileged_outside,
    "no capabilities": no_capabilities,
    "privileges cannot grow, filter loaded": privileges_cannot_grow,
    "only own processes visible": own_processes_only,
    "only a loopback interface": loopback_only,
    "no internet socket": lambda: no_socket(socket.AF_INET),
    "no IPv6 socket": lambda: no_socket(socket.AF_INET6),
    "no unix socket": lambda: no_socket(socket.AF_UNIX),
    "no packet socket": lambda: no_socket(socket.AF_PACKET, socket.SOCK_RAW),
    "no vsock socket": lambda: no_socket(socket.AF_VSOCK, socket.SOCK_STREAM),
    "no name resolution": no_names,
    **{f"call refused: {name}": partial(refused_call, name) for name in X86_64_CALLS},
    "environment is ours": environment_is_ours,
    "no inherited descriptor": only_standard_descriptors,
    "standard input is empty": empty_input,
    "root is read-only": lambda: not_writable("/"),
    "interpreter is read-only": lambda: not_writable("/opt/interpreter/lib"),
    "system libraries are read-only": lambda: not_writable("/usr/lib"),
    "/etc is read-only": lambda: not_writable("/etc/passwd"),
    "/dev is read-only": lambda: not_writable("/dev"),
    "home, repository and data do not exist": hidden_paths,
    "no factory code": no_factory_code,
    "users are made up": made_up_users,
    "only harmless devices": few_devices,
    "no terminal": no_terminal,
    "supervisor cannot be read": supervisor_is_closed,
    "supervisor cannot be killed or stopped": supervisor_survives,
    "kernel settings cannot be written": kernel_settings_fixed,
    "host name is not the machine's": own_host_name,
    "limit set: processor time": lambda: limit_is(resource.RLIMIT_CPU, "cpu_s"),
    "limit set: open files": lambda: limit_is(resource.RLIMIT_NOFILE, "open_files"),
    "no core dumps": no_core_dumps,
    "forks run out": forks_run_out,
    "a large file is refused": large_file_refused,
    "a full work folder refuses": full_folder_refused,
    "too much memory is refused": memory_refused,
}


def run(probe: Callable[[], tuple[bool, str]]) -> tuple[bool, str]:
    """The probe's result; one that breaks has not passed."""
    try:
        return probe()
    except Exception as error:  # noqa: BLE001 - recorded as a failed probe
        return False, f"{type(error).__name__}: {error}"


def main() -> None:
    """Run every probe and write the answer."""
    answers: list[list[Any]] = [[name, *run(probe)] for name, probe in PROBES.items()]
    (WORK / "answer.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
