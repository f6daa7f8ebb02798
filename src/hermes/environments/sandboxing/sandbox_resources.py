"""Opens a sandbox: its scratch folder, cgroup and launcher; replaces a lost launcher.

The scratch folder has the home, the shell state and, if necessary, the /tmp of the sandbox. Its
owner holds a lock on it. A folder without a lock was left by a process that was killed, and the
next process of Hermes removes it.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.environments import confinement
from hermes.environments.confinement import landlock
from hermes.environments.confinement.isolation import FIRST_CGROUP_DESCRIPTOR
from hermes.environments.confinement.messages import SandboxPlan
from hermes.environments.confinement.namespaces import NO_OWNER_MAPPING
from hermes.environments.sandboxing import cgroups, host_access, support
from hermes.environments.sandboxing.cgroups import SandboxCgroup
from hermes.environments.sandboxing.launcher_client import LauncherClient, launcher_argv
from hermes.environments.sandboxing.sandbox_records import SandboxRecords
from hermes.environments.settings import TerminalSettings

SCRATCH_PREFIX = "hermes-sandbox-"
SCRATCH_FOLDERS = ("home", "state", "tmp", "work")
UNLOCKED_GRACE_S = 60.0
"""Seconds in which a new folder may not be locked yet."""


class ScratchFolder:
    def __init__(self) -> None:
        remove_stale_scratch()
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for name in SCRATCH_FOLDERS:
            (Path(self.path) / name).mkdir(mode=0o700)

    def remove(self) -> None:
        _remove(self.path)
        os.close(self._lock)


def remove_stale_scratch() -> None:
    for left in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*"):
        with suppress(OSError):
            _remove_stale_in(left)


def _remove_stale_in(left: Path) -> None:
    fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if _is_ours(os.fstat(fd)):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(str(left))
    finally:
        os.close(fd)


def _is_ours(found: os.stat_result) -> bool:
    """In a shared folder, other users may have created folders for us to remove."""
    sandbox_user = host_access.is_root() and found.st_uid >= host_access.FIRST_UNUSED_UID
    private = (
        stat.S_IMODE(found.st_mode) == 0o700 and time.time() - found.st_mtime > UNLOCKED_GRACE_S
    )
    return private and (found.st_uid == os.geteuid() or sandbox_user)


def _remove(folder: str) -> None:
    with suppress(OSError):
        shutil.rmtree(folder)


CONFINEMENT_FOLDER = str(Path(confinement.__file__).parent)


def isolation_kinds() -> tuple[str, ...]:
    """The kinds of isolation for the current user, best first."""
    if host_access.is_root():
        return ("namespaces", "bubblewrap", "landlock")
    return ("bubblewrap", "namespaces", "landlock")


class SandboxOptions(Value, kw_only=True, frozen=True):
    """The grants and limits of a sandbox, independent of the kind of isolation."""

    scratch: str
    """A folder for it alone, with home, shell state and so on."""
    writable: tuple[str, ...] = ()
    """Real paths of folders outside of `scratch`."""
    readable: tuple[str, ...] = ()
    network: bool = False
    memory: int = 0
    processes: int = 0
    cpu_seconds: int = 0
    file_size: int = 0
    total_size: int = 0


class OpenedSandbox(Value, frozen=True):
    """The launcher, and the plan to open the same sandbox again."""

    launcher: LauncherClient
    plan: SandboxPlan


async def open_isolated(
    options: SandboxOptions, cgroup: SandboxCgroup, kinds: Sequence[str]
) -> OpenedSandbox:
    """Raises `EnvironmentFailed` with what is missing and what to do."""
    reasons = []
    user = host_access.find_unused_uid() if host_access.is_root() else -1
    for kind in kinds:
        problem = find_missing_support(kind) or _find_exposure(options)
        for uid in (user, -1) if user >= 0 else (-1,):
            if problem and NO_OWNER_MAPPING not in problem:
                break
            problem = _find_unbounded(options, kind, uid, cgroup)
            if not problem:
                plan = _build_plan(options, kind, uid, cgroup)
                launcher, problem = await open_launcher(plan, cgroup)
                if not problem:
                    return OpenedSandbox(launcher, plan)
        reasons.append(f"with {kind}: {problem}")
    raise EnvironmentFailed(
        f"no sandbox can be made here. {'; '.join(reasons)}. {NO_ISOLATION_ADVICE}"
    )


NO_ISOLATION_ADVICE = (
    "Allow user namespaces (sysctl user.max_user_namespaces, or "
    "kernel.apparmor_restrict_unprivileged_userns=0), or install bubblewrap, or run Linux 6.12 "
    "with Landlock switched on; or choose another terminal.backend, such as docker"
)


def find_missing_support(kind: str) -> str:
    """Checks without trying it."""
    if kind not in isolation_kinds():
        return "unknown kind of isolation"
    if kind == "bubblewrap" and support.find_bubblewrap() is None:
        return "bwrap is not installed (apt install bubblewrap)"
    if kind == "landlock" and landlock.landlock_version() < landlock.VERSION_WITH_SCOPES:
        return f"the kernel has Landlock {landlock.landlock_version() or 'not at all'}, 6 is needed"
    return ""


def _find_exposure(options: SandboxOptions) -> str:
    if options.network and landlock.landlock_version() < landlock.VERSION_WITH_SCOPES:
        return (
            "with terminal.network, only Landlock 6 (Linux 6.12) keeps the abstract sockets of "
            "other programs out of reach"
        )
    return ""


def _find_unbounded(options: SandboxOptions, kind: str, uid: int, cgroup: SandboxCgroup) -> str:
    """The limit on processes does not apply to user 0; see `host_access`."""
    if uid >= 0:
        if kind != "namespaces" and options.writable:
            return f"{NO_OWNER_MAPPING}: only namespaces of our own can"
        return ""
    if host_access.is_root() and not host_access.is_mapped_root() and not cgroup.processes:
        return (
            "root's processes cannot be limited here: no cgroup can be made for them. Start "
            "Hermes as an ordinary user, or without a working folder of your own"
        )
    return ""


def _build_plan(options: SandboxOptions, kind: str, uid: int, cgroup: SandboxCgroup) -> SandboxPlan:
    plan = SandboxPlan()
    plan.isolation = kind
    plan.uid = plan.gid = uid
    plan.own_user_namespace = not host_access.is_root()
    system = host_access.find_system_files(network=options.network)
    plan.links = system.links
    plan.writable = (options.scratch, *options.writable)
    plan.readable = tuple(dict.fromkeys((*system.paths, *options.readable)))
    _give_scratch_to(options.scratch, uid)
    if uid >= 0:
        plan.owners = host_access.foreign_owners(options.writable, uid)
    who = (os.getuid(), os.getgid()) if uid < 0 else (uid, uid)
    plan.files = host_access.identity_files(*who, f"{options.scratch}/home")
    if kind != "landlock":
        plan.files += system.files
        copied = {path for path, _ in system.files}
        plan.readable = tuple(path for path in plan.readable if path not in copied)
    plan.network = options.network
    plan.cgroups = len(cgroup.folders) if kind == "bubblewrap" else 0
    plan.counted_memory = cgroup.memory
    plan.memory, plan.processes = options.memory, options.processes
    plan.cpu_seconds, plan.file_size = options.cpu_seconds, options.file_size
    plan.total_size, plan.opened_ns = options.total_size, time.time_ns()
    return plan


def _give_scratch_to(scratch: str, uid: int) -> None:
    """Only before anything ran there: later, other users could redirect a path that root uses."""
    if host_access.is_root():
        owner = max(uid, 0)
        for folder in (scratch, *(str(each) for each in Path(scratch).iterdir())):
            os.chown(folder, owner, owner, follow_symlinks=False)


async def open_launcher(plan: SandboxPlan, cgroup: SandboxCgroup) -> tuple[LauncherClient, str]:
    """A new launcher for the plan, and what went wrong (then the launcher is closed)."""
    files: list[int] = []
    argv = launcher_argv()
    try:
        if plan.isolation == "bubblewrap":
            files = [os.open(entry, os.O_WRONLY) for entry in cgroup.entries]
            argv = support.bubblewrap_argv(
                plan, argv, CONFINEMENT_FOLDER, FIRST_CGROUP_DESCRIPTOR + len(files)
            )
            files += support.open_made_files(plan)
        launcher = LauncherClient(argv, files)
    finally:
        for fd in files:
            os.close(fd)
    try:
        if plan.isolation != "bubblewrap":
            await cgroups.join_cgroup(cgroup, launcher.pid)
        problem = await launcher.open(plan)
    except BaseException:
        await launcher.close()
        raise
    if problem:
        await launcher.close()
    return launcher, problem


MEBIBYTE_BYTES = 1 << 20


class SandboxResources:
    """Opened once; a lost launcher is replaced by another with the same plan."""

    def __init__(
        self,
        directory: Path | None,
        settings: TerminalSettings,
        isolation: tuple[str, ...],
        records: SandboxRecords | None = None,
    ) -> None:
        self._given = directory
        self._records = records
        self._record: Path | None = None
        self._settings = settings
        self._isolation = isolation
        self._cgroup = SandboxCgroup()
        self._plan: SandboxPlan | None = None
        self._launcher: LauncherClient | None = None
        self._lock = anyio.Lock()
        self._folder: ScratchFolder | None = None
        self.directory = ""

    async def __aenter__(self) -> Self:
        granted = (str(self._given),) if self._given is not None else ()
        own = host_access.resolve_grants(granted, writable=True)
        self._folder = await to_thread.run_sync(ScratchFolder)
        try:
            self.directory = own[0] if own else f"{self.scratch}/work"
            options = self._options(own)
            if self._records is not None:
                self._record = self._records.record_opened(options.writable)
            self._cgroup = cgroups.create_cgroup(memory=options.memory, processes=options.processes)
            opened = await open_isolated(
                options, self._cgroup, self._isolation or isolation_kinds()
            )
        except BaseException:
            await self.close()
            raise
        self._launcher, self._plan = opened.launcher, opened.plan
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def _options(self, own: tuple[str, ...]) -> SandboxOptions:
        settings = self._settings
        return SandboxOptions(
            scratch=self.scratch,
            writable=tuple(
                dict.fromkeys(own + host_access.resolve_grants(settings.writable, writable=True))
            ),
            readable=host_access.resolve_grants(settings.readable, writable=False),
            network=settings.network,
            memory=settings.memory_mb * MEBIBYTE_BYTES,
            processes=settings.processes,
            cpu_seconds=settings.cpu_seconds,
            file_size=settings.file_mb * MEBIBYTE_BYTES,
            total_size=settings.total_mb * MEBIBYTE_BYTES,
        )

    @property
    def scratch(self) -> str:
        return "" if self._folder is None else self._folder.path

    @property
    def isolation(self) -> str:
        """The kind of isolation in use."""
        return "" if self._plan is None else self._plan.isolation

    @property
    def user(self) -> str:
        stays_root = os.getuid() == 0 and self._plan is not None and self._plan.uid < 0
        return "root" if stays_root else "sandbox"

    @property
    def temporary(self) -> str:
        """Without a mount namespace, /tmp is shared with all users."""
        return f"{self.scratch}/tmp" if self.isolation == "landlock" else "/tmp"

    async def launcher(self) -> LauncherClient:
        """A running launcher; starts a new one if necessary."""
        async with self._lock:
            if self._launcher is None:
                if self._plan is None:
                    raise EnvironmentFailed("the environment is not open")
                launcher, problem = await open_launcher(self._plan, self._cgroup)
                if problem:
                    raise EnvironmentFailed(f"the sandbox could not be started again: {problem}")
                self._launcher = launcher
            return self._launcher

    async def discard_launcher(self, launcher: LauncherClient) -> None:
        """Closes a launcher that failed, and ends what ran in it."""
        async with self._lock:
            if self._launcher is launcher:
                self._launcher = None
                await launcher.close()
                await cgroups.kill_members(self._cgroup)

    async def close(self) -> None:
        self._plan = None
        with anyio.CancelScope(shield=True):
            if self._launcher is not None:
                await self._launcher.close()
                self._launcher = None
            await cgroups.kill_members(self._cgroup)
            await cgroups.remove_cgroup(self._cgroup)
            if self._records is not None:
                self._records.record_closed(self._record)
            if self._folder is not None:
                await to_thread.run_sync(self._folder.remove)
                self._folder = None
