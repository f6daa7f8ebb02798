"""The plan of a box, and the protocol of what runs one: a local process or a container."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class HostPlan:
    """One host. Holds only types that `marshal` can write: box init has no other library."""

    name: str = "host"
    address: str = ""
    """In the network of a box with several hosts; empty for a single host."""
    disk_mb: int = 192
    disks: tuple[tuple[str, int, int], ...] = ()
    """Folders that are small file systems: (path, megabytes, inodes or 0)."""
    folders: tuple[tuple[str, int, int], ...] = ()
    """(path, mode, uid), in order."""
    files: tuple[tuple[str, bytes, int, int], ...] = ()
    """(path, content, mode, uid)."""
    links: tuple[tuple[str, str], ...] = ()
    """(path, target), made after the files."""
    minute: float = 60.0
    """Length of a minute for its cron, in seconds."""
    boot: str = ""
    """A script that starts another supervisor or plain daemons. The host then has no systemctl of
    ours; its first process only runs cron."""
    started_units: tuple[str, ...] = ()
    """Units to start with the host, besides the enabled ones."""
    services: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The only units of a copy of this machine: names, and lines as in a unit of systemd."""
    counted_memory: bool = True
    """False for a copy of this machine without a cgroup that limits its memory."""
    variables: tuple[tuple[str, str], ...] = ()
    """Of commands, in addition to the usual ones."""


class BoxPlan:
    hosts: tuple[dict[str, object], ...] = ()
    readable: tuple[str, ...] = ()
    """Folders and files of the real machine that hosts see at the same path, read-only."""
    links: tuple[tuple[str, str], ...] = ()
    common: tuple[tuple[str, bytes], ...] = ()
    """Small files of the real machine that are copied to every host; `HostPlan.files` win."""
    tls: bool = False
    """Whether a check uses TLS; loading it costs 30 ms."""
    processes: int = 512
    memory_mb: int = 768
    copied_pids: tuple[int, ...] = ()
    """The first processes of the hosts of another box. This box is then a copy of that one."""
    copies_machine: bool = False
    """Whether the only host is a copy of this machine."""
    own_users: bool = False
    """Whether its mounts need a user namespace first, as for an ordinary user."""
    hidden: tuple[str, ...] = ()
    """Files of this machine that appear empty in the copy."""
    omitted: tuple[str, ...] = ()
    """Folders of this machine that appear empty in the copy."""
    databases: tuple[str, ...] = ()
    """Folders of databases in use that are small enough to be copied."""
    watched_memory_mb: int = 0
    """The memory of a copy that box init checks itself: no cgroup does."""
    cgroups: tuple[str, ...] = ()
    """Folders of cgroups to remove when Hermes was killed."""
    time_s: float = 0.0
    """After this time the box ends; 0 for never."""


def host_plan_from_fields(fields: dict[str, object]) -> HostPlan:
    plan = HostPlan()
    vars(plan).update(fields)
    return plan


class BoxBackend(Protocol):
    @property
    def label(self) -> str:
        """Unique among all boxes."""
        ...

    async def check_available(self) -> None:
        """Raises `EnvironmentFailed` when this machine cannot start programs on the hosts."""
        ...

    async def request(self, body: dict[str, Any]) -> dict[str, Any]:
        """See `host_requests`. Raises `EnvironmentFailed` when the box has ended."""
        ...

    async def start_request(self, body: dict[str, Any]) -> None:
        """A request that runs until the box ends and has no reply."""
        ...

    def request_now(self, body: dict[str, Any]) -> dict[str, Any]:
        """A short request, without giving way to other tasks."""
        ...

    @property
    def copied_pids(self) -> tuple[int, ...]:
        """See `BoxPlan`; empty where a box cannot be copied."""
        ...

    def host_command(self, host: int, argv: Sequence[str], *, terminal: bool = False) -> list[str]:
        """The command on this machine that starts `argv` on a host."""
        ...


BoxOpener = Callable[[BoxPlan], AbstractAsyncContextManager[BoxBackend]]
"""Opens a box and removes it when the context ends. Fills in the system paths of the plan."""
