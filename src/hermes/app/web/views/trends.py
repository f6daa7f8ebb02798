"""Trends of incidents by week, the learning curve, recurrences, and what models cost."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta

import msgspec

from hermes.app.incidents.views import PlainObject
from hermes.app.web.views.services import ReadIncidents
from hermes.core.errors import SettingsError
from hermes.core.events.runs import ModelAnswered
from hermes.core.incident import Incident
from hermes.memory.store import JournalStore
from hermes.sre.reports.report_data import list_incidents
from hermes.sre.reports.statistics import (
    WITH_SKILLS,
    WITHOUT_SKILLS,
    DurationStatistics,
    learning_curve,
    measure_incidents,
    monday_of,
    summarize_figures,
    weekly_trends,
)

PERIODS_WEEKS = (4, 13, 26, 52)
DEFAULT_WEEKS = 13


class JournalTrends:
    """Fulfils what the page of trends shows."""

    def __init__(self, journal: JournalStore, read_incidents: ReadIncidents | None = None) -> None:
        self._journal = journal
        self._read_incidents = read_incidents or (lambda: list_incidents(journal))
        self._cost_usd: dict[date, float] = defaultdict(float)
        """What models cost in the week from this Monday."""
        self._cost_seq = 0

    async def trends(self, *, weeks: int = DEFAULT_WEEKS, service: str = "") -> PlainObject:
        """Raises `SettingsError` for a period that is not offered."""
        if weeks not in PERIODS_WEEKS:
            offered = ", ".join(map(str, PERIODS_WEEKS))
            raise SettingsError(f"there are no trends of {weeks} weeks; there are: {offered}")
        every = await self._read_incidents()
        known = [each for each in every if service in ("", each.details.service)]
        since = datetime.now(UTC) - timedelta(weeks=weeks)
        measured = measure_incidents(known)
        measured_recent = [each for each in measured if each.incident.details.opened_at >= since]
        recent = [each.incident for each in measured_recent]
        statistics = summarize_figures(measured_recent)
        resolved = sum(each.closed is not None for each in recent)
        await self._read_costs()
        return {
            "weeks": [
                {
                    "begins": week.begins.isoformat(),
                    "incidents": week.incidents,
                    "repeated": week.repeated,
                    "false_alarms": week.false_alarms,
                    "by_skill": week.by_skill,
                    "cost_usd": self._cost_usd.get(week.begins, 0.0),
                    "detect": _duration(week.detect),
                    "acknowledge": _duration(week.acknowledge),
                    "repair": _duration(week.repair),
                    "with_skills": _duration(week.repaired.get(WITH_SKILLS)),
                    "without_skills": _duration(week.repaired.get(WITHOUT_SKILLS)),
                }
                for week in weekly_trends(measured, weeks)
                if week.begins >= (since - timedelta(days=7)).date()
            ],
            "learning": [
                {"nth": step.nth, "by_skill": step.by_skill, "repair": _duration(step.repair)}
                for step in learning_curve(measured)
            ],
            "recurring": [msgspec.to_builtins(each) for each in statistics.recurring],
            "services": sorted({each.details.service for each in every} - {""}),
            "incidents": statistics.incidents,
            "open": statistics.open,
            "closed": resolved,
            "by_skill": statistics.answered_by.get("playbook", 0),
            "false_alarms": sum(each.status == "no-incident" for each in recent),
            "repeated": _repeated(known, recent),
            "cost_usd": sum(usd for day, usd in self._cost_usd.items() if day >= since.date()),
            "detect": _duration(statistics.detect),
            "acknowledge": _duration(statistics.acknowledge),
            "repair": _duration(statistics.repair),
            "with_skills": _duration(statistics.repaired_by.get(WITH_SKILLS)),
            "without_skills": _duration(statistics.repaired_by.get(WITHOUT_SKILLS)),
        }

    async def _read_costs(self) -> None:
        since = datetime.now(UTC) - timedelta(weeks=PERIODS_WEEKS[-1])
        async for recorded in self._journal.read(
            after=self._cost_seq, kinds=("model.answered",), since=since
        ):
            self._cost_seq = recorded.seq
            if isinstance(event := recorded.event, ModelAnswered):
                self._cost_usd[monday_of(event.at)] += event.usage.cost_usd


def _repeated(known: list[Incident], recent: list[Incident]) -> int:
    """Recent incidents whose fault was seen before, also before the period."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for each in known:
        name = each.details.fingerprint
        if name and name in seen:
            repeated.add(each.details.incident)
        seen.add(name)
    return sum(each.details.incident in repeated for each in recent)


def _duration(found: DurationStatistics | None) -> PlainObject:
    found = found or DurationStatistics()
    return {"count": found.count, "median": found.median, "p90": found.p90}
