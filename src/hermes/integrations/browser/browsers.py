"""The browsers of all runs of this process: started when needed, ended when idle or over."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hermes.core.errors import HermesError, ToolError, innermost_error
from hermes.integrations.browser.session import ChromiumSession, Screenshot

IDLE_TIMEOUT_S = 120.0
MAX_BROWSERS = 4
START_TIMEOUT_S = 30.0

StartSession = Callable[[], AbstractAsyncContextManager[ChromiumSession]]
"""Starts a browser that ends with the block."""


class _RunningBrowser:
    """A browser in a separate task, because the task that asked for it may end before it."""

    def __init__(self) -> None:
        self.session: ChromiumSession | None = None
        self.stop, self.stopped = anyio.Event(), anyio.Event()
        self.used_at = anyio.current_time()


class Browsers:
    """One browser for each run that opens a page."""

    def __init__(
        self, start: StartSession, group: TaskGroup, idle_timeout_s: float = IDLE_TIMEOUT_S
    ) -> None:
        self._start, self._group, self._idle_timeout_s = start, group, idle_timeout_s
        self._running: dict[str, _RunningBrowser] = {}
        self._lock = anyio.Lock()

    async def page(self, run: str, *, start: bool = False) -> ChromiumSession:
        """The browser of a run. Raises `ToolError`."""
        async with self._lock:
            found = self._running.get(run)
            if found is not None and (found.session is None or found.session.ended):
                await self._end(run)
                found = None
            if found is None:
                if not start:
                    raise ToolError("no page is open; browser_navigate opens one")
                found = await self._open(run)
        found.used_at = anyio.current_time()
        if found.session is None:
            raise ToolError("the browser could not be started")
        return found.session

    def find(self, run: str) -> ChromiumSession | None:
        """The browser of a run, if one is open."""
        found = self._running.get(run)
        return found.session if found is not None else None

    async def close(self, run: str) -> bool:
        """Ends the browser of a run and those of the runs that it started."""
        async with self._lock:
            ended = [each for each in self._running if each == run or each.startswith(f"{run}/")]
            for each in ended:
                await self._end(each)
        return bool(ended)

    async def screenshot(self, run: str) -> Screenshot:
        return await (await self.page(run)).screenshot()

    async def _open(self, run: str) -> _RunningBrowser:
        if len(self._running) >= MAX_BROWSERS:
            oldest = min(self._running, key=lambda each: self._running[each].used_at)
            await self._end(oldest)
        made = _RunningBrowser()
        try:
            with anyio.fail_after(START_TIMEOUT_S):
                await self._group.start(self._keep, run, made)
        except TimeoutError as error:
            made.stop.set()
            raise ToolError("the browser did not start in time; try again") from error
        return made

    async def _keep(
        self, run: str, made: _RunningBrowser, *, task_status: TaskStatus[None]
    ) -> None:
        started = False
        try:
            async with self._start() as session:
                made.session, made.used_at = session, anyio.current_time()
                self._running[run] = made
                started = True
                task_status.started()
                await self._wait_until_idle(made)
        except (HermesError, ExceptionGroup) as error:
            if not started:
                raise innermost_error(error) from error
        finally:
            if self._running.get(run) is made:
                del self._running[run]
            made.stopped.set()

    async def _wait_until_idle(self, made: _RunningBrowser) -> None:
        left = self._idle_timeout_s
        while left > 0:
            with anyio.move_on_after(left):
                await made.stop.wait()
                return
            left = made.used_at + self._idle_timeout_s - anyio.current_time()

    async def _end(self, run: str) -> None:
        if (found := self._running.pop(run, None)) is not None:
            found.stop.set()
            await found.stopped.wait()


@asynccontextmanager
async def open_browsers(
    start: StartSession, idle_timeout_s: float = IDLE_TIMEOUT_S
) -> AsyncIterator[Browsers]:
    """At the end of the block all of them are closed."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            yield Browsers(start, group, idle_timeout_s)
        except Exception as error:  # noqa: BLE001 - raised below as it is, and not in a group
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
