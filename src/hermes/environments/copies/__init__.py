"""Copies of a host: what a copy offers, its limits, and why a host cannot be copied.

A copy sees the files of its host through an overlay and cannot change them. It has its own
processes and network, and it ends with the process that made it.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeGuard

from hermes.core.errors import HermesError
from hermes.core.messages import Value


class CannotCopyError(HermesError):
    """The host cannot be copied. The text says why, and what would make it possible."""


class CopyLimits(Value, frozen=True):
    memory_mb: int = 512
    disk_mb: int = 512
    processes: int = 256
    time_s: float = 120.0
    """After this time the copy ends, whatever runs in it."""


DEFAULT_LIMITS = CopyLimits()


class CopyOutput(Value, frozen=True):
    code: int
    output: str
    timed_out: bool = False


class CopyService(Value, kw_only=True, frozen=True):
    """A service that the copy can start, as its supervisor effectively runs it."""

    name: str
    definition: tuple[str, ...] = ()
    """Lines as in a unit of systemd: ExecStart=, User=, EnvironmentFile= and others."""
    running: bool = False
    """Whether it runs when the copy is made: it is then started with the copy."""
    restart: str = ""
    """The command that restarts it, where the copy has the supervisor of its host."""
    stop: str = ""
    """The command that stops it, in the same way."""


class HostCopy(Protocol):
    @property
    def left_out(self) -> tuple[str, ...]:
        """What the copy does not contain, in words."""
        ...

    async def run(
        self, command: str, *, timeout_s: float = 30.0, stdin: bytes = b""
    ) -> CopyOutput: ...

    async def run_nft(self, *words: str) -> CopyOutput:
        """Calls nft for the packet filter of the copy, which programs in it cannot change."""
        ...

    async def restart(self, *units: str) -> CopyOutput:
        """Starts or restarts services inside the copy, in order, as their units effectively say."""
        ...

    async def stop(self, unit: str) -> CopyOutput: ...

    async def reload_units(self) -> None:
        """Reads the unit files again."""
        ...

    async def unit_states(self) -> Mapping[str, str]:
        """The states of its services by name, such as active or failed; without those that run
        under the supervisor of their host."""
        ...

    def changed_paths(self) -> tuple[str, ...]:
        """Files and folders of the host that are new, different or missing in the copy."""
        ...

    async def close(self) -> None: ...


class Copyable(Protocol):
    """An environment whose host can be copied."""

    async def copy(
        self, limits: CopyLimits = DEFAULT_LIMITS, *, units: Sequence[CopyService] = ()
    ) -> HostCopy:
        """Raises `CannotCopyError`."""
        ...


def can_be_copied(environment: object) -> TypeGuard[Copyable]:
    """Return whether a copy may be tried. An environment that never allows one has `copyable`
    False."""
    offered = bool(getattr(environment, "copyable", True))
    return offered and callable(getattr(environment, "copy", None))
