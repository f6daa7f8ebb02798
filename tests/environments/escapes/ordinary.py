"""Turns root into an ordinary user who can still reach the interpreter this runs on."""

import os
import sys
from pathlib import Path

from hermes.environments.confinement import kernel, namespaces

UID = 54321


def closed_above(path: Path) -> Path | None:
    """The first folder on the way to `path` that others may not pass."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


def become_ordinary() -> None:
    needed = {Path(sys.base_prefix).resolve(), Path(sys.prefix), Path(__file__).parents[3]}
    needed = {path for path in needed if closed_above(path)}
    if needed:
        # In a mount namespace of our own, what is in the way is covered by an open folder.
        kernel.system_call("unshare", namespaces.CLONE_NEW_MOUNTS)
        namespaces.make_mounts_private()
        taken = [(path, namespaces.clone_mount(str(path), 0)) for path in sorted(needed)]
        for folder in {closed_above(path) for path in needed}:
            namespaces.mount("tmpfs", str(folder), 0, "mode=755")
        for path, fd in taken:
            path.mkdir(parents=True, exist_ok=True)
            namespaces.attach_mount(fd, str(path))
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
