"""What a sandbox owns outside of its walls: a folder, a cgroup, and the launcher behind them."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from anyio import to_thread

from hermes.core.errors import PlaceFailed
from hermes.environments.confinement import cgroups, grants, opening
from hermes.environments.confinement.cgroups import Cgroup
from hermes.environments.confinement.line import Line
from hermes.environments.confinement.opening import Wish
from hermes.environments.confinement.plan import Plan
from hermes.environments.confinement.scratch import Scratch
from hermes.environments.sandbox_records import SandboxRecords
from hermes.environments.settings import TerminalSettings

MEGABYTE = 1 << 20


class Premises:
    """Opened once; a launcher that was lost is replaced by another behind the same walls."""

    def __init__(
        self,
        directory: Path | None,
        settings: TerminalSettings,
        walls: tuple[str, ...],
        records: SandboxRecords | None = None,
    ) -> None:
        self._given = directory
        self._records = records
        self._record: Path | None = None
        self._settings = settings
        self._walls = walls
        self._cgroup = Cgroup()
        self._plan: Plan | None = None
        self._line: Line | None = None
        self._lock = anyio.Lock()
        self._folder: Scratch | None = None
        self.directory = ""

    async def __aenter__(self) -> Self:
        granted = (str(self._given),) if self._given is not None else ()
        own = grants.granted(granted, writable=True)
        self._folder = await to_thread.run_sync(Scratch)
        try:
            self.directory = own[0] if own else f"{self.scratch}/work"
            wish = self._wish(own)
            if self._records is not None:
                self._record = self._records.opened(wish.writable)
            self._cgroup = cgroups.make(memory=wish.memory, processes=wish.processes)
            opened = await opening.open_sandbox(wish, self._cgroup, self._walls or opening.order())
        except BaseException:
            await self.close()
            raise
        self._line, self._plan = opened.line, opened.plan
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _wish(self, own: tuple[str, ...]) -> Wish:
        settings = self._settings
        return Wish(
            scratch=self.scratch,
            writable=tuple(dict.fromkeys(own + grants.granted(settings.writable, writable=True))),
            readable=grants.granted(settings.readable, writable=False),
            network=settings.network,
            memory=settings.memory_mb * MEGABYTE,
            processes=settings.processes,
            cpu_seconds=settings.cpu_seconds,
            file_size=settings.file_mb * MEGABYTE,
            total_size=settings.total_mb * MEGABYTE,
        )

    @property
    def scratch(self) -> str:
        return "" if self._folder is None else self._folder.path

    @property
    def walls(self) -> str:
        """The kind that stands."""
        return "" if self._plan is None else self._plan.walls

    @property
    def user(self) -> str:
        stays_root = os.getuid() == 0 and self._plan is not None and self._plan.uid < 0
        return "root" if stays_root else "sandbox"

    @property
    def temporary(self) -> str:
        """Without a mount namespace, /tmp is everybody's."""
        return f"{self.scratch}/tmp" if self.walls == "landlock" else "/tmp"

    async def line(self) -> Line:
        """The line to a launcher that lives, or lived a moment ago."""
        async with self._lock:
            if self._line is None:
                if self._plan is None:
                    raise PlaceFailed("the environment is not open")
                line, problem = await opening.reopen(self._plan, self._cgroup)
                if problem:
                    raise PlaceFailed(f"the sandbox could not be started again: {problem}")
                self._line = line
            return self._line

    async def give_up(self, line: Line) -> None:
        """What was behind this line ended, or must."""
        async with self._lock:
            if self._line is line:
                self._line = None
                await line.close()
                await cgroups.empty(self._cgroup)

    async def close(self) -> None:
        self._plan = None
        with anyio.CancelScope(shield=True):
            if self._line is not None:
                await self._line.close()
                self._line = None
            await cgroups.empty(self._cgroup)
            await cgroups.remove(self._cgroup)
            if self._records is not None:
                self._records.closed(self._record)
            if self._folder is not None:
                await to_thread.run_sync(self._folder.remove)
                self._folder = None
