"""Keeps track of all background processes, in every environment."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import anyio
from anyio.abc import TaskGroup

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.events.tools import (
    ProcessEnded,
    ProcessMatched,
    ProcessReported,
    ProcessStarted,
    ToolBlocked,
)
from hermes.core.protocols import (
    BackgroundProcess,
    Environment,
    ProcessInfo,
    ReportsRefusals,
    StartsProcesses,
)
from hermes.environments.processes.tracked_process import (
    OutputMatch,
    OutputWatch,
    ProcessCheckpoint,
    ProcessEntry,
    TrackedProcess,
)
from hermes.environments.settings import TerminalSettings

_MAX_ENDED_PROCESSES = 64
"""Ended processes that can still be queried."""
_FINAL_OUTPUT_TIMEOUT_S = 5.0
"""Seconds to read the remaining output after a kill."""


class ProcessRegistry:
    """Implements `core.protocols.Processes`.

    When it closes, processes that can be found again continue to run; `recover` of a later process
    of Hermes finds them.
    """

    def __init__(
        self,
        home: Path,
        publish: Callable[..., Awaitable[Sequence[int]]],
        *,
        settings: TerminalSettings | None = None,
    ) -> None:
        self._settings = settings or TerminalSettings()
        self._publish = publish
        self._checkpoint = ProcessCheckpoint(home / "processes.json")
        self._tracked: dict[str, TrackedProcess] = {}
        self._starting = 0
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        group, self._group = self._group, None
        if group is None:
            return None
        with suppress(OSError):
            self._checkpoint.release()
        group.cancel_scope.cancel()
        if error is None or isinstance(error, anyio.get_cancelled_exc_class()):
            return await group.__aexit__(kind, error, trace)
        # Not passed to the group, which would wrap an error of the block.
        await group.__aexit__(None, None, None)
        return None

    async def start(
        self,
        environment: Environment,
        command: str,
        *,
        run: str,
        pty: bool = False,
        cwd: str = "",
        watch: Sequence[str] = (),
        check_interval: float = 0.0,
    ) -> ProcessInfo:
        if not isinstance(environment, StartsProcesses):
            raise ToolError(
                f"{environment.name} cannot keep a process in the background; "
                "run it in the foreground, or choose another environment"
            )
        if len(self._running()) + self._starting >= self._settings.max_processes:
            raise ToolError(
                f"{self._settings.max_processes} background processes are running, which is the "
                "limit; kill one that is no longer needed"
            )
        OutputWatch(watch, 0)  # raises for bad patterns before anything runs
        self._starting += 1
        try:
            process = await environment.start(command, pty=pty, cwd=cwd)
        finally:
            self._starting -= 1
        entry = ProcessEntry(
            id=f"proc_{secrets.token_hex(3)}",
            command=command,
            environment=environment.name,
            target=environment.target,
            handle=process.handle,
            started_at=datetime.now(UTC),
            pid=process.pid,
            run=run,
            watch=tuple(watch),
            check_interval=max(check_interval, self._settings.min_check_interval)
            if check_interval > 0
            else 0.0,
        )
        tracked = self._track(entry, process)
        self._save()
        await self._publish(
            ProcessStarted(run=run, process=entry.id, command=command, environment=environment.name)
        )
        self._supervise(tracked)
        return tracked.view

    async def recover(self, *environments: Environment) -> list[ProcessInfo]:
        """Take over what an earlier process of Hermes started in these environments."""
        views = []
        for environment in environments:
            if not isinstance(environment, StartsProcesses):
                continue
            for entry in self._claimed(environment):
                try:
                    process = await environment.find(entry.handle)
                except EnvironmentFailed:  # unreachable now; can be recovered later
                    self._checkpoint.release(entry.id)
                    continue
                if process is None:
                    await self._publish(
                        ProcessEnded(run=entry.run, process=entry.id, reason="lost")
                    )
                    continue
                tracked = self._track(entry, process)
                self._supervise(tracked)
                views.append(tracked.view)
        with suppress(OSError):
            self._save()
        return views

    def _claimed(self, environment: Environment) -> Sequence[ProcessEntry]:
        """Empty when the file of processes cannot be written; they can be recovered later."""
        try:
            return self._checkpoint.claim(environment.name, environment.target)
        except OSError:
            return ()

    def list(self, run: str | None = None) -> Sequence[ProcessInfo]:
        return [one.view for one in self._tracked.values() if run in (None, one.entry.run)]

    async def poll(self, id: str) -> tuple[ProcessInfo, str]:
        tracked = self._get(id)
        return tracked.view, tracked.new_output()

    async def log(self, id: str, *, offset: int = 0, limit: int = 200) -> str:
        return self._get(id).page(offset, limit)

    async def wait(self, id: str, *, timeout: float) -> ProcessInfo:
        """Returns when the process has ended, or after the time-out (at most `max_wait`)."""
        tracked = self._get(id)
        with anyio.move_on_after(max(0.0, min(timeout, self._settings.max_wait))):
            await tracked.done.wait()
        return tracked.view

    async def kill(self, id: str) -> ProcessInfo:
        tracked = self._get(id)
        if not tracked.ended:
            await self._end(tracked, "killed")
            with anyio.move_on_after(_FINAL_OUTPUT_TIMEOUT_S):
                await tracked.done.wait()
        return tracked.view

    async def write(self, id: str, data: bytes) -> None:
        tracked = self._get(id)
        if tracked.ended:
            raise ToolError(f"{id} has ended: it reads no more input")
        await tracked.process.write(data)

    async def end(self, run: str) -> None:
        """Kill all processes of a run, for example when a session was deleted."""
        async with anyio.create_task_group() as group:
            for tracked in self._running():
                if tracked.entry.run == run:
                    group.start_soon(self.kill, tracked.entry.id)

    def _get(self, id: str) -> TrackedProcess:
        try:
            return self._tracked[id]
        except KeyError:
            raise ToolError(f"there is no process {id!r}; it may have been forgotten") from None

    def _running(self) -> Sequence[TrackedProcess]:
        return [one for one in self._tracked.values() if not one.ended]

    def _track(self, entry: ProcessEntry, process: BackgroundProcess) -> TrackedProcess:
        watch = OutputWatch(entry.watch, self._settings.watch_interval)
        tracked = TrackedProcess(entry, process, watch, self._settings.process_buffer_kb * 1024)
        self._tracked[entry.id] = tracked
        return tracked

    def _supervise(self, tracked: TrackedProcess) -> None:
        if self._group is None:
            raise EnvironmentFailed("the process registry is not open")
        self._group.start_soon(self._follow, tracked)
        if tracked.entry.check_interval > 0:
            self._group.start_soon(self._report, tracked)

    async def _follow(self, tracked: TrackedProcess) -> None:
        """Reads its output until it ends."""
        age = (datetime.now(UTC) - tracked.entry.started_at).total_seconds()
        try:
            with anyio.move_on_after(max(0.0, self._settings.max_process_age - age)) as clock:
                await self._listen(tracked)
            if clock.cancelled_caught:
                await self._end(tracked, "expired")
                with anyio.move_on_after(_FINAL_OUTPUT_TIMEOUT_S):
                    await self._listen(tracked)
        except EnvironmentFailed as error:  # its state is unknown
            tracked.feed(f"\n[lost: {error}]\n".encode())
        await self._finish(tracked)

    async def _report(self, tracked: TrackedProcess) -> None:
        """Says in intervals that it is running, and what it printed since."""
        entry = tracked.entry
        while not tracked.ended:
            with anyio.move_on_after(entry.check_interval):
                await tracked.done.wait()
                return
            async with tracked.publishing:
                if tracked.ended:
                    return
                seconds = (datetime.now(UTC) - entry.started_at).total_seconds()
                output = tracked.unreported()
                await self._publish(
                    ProcessReported(run=entry.run, process=entry.id, seconds=seconds, output=output)
                )

    async def _listen(self, tracked: TrackedProcess) -> None:
        while data := await tracked.process.output():
            await self._publish_matches(tracked, tracked.feed(data))
        tracked.exit_code = await tracked.process.wait()

    async def _publish_matches(
        self, tracked: TrackedProcess, matches: Sequence[OutputMatch]
    ) -> None:
        for match in matches:
            await self._publish(
                ProcessMatched(
                    run=tracked.entry.run,
                    process=tracked.entry.id,
                    pattern=match.pattern,
                    line=match.line,
                )
            )

    async def _end(self, tracked: TrackedProcess, reason: Literal["killed", "expired"]) -> None:
        tracked.ended_by = reason
        await tracked.process.kill()

    async def _finish(self, tracked: TrackedProcess) -> None:
        """Publishes the end, then saves it: a crash in between publishes it twice, not never."""
        tracked.ended = True
        with anyio.CancelScope(shield=True):
            async with tracked.publishing:  # a report that has begun is published before the end
                pass
            await self._publish_matches(tracked, tracked.watch.finish())
            await self._publish_refusals(tracked)
            await self._publish(
                ProcessEnded(
                    run=tracked.entry.run,
                    process=tracked.entry.id,
                    exit_code=tracked.exit_code,
                    reason=tracked.reason,
                    tail=tracked.tail(),
                )
            )
        tracked.done.set()
        ended = [one for one in self._tracked.values() if one.ended]
        for one in ended[:-_MAX_ENDED_PROCESSES]:
            del self._tracked[one.entry.id]
        with suppress(OSError):
            self._save()

    async def _publish_refusals(self, tracked: TrackedProcess) -> None:
        process = tracked.process
        if not isinstance(process, ReportsRefusals):
            return
        for each in process.refused():
            await self._publish(
                ToolBlocked(
                    run=tracked.entry.run,
                    call_id=tracked.entry.id,
                    what=each.what,
                    program=each.program,
                    reason=each.reason,
                    command=tracked.entry.command,
                    judged=process.judged,
                    optional=each.optional,
                )
            )

    def _save(self) -> None:
        self._checkpoint.save([one.entry for one in self._running()])
