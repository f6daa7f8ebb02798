"""The pages of incidents: the list, and everything about one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hermes.app.incidents.actions import (
    acknowledge_incident,
    close_incident,
    reopen_incident,
    tell_incident,
)
from hermes.app.incidents.views import describe_incident, find_incident, summarize_incident
from hermes.app.web.pages.journal_index import JournalIndex
from hermes.app.web.resources import unknown_ids
from hermes.core.errors import HermesError
from hermes.core.events.approvals import ApprovalSettled
from hermes.core.events.incidents import LayerInvestigated, PhaseEntered
from hermes.core.incident import Incident
from hermes.core.protocols import JournalRecord
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings
from hermes.sre.reports.report_data import (
    ReportData,
    gather_report_data,
    read_earlier_incidents,
    read_incident_records,
)
from hermes.sre.reports.report_text import render_report
from hermes.sre.reports.statements import cause_line
from hermes.sre.reports.timeline import TimelineEntry, build_timeline
from hermes.web.api_routes import UnknownIdError
from hermes.web.pages import PageContext

PHASES = ("assess", "investigate", "remediate", "verify", "document", "learn")
SIDE_PHASES = {"reflex": "remediate", "undo": "verify"}
"""Phases that the rail shows at the place of another one."""
MAX_KEPT = 4
MAX_READ_ON = 1000
"""After more events than this, an incident is read from its beginning."""
MAX_CHANGES = 50
MAX_CHECKS = 60
MAX_EVIDENCE = 12
MAX_OUTPUT_CHARS = 800
MAX_DETAIL_CHARS = 200
ACTION_KINDS = ("change", "refused", "approval.", "playbook.", "changes.", "incident.verified")
PEOPLE_KINDS = (
    "incident.acknowledged",
    "incident.hint",
    "incident.reopened",
    "incident.closed",
    "incident.graded",
    "approval.",
)


@dataclass(frozen=True)
class IncidentSnapshot:
    """One incident as it was when the journal had been read up to a number."""

    records: Sequence[JournalRecord]
    data: ReportData
    details: Mapping[str, object]
    timeline: Sequence[TimelineEntry]


class IncidentReader:
    """Reads incidents, and keeps those that were looked at last.

    A page that is shown again after every event must not read and fold ten thousand of them.
    """

    def __init__(self, journal: JournalStore) -> None:
        self._journal = journal
        self._kept: dict[str, tuple[int, IncidentSnapshot]] = {}
        """By run, with the number up to which the journal was read."""

    async def read(self, run: str) -> IncidentSnapshot:
        """Raises `HermesError`."""
        newest, known = await self._journal.last(), self._kept.pop(run, None)
        if known is None or newest - known[0] > MAX_READ_ON:
            found = await self._snapshot(await read_incident_records(self._journal, run))
        else:
            fresh = [
                each
                async for each in self._journal.read(after=known[0])
                if each.event.run == run or each.event.run.startswith(f"{run}/")
            ]
            newest = max([newest, *(each.seq for each in fresh)])
            found = await self._snapshot([*known[1].records, *fresh]) if fresh else known[1]
        self._kept[run] = newest, found
        while len(self._kept) > MAX_KEPT:
            self._kept.pop(next(iter(self._kept)))
        return found

    async def _snapshot(self, records: Sequence[JournalRecord]) -> IncidentSnapshot:
        earlier = await read_earlier_incidents(self._journal, records)
        data = gather_report_data(records, earlier=earlier)
        return IncidentSnapshot(records, data, describe_incident(data), build_timeline(records))


class JournalIncidents:
    def __init__(self, loaded: LoadedSettings, journal: JournalStore, index: JournalIndex) -> None:
        self._loaded = loaded
        self._journal = journal
        self._index = index
        self._reader = IncidentReader(journal)

    async def incident_list(
        self, *, only_open: bool, text: str, before: str, limit: int
    ) -> PageContext:
        await self._index.refresh()
        found = [
            each
            for each in self._index.incidents
            if (each.unresolved or not only_open) and _matches(each, text)
        ]
        if before:
            ids = [each.details.incident for each in found]
            if before not in ids:
                raise UnknownIdError(f"there is no incident {before!r}")
            found = found[ids.index(before) + 1 :]
        shown = found[:limit]
        return {
            "incidents": [summarize_incident(each) for each in shown],
            "older": shown[-1].details.incident if len(found) > limit else "",
            "total": len(found),
            "before": before,
        }

    async def incident_page(self, id: str, *, show: str, before: int, limit: int) -> PageContext:
        with unknown_ids():
            run = (await find_incident(self._journal, id)).run
        snapshot = await self._reader.read(run)
        records, data = snapshot.records, snapshot.data
        entries = [each for each in snapshot.timeline if _is_shown(each, show)]
        if before:
            entries = [each for each in entries if each.seq < before]
        incident, now = data.incident, datetime.now(UTC)
        return {
            "incident": {
                **snapshot.details,
                "hints": incident.hints,
                "duration_s": incident.duration_s(now),
            },
            "phases": _phases(incident, records),
            "cause_label": cause_line(incident)[0].capitalize(),
            "evidence": _evidence(data),
            "changes": _changes(data)[-MAX_CHANGES:],
            "approved_by": _approvers(records),
            "refused": [each for each in data.refused_actions if not each.waiting],
            "waiting": [each for each in data.refused_actions if each.waiting],
            "checks": _checks(data)[:MAX_CHECKS],
            "layers": _layers(records),
            "timeline": entries[-limit:],
            "older": entries[-limit].seq if len(entries) > limit else 0,
            "hidden": max(0, len(entries) - limit),
            "now": now,
        }

    async def incident_report(self, id: str) -> str:
        with unknown_ids():
            run = (await find_incident(self._journal, id)).run
        records = await read_incident_records(self._journal, run)
        return render_report(records, earlier=await read_earlier_incidents(self._journal, records))

    async def change_incident(self, id: str, verb: str, text: str, *, person: str) -> str:
        with unknown_ids():
            await find_incident(self._journal, id)
        loaded, journal = self._loaded, self._journal
        match verb:
            case "acknowledge":
                done = await acknowledge_incident(loaded, journal, id, person=person)
            case "close":
                done = await close_incident(loaded, journal, id, person=person, reason=text)
            case "reopen":
                done = await reopen_incident(loaded, journal, id, person=person, reason=text)
            case "tell":
                done = await tell_incident(loaded, journal, id, text, person=person)
            case _:
                raise HermesError("an incident is acknowledged, closed, reopened or told something")
        return done.text


def _matches(incident: Incident, text: str) -> bool:
    details = incident.details
    shown = f"{details.incident} {details.title} {details.service} {incident.severity}"
    return all(word in shown.lower() for word in text.lower().split())


def _is_shown(entry: TimelineEntry, show: str) -> bool:
    kinds = {"actions": ACTION_KINDS, "people": PEOPLE_KINDS}.get(show)
    return kinds is None or entry.kind.startswith(kinds)


def _phases(incident: Incident, records: Sequence[JournalRecord]) -> list[dict[str, str]]:
    """The rail: what was done or left out, where the work is, and what comes."""
    names = [each.event.phase for each in records if isinstance(each.event, PhaseEntered)]
    entered = {SIDE_PHASES.get(each, each) for each in names}
    phase = SIDE_PHASES.get(incident.phase or "", incident.phase or "")
    reached = PHASES.index(phase) if phase in PHASES else -1
    found = []
    for number, name in enumerate(PHASES):
        if number < reached or (number == reached and not incident.unresolved):
            idle = name == "remediate" and not incident.changes
            state = "done" if name in entered and not idle else "left-out"
        else:
            state = "now" if number == reached else "later"
        found.append({"name": name, "state": state})
    return found


def _checks(data: ReportData) -> list[dict[str, Any]]:
    """Each check with its last results before and after the changes; those that failed first."""
    found: dict[str, dict[str, Any]] = {}
    for event in data.checks:
        empty = {"name": event.check, "before": "", "after": "", "detail": ""}
        row = found.setdefault(event.check, empty)
        result = "unknown" if event.unknown else "passed" if event.ok else "failed"
        row["before" if event.when == "before" else "after"] = result
        row["detail"] = row["detail"] if event.ok else event.detail[:MAX_DETAIL_CHARS]
    steady = ("passed", "")
    return sorted(
        found.values(), key=lambda row: row["before"] in steady and row["after"] in steady
    )


def _evidence(data: ReportData) -> list[dict[str, Any]]:
    """The results that the diagnosis refers to."""
    diagnosis = data.incident.diagnosis
    wanted = set(diagnosis.evidence) if diagnosis is not None else set()
    found = [
        {"seq": each.seq, "command": each.command, "output": each.output[:MAX_OUTPUT_CHARS]}
        for each in data.actions
        if each.seq in wanted
    ]
    return found[:MAX_EVIDENCE]


def _changes(data: ReportData) -> list[dict[str, Any]]:
    undone = {change.call_id: change.undone for change in data.incident.changes}
    return [
        {
            "command": each.command,
            "at": each.at,
            "by": each.by,
            "ending": each.ending,
            "undo": each.undo,
            "undone": undone.get(each.call_id, ""),
        }
        for each in data.changes
    ]


def _approvers(records: Sequence[JournalRecord]) -> list[str]:
    return [
        ", ".join(event.by) + (f" via {event.via}" if event.via else "")
        for each in records
        if isinstance(event := each.event, ApprovalSettled) and event.outcome == "approved"
    ]


def _layers(records: Sequence[JournalRecord]) -> list[LayerInvestigated]:
    """The latest word of each investigator."""
    found: dict[str, LayerInvestigated] = {}
    for each in records:
        if isinstance(event := each.event, LayerInvestigated):
            found[event.layer] = event
    return list(found.values())
