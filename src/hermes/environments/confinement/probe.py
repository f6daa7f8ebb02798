"""What this machine can give to a sandbox: for `hermes doctor`. Changes nothing."""

import sys
from pathlib import Path

from hermes.core.actions import KernelSupport
from hermes.core.messages import Value
from hermes.environments.confinement import bubblewrap, cgroups, kernel, landlock, seccomp
from hermes.environments.confinement.enforcement import SYS_ADMIN, SYS_PTRACE, has_capability


class Abilities(Value, kw_only=True, frozen=True):
    linux: bool
    architecture: str
    """Empty when we do not know its system calls."""
    landlock: int = 0
    """Version; 0 is none."""
    seccomp: bool = False
    bubblewrap: str = ""
    """Where it is; empty when it is not installed."""
    counts_memory: bool = False
    counts_processes: bool = False
    """Whether a cgroup can limit all processes of a sandbox together."""


def abilities() -> Abilities:
    machine = kernel.machine()
    known = machine if machine in kernel.COLUMNS else ""
    if not sys.platform.startswith("linux") or not known:
        return Abilities(linux=sys.platform.startswith("linux"), architecture=known)
    counted = cgroups.counted()
    return Abilities(
        linux=True,
        architecture=known,
        landlock=landlock.version(),
        seccomp=seccomp.available(),
        bubblewrap=bubblewrap.program() or "",
        counts_memory="memory" in counted,
        counts_processes="pids" in counted,
    )


def kernel_support() -> KernelSupport:
    """What can be told without trying: a container or another filter may still forbid it."""
    here = abilities()
    reason = ""
    if not here.linux:
        reason = "only Linux can confine a command"
    elif not here.architecture:
        reason = "the system calls of this architecture are not known"
    elif not here.landlock:
        reason = "the kernel has no Landlock, or it is not switched on"
    elif not here.seccomp:
        reason = "the kernel has no system-call filter"
    root = here.linux and not reason and has_capability(SYS_ADMIN)
    if not reason and not has_capability(SYS_PTRACE) and _ptrace_scope():
        reason = (
            "the supervisor of a command may not read its system calls: "
            "kernel.yama.ptrace_scope is not 0"
        )
    return KernelSupport(landlock=here.landlock, root=root, reason=reason)


def _ptrace_scope() -> int:
    """What Yama lets an ordinary user look into; 0 is every process of their own."""
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        return 0


def hopeless() -> str:
    """Why no sandbox can exist here at all; empty when it is worth trying."""
    here = abilities()
    if not here.linux:
        return "the sandbox needs Linux; use terminal.backend docker on this system"
    if not here.architecture:
        return f"the sandbox knows no system calls of {kernel.machine()}; use docker there"
    if not here.seccomp:
        return "the kernel was built without seccomp filters; use docker or a newer kernel"
    return ""
