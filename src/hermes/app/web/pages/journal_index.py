"""What several pages show, folded from the journal and read on from where it was."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import anyio

from hermes.app.incidents.views import APPROVAL_LOOKBACK
from hermes.app.jobs import builtin_jobs
from hermes.core.errors import ScheduleError
from hermes.core.events.operations import HealthChecked
from hermes.core.events.runs import ModelAnswered
from hermes.core.incident import Incident, apply_incident_event
from hermes.core.jobs import JobTable
from hermes.core.protocols import Journal
from hermes.policy.approvals.history import (
    APPROVAL_EVENT_KINDS,
    GRANT_EVENT_KINDS,
    ApprovalHistory,
    ApprovalQuestion,
    GrantUsage,
)
from hermes.settings.load import LoadedSettings
from hermes.sre.reports.report_data import LISTING_KINDS

DAY_KINDS = ("health.checked", "model.answered")
DAY = timedelta(days=1)


class JournalIndex:
    """Incidents, approvals, jobs and the figures of the day. One for all pages.

    `refresh` reads only what was written since the last time, so a page costs the same with ten
    incidents and with a thousand.
    """

    def __init__(self, loaded: LoadedSettings, journal: Journal) -> None:
        self._loaded = loaded
        self._journal = journal
        self._incidents: dict[str, Incident] = {}
        self._approvals = ApprovalHistory()
        self._costs: list[tuple[datetime, float]] = []
        self.jobs = JobTable()
        self.health: HealthChecked | None = None
        """The last round of checks, if it was within a day."""
        self._read_to = 0
        self._started = False
        self._lock = anyio.Lock()

    async def refresh(self) -> None:
        """Raises `StoreError`."""
        async with self._lock:  # two requests must not apply the same events
            await self._read_on()

    async def _read_on(self) -> None:
        newest = await self._journal.last()
        if self._started and newest == self._read_to:
            return
        now = datetime.now(UTC)
        if not self._started:
            try:
                self.jobs = JobTable(builtin_jobs(self._loaded))
            except ScheduleError:
                self.jobs = JobTable()  # the page Schedules says what is wrong
        after = self._read_to
        async for recorded in self._journal.read(after=after, kinds=LISTING_KINDS):
            apply_incident_event(self._incidents, recorded)
        async for recorded in self._journal.read(
            after=after,
            kinds=(*APPROVAL_EVENT_KINDS, *GRANT_EVENT_KINDS),
            since=now - APPROVAL_LOOKBACK,
        ):
            self._approvals.add(recorded)
        async for recorded in self._journal.read(after=after, kinds=DAY_KINDS, since=now - DAY):
            if isinstance(event := recorded.event, ModelAnswered):
                self._costs.append((event.at, event.usage.cost_usd))
            elif isinstance(event, HealthChecked):
                self.health = event
        await self.jobs.read(self._journal)
        self._read_to, self._started = newest, True

    @property
    def incidents(self) -> Sequence[Incident]:
        """The newest first, without drills."""
        found = [each for each in self._incidents.values() if _is_real(each)]
        return sorted(found, key=lambda each: each.seq, reverse=True)

    async def read_incidents(self) -> Sequence[Incident]:
        """The oldest first, without drills, as of now. Raises `StoreError`."""
        await self.refresh()
        return self.incidents[::-1]

    @property
    def unresolved(self) -> Sequence[Incident]:
        """The most severe first."""
        found = [each for each in self.incidents if each.unresolved]
        return sorted(found, key=lambda each: each.severity)

    def open_questions(self) -> list[ApprovalQuestion]:
        return list(self._approvals.open_questions(datetime.now(UTC)))

    def question(self, id: str) -> ApprovalQuestion | None:
        return self._approvals.questions.get(id)

    def settled_questions(self, since: datetime) -> list[ApprovalQuestion]:
        """Settled, or over without an answer; the newest first."""
        now = datetime.now(UTC)
        found = [
            each
            for each in self._approvals.questions.values()
            if each.request.at >= since and not each.is_open(now)
        ]
        return found[::-1]

    def live_grants(self) -> list[GrantUsage]:
        return list(self._approvals.live_grants(datetime.now(UTC)))

    def cost_usd(self, since: datetime) -> float:
        self._costs = [each for each in self._costs if each[0] >= since - DAY]
        return sum(usd for at, usd in self._costs if at >= since)


def _is_real(incident: Incident) -> bool:
    return incident.details.run == incident.details.incident


def today(now: datetime) -> datetime:
    """When this day began (UTC, as limits of a day count)."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)
