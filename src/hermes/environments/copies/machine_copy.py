"""Copies of this machine, as root or as an ordinary user."""

import os
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from anyio import to_thread

from hermes.core.errors import EnvironmentFailed
from hermes.environments.boxes.backend import BoxOpener, HostPlan
from hermes.environments.boxes.box import Box
from hermes.environments.boxes.copied_hosts import size_mb
from hermes.environments.boxes.local_backend import open_forkserver, open_local_box
from hermes.environments.boxes.machine_root import MAX_DATABASE_MB, PROGRAM_FOLDER
from hermes.environments.boxes.unit_files import HOST_PATH
from hermes.environments.confinement.copied_root import FRESH_FOLDERS
from hermes.environments.confinement.hidden_files import ACCOUNT_FILES, find_hidden_files
from hermes.environments.copies import (
    DEFAULT_LIMITS,
    CannotCopyError,
    CopyLimits,
    CopyService,
)
from hermes.environments.copies.box_copy import BoxCopy
from hermes.environments.copies.packet_filter import WHAT, load_rules, read_local_rules
from hermes.environments.sandboxing import cgroups
from hermes.environments.sandboxing.host_access import is_root

HIDDEN_CREDENTIALS = (
    "~/.ssh/id_*",
    "~/.pgpass",
    "~/.my.cnf",
    "~/.mylogin.cnf",
    "~/.netrc",
    "~/.aws/credentials",
    "~/.kube/config",
    "~/.docker/config.json",
    "~/.git-credentials",
    "~/.vault-token",
    "~/.config/gcloud/*credentials*",
)
"""As in the policy's table of places: keys of people, which no service needs."""
DATABASE_PROGRAMS = ("postgres", "mysqld", "mariadbd", "redis-server", "mongod")
DATABASE_MARKS = ("PG_VERSION", "ibdata1", "appendonlydir", "dump.rdb", "WiredTiger")
NO_OVERLAY = (
    "this machine cannot mount an overlay: load the kernel module (`modprobe overlay`), "
    "or run Hermes where it may"
)
NO_NAMESPACES = (
    "this machine does not allow the namespaces of a copy: run Hermes as root, or set "
    "user.max_user_namespaces, and kernel.apparmor_restrict_unprivileged_userns=0 where it exists"
)
NO_PROCESS_LIMIT = (
    "the processes of a copy cannot be limited here: as root a cgroup is needed; mount one that "
    "can be written (in a container: --cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw), "
    "or run Hermes as an ordinary user"
)


async def copy_machine(
    limits: CopyLimits = DEFAULT_LIMITS,
    *,
    units: Sequence[CopyService] = (),
    hidden: Sequence[str] = (),
    cwd: str = "/",
    opener: BoxOpener = open_local_box,
) -> BoxCopy:
    """`hidden` are further files that appear empty. Raises `CannotCopyError`."""
    if is_root() and "pids" not in cgroups.available_controllers():
        raise CannotCopyError(NO_PROCESS_LIMIT)
    host = HostPlan()
    host.name = socket.gethostname()
    host.disk_mb = limits.disk_mb
    host.variables = (("PATH", f"{PROGRAM_FOLDER}:{HOST_PATH}"), ("HOME", str(Path.home())))
    host.services = tuple((_unit_name(each.name), each.definition) for each in units)
    host.started_units = tuple(_unit_name(each.name) for each in units if each.running)
    secrets = await to_thread.run_sync(_find_secrets, hidden)
    small, large = await to_thread.run_sync(_find_databases)
    rules, why = await read_local_rules()
    box = Box([host], memory_mb=limits.memory_mb, processes=limits.processes, opener=opener)
    box.plan.copies_machine = True
    box.plan.hidden, box.plan.time_s = secrets, limits.time_s
    box.plan.databases, box.plan.omitted = small, large
    try:
        await box.__aenter__()
    except EnvironmentFailed as error:
        raise CannotCopyError(explain_failure(str(error))) from error
    copy = BoxCopy(box, 0, limits, cwd=cwd)  # all units are under its own systemctl
    copy.rules_left_out = (f"{WHAT}: {why}",) if why else await load_rules(box, rules)
    return copy


class MachineCopier:
    """Makes many copies of this machine: from the second one on without starting a Python."""

    def __init__(self, *, hidden: Sequence[str], cwd: str) -> None:
        self._hidden, self._cwd = hidden, cwd
        self._stack = AsyncExitStack()
        self._opener: BoxOpener | None = None
        self._copies: list[BoxCopy] = []

    async def copy(self, limits: CopyLimits, units: Sequence[CopyService]) -> BoxCopy:
        """Raises `CannotCopyError`."""
        if self._opener is None:
            self._opener = await self._stack.enter_async_context(open_forkserver())
        made = await copy_machine(
            limits, units=units, hidden=self._hidden, cwd=self._cwd, opener=self._opener
        )
        self._copies.append(made)
        return made

    async def close(self) -> None:
        """Also ends the copies that are still open."""
        for each in self._copies:
            await each.close()
        await self._stack.aclose()


def _unit_name(name: str) -> str:
    return name if name.endswith(".service") else f"{name}.service"


def explain_failure(error: str) -> str:
    if "No such device" in error:
        return f"{NO_OVERLAY} ({error})"
    if "ermitted" in error or "unshare" in error or "No space left" in error:
        return f"{NO_NAMESPACES} ({error})"
    return error


def _find_secrets(hidden: Sequence[str]) -> tuple[str, ...]:
    existing = [os.path.realpath(path) for path in hidden if Path(path).is_file()]
    secrets = find_hidden_files((*ACCOUNT_FILES, *HIDDEN_CREDENTIALS), ())
    return tuple(dict.fromkeys((*secrets, *existing)))


def _find_databases() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Folders of databases that run now, small and large ones: read from below, their files do not
    fit together. Small ones are copied at a moment in which nothing is written."""
    folders = _database_folders()
    small = tuple(each for each in folders if size_mb(each) <= MAX_DATABASE_MB)
    return small, tuple(each for each in folders if each not in small)


def _database_folders() -> list[str]:
    found = set()
    for pid in (each for each in os.listdir("/proc") if each.isdigit()):  # noqa: PTH208 - faster
        try:
            with open(f"/proc/{pid}/comm") as file:  # noqa: PTH123 - faster
                if file.read().strip() not in DATABASE_PROGRAMS:
                    continue
            process = Path(f"/proc/{pid}")
            paths = [(process / "cwd").readlink()]
            if not _is_database(paths[0]):  # most work in the folder of their data
                paths = [each.readlink() for each in (process / "fd").iterdir()]
        except OSError:
            continue
        for path in {each for each in paths if each.is_absolute()}:
            folders = [path, *list(path.parents)[:3]]
            found |= {str(each) for each in folders if _is_database(each)}
    fresh = tuple(f"{each}/" for each in FRESH_FOLDERS)
    kept = [each for each in found if not each.startswith(fresh)]
    inner = tuple(f"{each}/" for each in kept)
    return sorted(each for each in kept if not each.startswith(inner))


def _is_database(folder: Path) -> bool:
    if folder.is_relative_to("/dev"):
        return False
    try:
        return any((folder / mark).exists() for mark in DATABASE_MARKS)
    except OSError:
        return False
