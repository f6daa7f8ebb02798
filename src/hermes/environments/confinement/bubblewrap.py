"""Bubblewrap as the maker of the namespaces, where the kernel trusts it and not us.

Some distributions let only known programs make user namespaces; bubblewrap is one of them. The
launcher then starts inside of it and puts up the other walls itself.

Bubblewrap's own first process would keep the environment it was started with, readable for all
in `/proc/1/environ`: it is started with an empty one, and the launcher takes its place.
"""

import os
import shutil
import tempfile
from pathlib import Path

from hermes.environments.confinement.plan import Plan

WHERE = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin"


def program() -> str | None:
    return shutil.which("bwrap", path=WHERE)


def argv(plan: Plan, launcher: list[str], package: str, first_file: int) -> list[str]:
    """`first_file` is the descriptor from which the contents of `plan.files` can be read."""
    words = [program() or "bwrap", "--as-pid-1", "--die-with-parent", "--new-session"]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--hostname", "sandbox", "--cap-drop", "ALL"]
    words += [] if plan.network else ["--unshare-net"]
    words += ["--unshare-user"] if plan.own_user_namespace else []
    if plan.uid >= 0:
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            words += ["--cap-add", capability]
    words += _mounts(plan, package)
    for place, (path, _) in enumerate(plan.files):
        words += ["--perms", "0644", "--file", str(first_file + place), path]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--", *launcher]


def _mounts(plan: Plan, package: str) -> list[str]:
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


def contents(plan: Plan) -> list[int]:
    """Descriptors from which bubblewrap reads the files made for the sandbox."""
    return [_readable(content) for _, content in plan.files]


def _readable(content: bytes) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())
