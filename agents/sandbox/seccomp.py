"""The system-call filter: a table of what drafted code may not ask of the kernel, compiled to BPF by libseccomp.

The default is to allow: namespaces, no capabilities and no_new_privs already bound what a call can reach. The table
removes the calls that have no use for a computation and that widen the kernel's attack surface or evade a limit
(memory that no resident-size count sees, socket buffers, socket families that know no network namespace). Calls of
another architecture (i386, x32) kill the process.
"""

from __future__ import annotations

import errno
import os
from functools import lru_cache

from .errors import SandboxUnavailable

REFUSED: dict[str, tuple[str, ...]] = {
    "other processes": (
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "process_madvise",
        "process_mrelease",
        "kcmp",
        "pidfd_getfd",
        "pidfd_open",
        "pidfd_send_signal",
    ),
    "namespaces": ("unshare", "setns"),
    "mounts": (
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "open_tree",
        "move_mount",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
        "swapon",
        "swapoff",
        "quotactl",
        "quotactl_fd",
    ),
    "kernel interfaces": (
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "fanotify_init",
        "fanotify_mark",
        "lookup_dcookie",
        "seccomp",
        "syslog",
        "acct",
        "vhangup",
        "nfsservctl",
        "_sysctl",
        "sysfs",
        "uselib",
        "ustat",
        "modify_ldt",
        "iopl",
        "ioperm",
        "vmsplice",
    ),
    "keys": ("keyctl", "add_key", "request_key"),
    "kernel code": ("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot"),
    "clock": ("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime"),
    "file handles": ("open_by_handle_at", "name_to_handle_at"),
    "identity": (
        "setuid",
        "setgid",
        "setreuid",
        "setregid",
        "setresuid",
        "setresgid",
        "setgroups",
        "setfsuid",
        "setfsgid",
        "capset",
        "sethostname",
        "setdomainname",
    ),
    "devices": ("mknod", "mknodat"),
    "uncounted memory": (
        "memfd_create",
        "memfd_secret",
        "shmget",
        "shmat",
        "shmctl",
        "msgget",
        "msgsnd",
        "semget",
        "semtimedop",
        "mq_open",
        "move_pages",
        "migrate_pages",
        "mbind",
        "set_mempolicy",
    ),
    "sockets": ("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4"),
}
"""Calls by reason; each gets EPERM."""

REFUSED_NUMBERS = {"x86_64": (457, 458, 467)}
"""Numbers younger than libseccomp's tables (statmount, listmount, open_tree_attr), by machine."""

NEW_NAMESPACES = 0x7E020080
"""Every CLONE_NEW* flag that clone(2) takes: NS, CGROUP, UTS, IPC, USER, PID, NET, TIME."""

TERMINAL_REQUESTS = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they put characters into the input of a terminal."""

NEEDS_LIBSECCOMP = "install libseccomp2 (apt-get install libseccomp2) and the Python package pyseccomp"


@lru_cache(maxsize=1)
def filter_program() -> bytes:
    """The filter as a BPF program, as `bwrap --seccomp` reads it. Raises SandboxUnavailable without libseccomp."""
    try:
        import pyseccomp as scmp
    except (ImportError, RuntimeError) as error:
        raise SandboxUnavailable(f"no system-call filter: {error}", NEEDS_LIBSECCOMP) from error
    rules = scmp.SyscallFilter(scmp.ALLOW)
    refuse = scmp.ERRNO(errno.EPERM)
    for name in (name for names in REFUSED.values() for name in names):
        number = scmp.resolve_syscall(scmp.Arch.NATIVE, name)
        if number >= 0:  # negative: this machine has no such call
            rules.add_rule(refuse, number)
    for number in REFUSED_NUMBERS.get(os.uname().machine, ()):
        rules.add_rule(refuse, number)
    _refuse_by_argument(scmp, rules, refuse)
    return _export(rules)


def _refuse_by_argument(scmp, rules, refuse) -> None:  # type: ignore[no-untyped-def]  # pyseccomp has no types
    """clone with a new namespace, clone3 (its flags are out of a filter's sight; libc falls back), terminal input."""
    for bit in (1 << n for n in range(32) if NEW_NAMESPACES & (1 << n)):
        rules.add_rule(refuse, "clone", scmp.Arg(0, scmp.MASKED_EQ, bit, bit))
    rules.add_rule(scmp.ERRNO(errno.ENOSYS), "clone3")
    for request in TERMINAL_REQUESTS:
        rules.add_rule(refuse, "ioctl", scmp.Arg(1, scmp.MASKED_EQ, 0xFFFFFFFF, request))


def _export(rules) -> bytes:  # type: ignore[no-untyped-def]
    fd = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    with os.fdopen(fd, "rb") as program:
        rules.export_bpf(program)
        program.seek(0)
        return program.read()
