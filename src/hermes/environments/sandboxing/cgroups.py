"""Limits memory and processes of a whole sandbox with cgroups (versions 1 and 2), if permitted.

Resource limits apply to single processes (and, for user 0, not to their number); a cgroup counts
all of them together. Where none can be created, the launcher checks the memory itself.
"""

import contextlib
import os
import secrets
import signal
from pathlib import Path

import anyio
from anyio import to_thread

from hermes.core.messages import Value

OWN_PROC_FOLDER = Path("/proc/self")
CGROUP_PREFIX = "hermes-sandbox-"
SANDBOX_OVERHEAD_PROCESSES = 4
"""Processes besides the commands: the launcher, outside and inside, and two supervisors."""


class SandboxCgroup(Value, frozen=True):
    """The cgroup folders of one sandbox, in one or more hierarchies."""

    folders: tuple[str, ...] = ()
    memory: bool = False
    processes: bool = False

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(f"{folder}/cgroup.procs" for folder in self.folders)


def create_cgroup(*, memory: int, processes: int, own: Path = OWN_PROC_FOLDER) -> SandboxCgroup:
    """Limits as much as possible; the result may have no folders."""
    name = f"{CGROUP_PREFIX}{_process_namespace()}-{os.getpid()}-{secrets.token_hex(4)}"
    made = SandboxCgroup()
    for folder, controllers in _parent_folders(own).items():
        limits = _limit_files(folder, controllers, memory, processes)
        if limits and _create_folder(folder / name, limits):
            made = SandboxCgroup(
                (*made.folders, str(folder / name)),
                made.memory or "memory" in controllers,
                made.processes or "pids" in controllers,
            )
    return made


async def join_cgroup(cgroup: SandboxCgroup, pid: int) -> None:
    """Moves a process into the cgroup. The kernel may take a moment for that."""
    await to_thread.run_sync(_join, cgroup.entries, pid)


def _join(entries: tuple[str, ...], pid: int) -> None:
    for entry in entries:
        Path(entry).write_text(str(pid))


async def kill_members(cgroup: SandboxCgroup) -> None:
    """Kills the remaining processes, after the launcher was killed."""
    for _ in range(200):
        left = {pid for entry in cgroup.entries for pid in _members(entry)}
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        await anyio.sleep(0.01)


def _members(entry: str) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(line) for line in Path(entry).read_text().split()]
    return []


async def remove_cgroup(cgroup: SandboxCgroup) -> None:
    """A folder can be removed once its last process is gone, which may take a moment."""
    for folder in cgroup.folders:
        for pause in (0.0, 0.002, 0.01, 0.05, 0.2, 1.0):
            await anyio.sleep(pause)
            if _try_remove(Path(folder)):
                break


def _try_remove(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def available_controllers() -> set[str]:
    """Return which of memory and pids could be limited; creates nothing."""
    return {
        controller
        for folder, controllers in _parent_folders(OWN_PROC_FOLDER).items()
        for controller in controllers
        if os.access(folder, os.W_OK)
    }


def _parent_folders(own: Path) -> dict[Path, set[str]]:
    """Folders in which a group may be created, with their controllers."""
    found: dict[Path, set[str]] = {}
    mounted = _hierarchies(own)
    with contextlib.suppress(OSError):
        for line in (own / "cgroup").read_text().splitlines():
            _, names, group = line.split(":", 2)
            for controller in names.split(",") if names else [""]:
                if controller in ("", "memory", "pids") and controller in mounted:
                    root, mount = mounted[controller]
                    _add_folder(found, controller, mount, _relative_group(group, root))
    return found


def _relative_group(group: str, root: str) -> str:
    """In a container, only a part of the hierarchy may be mounted."""
    return group.removeprefix(root.rstrip("/")).strip("/")


def _add_folder(found: dict[Path, set[str]], controller: str, mount: Path, group: str) -> None:
    here = mount / group
    if controller:
        found.setdefault(here, set()).add(controller)
        return
    # Version 2: only a group without own processes has children with limits. Ours has this
    # process, so the new group becomes a sibling; at the root it may be a child.
    for folder in (here, here.parent) if group else (here,):
        with contextlib.suppress(OSError):
            given = set((folder / "cgroup.subtree_control").read_text().split())
            if given & {"memory", "pids"} and os.access(folder / "cgroup.procs", os.W_OK):
                found.setdefault(folder, set()).update(given & {"memory", "pids"})
                return


def _hierarchies(own: Path) -> dict[str, tuple[str, Path]]:
    """Controller, or "" for version 2, to (root of the mount, where it is mounted)."""
    found: dict[str, tuple[str, Path]] = {}
    with contextlib.suppress(OSError):
        for line in (own / "mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            root, mount = before.split()[3:5]
            kind, _, options = after.split(" ", 2)
            if kind == "cgroup2":
                found[""] = (root, Path(mount))
            elif kind == "cgroup":
                for controller in {"memory", "pids"} & set(options.split(",")):
                    found[controller] = (root, Path(mount))
    return found


def _limit_files(
    folder: Path, controllers: set[str], memory: int, processes: int
) -> dict[str, str]:
    second = (folder / "cgroup.controllers").exists()
    limits: dict[str, str] = {}
    if "memory" in controllers and memory:
        limits["memory.max" if second else "memory.limit_in_bytes"] = str(memory)
        # No swap, which would only slow the processes down; not every kernel counts it.
        limits["?memory.swap.max" if second else "?memory.memsw.limit_in_bytes"] = (
            "0" if second else str(memory)
        )
    if "pids" in controllers and processes:
        limits["pids.max"] = str(processes + SANDBOX_OVERHEAD_PROCESSES)
    return limits


def _create_folder(folder: Path, limits: dict[str, str]) -> bool:
    _remove_stale_groups(folder.parent)
    try:
        folder.mkdir()
        for name, value in limits.items():
            file = folder / name.removeprefix("?")
            if not name.startswith("?") or file.exists():
                file.write_text(value)
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return False
    return True


def _remove_stale_groups(parent: Path) -> None:
    """Removes empty folders of processes of Hermes that were killed. Those of other namespaces are
    left alone: whether their processes run cannot be seen from here."""
    own = f"{CGROUP_PREFIX}{_process_namespace()}-"
    with contextlib.suppress(OSError):
        for left in list(parent.glob(f"{own}*")):
            maker = left.name.removeprefix(own).partition("-")[0]
            if not Path(f"/proc/{maker}").exists():
                with contextlib.suppress(OSError):  # its last process is still ending
                    left.rmdir()


def _process_namespace() -> str:
    """The number of the namespace in which process ids are valid; 0 where it is not known."""
    try:
        return Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        return "0"
