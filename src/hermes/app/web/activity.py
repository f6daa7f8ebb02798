"""How much is going on in all processes of a home: turns and jobs, for `/metrics`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from hermes.app.jobs import read_jobs
from hermes.app.policy import is_run_active
from hermes.core.errors import ScheduleError
from hermes.core.events.runs import TurnEnded, TurnStarted
from hermes.core.jobs import JobTable
from hermes.core.protocols import Journal
from hermes.settings.load import LoadedSettings

TURN_KINDS = ("turn.started", "turn.ended")
TURN_LOOKBACK = timedelta(days=1)
"""Turns that began before are not counted when a process starts."""


class JournalActivity:
    """Later calls read only what was added since."""

    def __init__(self, loaded: LoadedSettings, journal: Journal) -> None:
        self._loaded, self._journal = loaded, journal
        self._turns: dict[str, int] = {}
        """Runs with a turn that has no end yet."""
        self._read_to = 0
        self._jobs: JobTable | None = None

    async def gauges(self) -> Mapping[str, float]:
        """Raises `StoreError`."""
        await self._read_turns()
        rows = [row for job in (await self._job_table()).jobs.values() for row in job.open]
        started = sum(row.started is not None for row in rows)
        # A turn that a killed process left open does not run: no process holds its run.
        running = sum(is_run_active(self._loaded, run) for run in self._turns)
        return {
            "turns_running": running,
            "jobs_running": started,
            "jobs_due": len(rows) - started,
        }

    async def _read_turns(self) -> None:
        newest = await self._journal.last()
        since = None if self._read_to else datetime.now(UTC) - TURN_LOOKBACK
        async for recorded in self._journal.read(
            after=self._read_to, kinds=TURN_KINDS, since=since
        ):
            event = recorded.event
            if isinstance(event, TurnStarted):
                self._turns[event.run] = event.turn
            elif isinstance(event, TurnEnded) and self._turns.get(event.run) == event.turn:
                del self._turns[event.run]
        self._read_to = newest

    async def _job_table(self) -> JobTable:
        if self._jobs is None:
            try:
                self._jobs = await read_jobs(self._loaded, self._journal)
            except ScheduleError:  # a wrong zone or time in the settings
                self._jobs = JobTable()
        await self._jobs.read(self._journal)
        return self._jobs
