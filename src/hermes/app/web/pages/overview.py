"""The page Now, and the bar of every page."""

import heapq
from datetime import UTC, datetime
from typing import Any

from hermes.app.channels.states import read_channel_states
from hermes.app.incidents.views import describe_approval, summarize_incident
from hermes.app.jobs import SHOWN_TIMES, describe_job
from hermes.app.people import PeopleRegister
from hermes.app.web.pages.journal_index import JournalIndex, today
from hermes.app.web.resources import PersonActions
from hermes.app.web.views.services import is_current
from hermes.memory.store import JournalStore
from hermes.scheduler.cron import next_times
from hermes.settings.load import LoadedSettings
from hermes.sre.reports.statistics import compute_statistics
from hermes.web.pages import BarStatus, PageContext

MAX_SHOWN = 20
MAX_JOBS = 5
URGENT = "P0"


class JournalStatus:
    """What the bar of every page shows, and who may act."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore, index: JournalIndex) -> None:
        self._people = PeopleRegister(loaded, journal)
        self._index = index

    async def why_not(self, person: str) -> str:
        return (await self._people.current()).objection(person)

    async def bar(self) -> BarStatus:
        await self._index.refresh()
        unresolved = self._index.unresolved
        urgent = [each for each in unresolved if each.severity == URGENT]
        more = f" and {len(urgent) - 1} more" if len(urgent) > 1 else ""
        waiting = len(self._index.open_questions())
        return BarStatus(
            counts={"incidents": len(unresolved), "approvals": waiting},
            alarm=f"P0 {urgent[0].details.title}{more}" if urgent else "",
            alarm_href=f"/incidents/{urgent[0].details.incident}" if urgent else "",
        )


class JournalOverview:
    def __init__(self, loaded: LoadedSettings, journal: JournalStore, index: JournalIndex) -> None:
        self._loaded = loaded
        self._journal = journal
        self._index = index
        self._actions = PersonActions(loaded, journal)

    async def overview(self, person: str) -> PageContext:
        await self._index.refresh()
        now, unresolved = datetime.now(UTC), self._index.unresolved
        states = await read_channel_states(self._loaded, self._journal, now)
        return {
            "incidents": [
                {**summarize_incident(each), "diagnosis": each.diagnosis}
                for each in unresolved[:MAX_SHOWN]
            ],
            "more_incidents": max(0, len(unresolved) - MAX_SHOWN),
            "approvals": [
                describe_approval(each, self._loaded)
                for each in self._index.open_questions()[:MAX_SHOWN]
            ],
            "health": self._index.health,
            "health_is_current": is_current(self._index.health),
            "jobs": self._next_jobs(),
            "day": self._day(now),
            "channels": [each for each in states if each.status != "not configured"],
            "waiting_messages": sum(each.waiting for each in states),
        }

    async def acknowledge(self, id: str, *, person: str) -> str:
        return (await self._actions.acknowledge(id, person=person)).text

    def _next_jobs(self) -> list[dict[str, Any]]:
        now = datetime.now(UTC)
        due = [
            (times[0], job.name, job)
            for job in self._index.jobs.jobs.values()
            if job.paused is None and (times := next_times(job.spec.schedule, now, SHOWN_TIMES))
        ]
        return [describe_job(job) for _, _, job in heapq.nsmallest(MAX_JOBS, due)]

    def _day(self, now: datetime) -> dict[str, Any]:
        since = today(now)
        opened = [each for each in self._index.incidents if each.details.opened_at >= since]
        ended = [each for each in self._index.incidents if each.over_at and each.over_at >= since]
        statistics = compute_statistics(ended)
        return {
            "opened": len(opened),
            "over": len(ended),
            "resolved": sum(each.resolved_by_checks for each in ended),
            "by_skill": statistics.answered_by.get("playbook", 0),
            "repair_s": statistics.repair.median,
            "cost_usd": self._index.cost_usd(since),
            "limit_usd": self._loaded.settings.agent.limits.day_usd,
        }
