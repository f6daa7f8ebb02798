"""Finds out which kinds of isolation this machine supports, and how to start bubblewrap.

Some distributions let only certain programs make user namespaces; bubblewrap is one of them. The
launcher then starts inside of it and adds the other restrictions itself.

Bubblewrap's own first process would show its environment in `/proc/1/environ`: so it is started
with an empty one, and the launcher replaces it.
"""

import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from msgspec import structs

from hermes.core.actions import KernelSupport
from hermes.core.messages import Value
from hermes.environments.confinement import kernel, landlock, seccomp
from hermes.environments.confinement.enforcement import (
    CAP_SYS_ADMIN,
    CAP_SYS_PTRACE,
    VerdictEnforcer,
    has_capability,
)
from hermes.environments.confinement.messages import SandboxPlan
from hermes.environments.sandboxing import cgroups
from hermes.environments.sandboxing.root_commands import add_root_commands

BUBBLEWRAP_SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin"


def find_bubblewrap() -> str | None:
    return shutil.which("bwrap", path=BUBBLEWRAP_SEARCH_PATH)


def bubblewrap_argv(
    plan: SandboxPlan, launcher: list[str], package: str, first_file: int
) -> list[str]:
    """`first_file` is the descriptor from which the contents of `plan.files` can be read."""
    words = [find_bubblewrap() or "bwrap", "--as-pid-1", "--die-with-parent", "--new-session"]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--hostname", "sandbox", "--cap-drop", "ALL"]
    words += [] if plan.network else ["--unshare-net"]
    words += ["--unshare-user"] if plan.own_user_namespace else []
    if plan.uid >= 0:
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            words += ["--cap-add", capability]
    words += _mount_options(plan, package)
    for index, (path, _) in enumerate(plan.files):
        words += ["--perms", "0644", "--file", str(first_file + index), path]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--", *launcher]


def _mount_options(plan: SandboxPlan, package: str) -> list[str]:
    words = ["--dev", "/dev", "--proc", "/proc", "--dir", "/run"]
    for folder in ("/dev/shm", "/tmp"):
        size = ["--size", str(plan.file_size)] if plan.file_size else []
        words += ["--perms", "1777", *size, "--tmpfs", folder]
    words += ["--symlink", "/tmp", "/var/tmp", "--symlink", "/proc/self/mounts", "/etc/mtab"]
    for path, target in plan.links:
        words += ["--symlink", target, path]
    kinds = {path: "--ro-bind" for path in (*plan.readable, package) if Path(path).exists()}
    kinds |= {path: "--bind" for path in plan.writable}
    for path in sorted(kinds):
        words += [kinds[path], path, path]
    return words


def open_made_files(plan: SandboxPlan) -> list[int]:
    """Descriptors from which bubblewrap reads the files created for the sandbox."""
    return [_memory_file(content) for _, content in plan.files]


def _memory_file(content: bytes) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())


class SandboxSupport(Value, kw_only=True, frozen=True):
    linux: bool
    architecture: str
    """Empty when its system calls are unknown."""
    landlock: int = 0
    """The version; 0 is none."""
    seccomp: bool = False
    bubblewrap: str = ""
    """The path; empty when it is not installed."""
    counts_memory: bool = False
    counts_processes: bool = False
    """Whether a cgroup can limit all processes of a sandbox together."""


def probe_sandbox_support() -> SandboxSupport:
    machine = kernel.machine()
    known = machine if machine in kernel.SYSCALL_COLUMNS else ""
    if not sys.platform.startswith("linux") or not known:
        return SandboxSupport(linux=sys.platform.startswith("linux"), architecture=known)
    counted = cgroups.available_controllers()
    return SandboxSupport(
        linux=True,
        architecture=known,
        landlock=landlock.landlock_version(),
        seccomp=seccomp.is_available(),
        bubblewrap=find_bubblewrap() or "",
        counts_memory="memory" in counted,
        counts_processes="pids" in counted,
    )


def kernel_support() -> KernelSupport:
    """Checked without trying it: a container or another filter may still forbid it."""
    here = probe_sandbox_support()
    reason = ""
    if not here.linux:
        reason = "only Linux can confine a command"
    elif not here.architecture:
        reason = "the system calls of this architecture are not known"
    elif not here.landlock:
        reason = "the kernel has no Landlock, or it is not switched on"
    elif not here.seccomp:
        reason = "the kernel has no system-call filter"
    root = here.linux and not reason and has_capability(CAP_SYS_ADMIN)
    if not reason and not has_capability(CAP_SYS_PTRACE) and _ptrace_scope():
        reason = (
            "the supervisor of a command may not read its system calls: "
            "kernel.yama.ptrace_scope is not 0"
        )
    return KernelSupport(landlock=here.landlock, root=root, reason=reason)


def try_kernel_support() -> KernelSupport:
    """As `kernel_support`, tried in a child process. Not for a process with threads."""
    found = add_root_commands(kernel_support())
    if found.reason:
        return found
    server = import_module("hermes.environments.confinement.fork_server")  # rarely needed
    reason, visible = server.check_confinement(VerdictEnforcer())
    return structs.replace(found, reason=reason, visible_secrets=visible)


def _ptrace_scope() -> int:
    """Return which processes Yama lets an ordinary user inspect; 0 is all of that user."""
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        return 0


def no_sandbox_reason() -> str:
    """Return why no sandbox is possible here; empty when it may be."""
    here = probe_sandbox_support()
    if not here.linux:
        return "the sandbox needs Linux; use terminal.backend docker on this system"
    if not here.architecture:
        return f"the sandbox knows no system calls of {kernel.machine()}; use docker there"
    if not here.seccomp:
        return "the kernel was built without seccomp filters; use docker or a newer kernel"
    return ""
