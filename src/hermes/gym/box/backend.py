"""What one box is made of, worked out outside and handed to its warden in one message."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class HostPlan:
    """One machine. Only what `marshal` can carry, so that the warden needs no library."""

    name: str = "host"
    address: str = ""
    """Of its own in the network of a box of several; empty when it stands alone."""
    disk_mb: int = 192
    disks: tuple[tuple[str, int], ...] = ()
    """Folders with a small file system of their own: (path, megabytes)."""
    folders: tuple[tuple[str, int, int], ...] = ()
    """(path, mode, uid), in order."""
    files: tuple[tuple[str, bytes, int, int], ...] = ()
    """(path, content, mode, uid)."""
    minute: float = 60.0
    """Seconds that its cron takes for a minute."""


class BoxPlan:
    hosts: tuple[dict[str, object], ...] = ()
    readable: tuple[str, ...] = ()
    """Folders and files of the real machine, found inside under the same name, read-only."""
    links: tuple[tuple[str, str], ...] = ()
    common: tuple[tuple[str, bytes], ...] = ()
    """Small files of the real machine that every host has, unless it brings its own."""
    tls: bool = False
    """Whether anybody will ask behind TLS; costs 30 ms."""
    processes: int = 512
    memory_mb: int = 768


def host_plan_from_fields(fields: dict[str, object]) -> HostPlan:
    plan = HostPlan()
    vars(plan).update(fields)
    return plan


class BoxBackend(Protocol):
    @property
    def label(self) -> str:
        """Names this box among all others."""
        ...

    async def check_available(self) -> None:
        """Raises `EnvironmentFailed` when no program can be started inside from here."""
        ...

    async def request(self, body: dict[str, Any]) -> dict[str, Any]:
        """See `deeds`. Raises `EnvironmentFailed` when the box has ended."""
        ...

    async def start_request(self, body: dict[str, Any]) -> None:
        """Something that goes on until the box ends, and has no answer."""
        ...

    def host_command(self, host: int, argv: Sequence[str], *, terminal: bool = False) -> list[str]:
        """A command of this machine that starts `argv` on a host."""
        ...


BoxOpener = Callable[[BoxPlan], AbstractAsyncContextManager[BoxBackend]]
"""Makes a box of a plan that says nothing yet of the system around it; gone when it is left."""
