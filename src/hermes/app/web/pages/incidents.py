"""The pages of incidents: the list, and everything about one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hermes.app.actions import (
    acknowledge_incident,
    close_incident,
    reopen_incident,
    tell_incident,
)
from hermes.app.views import describe_incident, find_incident, summarize_incident
from hermes.app.web.pages.journal_index import JournalIndex
from hermes.app.web.resources import unknown_ids
from hermes.core.errors import HermesError
from hermes.core.events.approvals import ApprovalSettled
from hermes.core.events.incidents import LayerInvestigated
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
from hermes.sre.reports.timeline import TimelineEntry, build_timeline
from hermes.web.api_routes import UnknownIdError
from hermes.web.pages import PageContext

PHASES = ("assess", "investigate", "remediate", "verify", "document", "learn")
SIDE_PHASES = {"reflex": "remediate", "undo": "verify"}
"""Phases that the rail shows at the place of another one."""
MAX_CHANGES = 50
MAX_CHECKS = 60
MAX_EVIDENCE = 12
MAX_OUTPUT_CHARS = 800
ACTION_KINDS = ("change", "refused", "approval.", "playbook.", "changes.", "incident.verified")
PEOPLE_KINDS = (
    "incident.acknowledged",
    "incident.hint",
    "incident.reopened",
    "incident.closed",
    "incident.graded",
    "approval.",
)


class JournalIncidents:
    def __init__(self, loaded: LoadedSettings, journal: JournalStore, index: JournalIndex) -> None:
        self._loaded = loaded
        self._journal = journal
        self._index = index

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
        records = await read_incident_records(self._journal, run)
        earlier = await read_earlier_incidents(self._journal, records)
        data = gather_report_data(records, earlier=earlier)
        entries = [each for each in build_timeline(records) if _is_shown(each, show)]
        if before:
            entries = [each for each in entries if each.seq < before]
        incident = data.incident
        return {
            "incident": {**describe_incident(data), "hints": incident.hints},
            "phases": _phases(incident),
            "evidence": _evidence(data),
            "changes": _changes(data)[-MAX_CHANGES:],
            "approved_by": _approvers(records),
            "refused": [each for each in data.refused_actions if not each.waiting],
            "waiting": [each for each in data.refused_actions if each.waiting],
            "checks": list(data.checks)[-MAX_CHECKS:],
            "layers": _layers(records),
            "timeline": entries[-limit:],
            "older": entries[-limit].seq if len(entries) > limit else 0,
            "hidden": max(0, len(entries) - limit),
            "now": datetime.now(UTC),
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


def _phases(incident: Incident) -> list[dict[str, str]]:
    """The rail: what is done, where the work is, and what comes."""
    phase = SIDE_PHASES.get(incident.phase or "", incident.phase or "")
    reached = PHASES.index(phase) if phase in PHASES else -1
    over = not incident.unresolved
    found = []
    for number, name in enumerate(PHASES):
        if number < reached or (over and number <= reached):
            state = "done"
        else:
            state = "now" if number == reached else "later"
        found.append({"name": name, "state": state})
    return found


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
