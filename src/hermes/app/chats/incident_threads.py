"""The thread of an incident in a chat: what its conversation knows, and what it may do.

While Hermes works on the incident, the conversation only reads: two must not change one host.
"""

from dataclasses import replace
from datetime import UTC, datetime

from hermes.app.application import Application
from hermes.app.incidents.views import find_incident
from hermes.core.actions import Action, Decision, Policy, PolicyWrapper
from hermes.core.errors import HermesError
from hermes.core.foreign_text import visible_line
from hermes.core.incident import Incident
from hermes.core.messages import AttachedText
from hermes.core.protocols import Journal
from hermes.plumbing.units import format_duration
from hermes.sre.policies import ReadOnlyPolicy
from hermes.sre.reports.report_data import (
    ReportData,
    gather_report_data,
    read_earlier_incidents,
    read_incident_records,
)
from hermes.sre.reports.statements import (
    cause_line,
    duration_text,
    find_excluded_causes,
    outcome_text,
)

NOTE_TOOLS = frozenset({"todo", "clarify", "memory"})
"""Tools that change nothing on the host."""
MAX_LINE_CHARS, MAX_LISTED = 300, 5
MAX_BRIEF_CHARS = 190
"""Telegram shows 200 characters in the answer to a press."""


class IncidentThreadPolicy(PolicyWrapper):
    """Denies more than reading while the incident is worked on."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._reading = ReadOnlyPolicy(policy, NOTE_TOOLS)
        self.read_only = True

    def decide(self, action: Action) -> Decision:
        return self._reading.decide(action) if self.read_only else super().decide(action)


class IncidentThread:
    """What the worker of a session needs, if its chat is the thread of an incident."""

    def __init__(self, journal: Journal, incident: str) -> None:
        self._journal, self._incident = journal, incident
        self._policy: IncidentThreadPolicy | None = None

    def restrict(self, application: Application) -> Application:
        dependencies = application.agent_dependencies
        self._policy = IncidentThreadPolicy(dependencies.executor.policy)
        executor = dependencies.executor.with_policy(self._policy)
        return replace(application, agent_dependencies=replace(dependencies, executor=executor))

    async def update(self) -> None:
        """Before a turn: whether it may change something."""
        if self._policy is not None:
            data = await _read_if_there(self._journal, self._incident)
            self._policy.read_only = data is not None and is_worked_on(data.incident)


async def attach_incident(journal: Journal, incident: str, person: str) -> tuple[AttachedText, ...]:
    """The state of the incident now; alerts and outputs in it are words of others. What the person
    said about it is theirs, and left out."""
    data = await _read_if_there(journal, incident)
    if data is None:
        return ()
    author = f"hermes incident show {incident}"
    return (AttachedText("output", describe_for_model(data, person), author),)


async def _read_if_there(journal: Journal, incident: str) -> ReportData | None:
    try:
        return await read_report_data(journal, incident)
    except HermesError:
        return None  # the incident is not in this journal any more


def is_worked_on(incident: Incident) -> bool:
    return incident.status == "open" and not incident.question


async def read_report_data(journal: Journal, incident: str) -> ReportData:
    """Raises `HermesError`."""
    records = await read_incident_records(journal, (await find_incident(journal, incident)).run)
    return gather_report_data(records, earlier=await read_earlier_incidents(journal, records))


def describe_briefly(incident: Incident) -> str:
    """For the person who asks by a press."""
    now = datetime.now(UTC)
    began = format_duration(incident.duration_s(now))
    parts = [
        f"{incident.severity}, {_state_text(incident)}, {began}",
        f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged else "",
        ": ".join(cause_line(incident)) if incident.diagnosis else "",
        incident.details.title,
    ]
    return visible_line(". ".join(filter(None, parts)), MAX_BRIEF_CHARS)


def describe_for_model(data: ReportData, person: str) -> str:
    incident, details = data.incident, data.incident.details
    facts = incident.diagnosis.escalation if incident.diagnosis is not None else ()
    excluded = find_excluded_causes(incident, data.layers, data.records).shown
    hints = [each for each in incident.hints if each.person != person]
    pairs = [
        ("incident", details.incident),
        ("title", details.title),
        ("severity", f"{incident.severity}: {incident.reason}"),
        ("state", _state_text(incident)),
        ("outcome", outcome_text(incident)),
        ("service", details.service),
        ("began", f"{incident.outage_began_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("duration", duration_text(incident, data.now)),
        ("acknowledged by", incident.acknowledged_by),
        ("also failing", ", ".join(incident.parts)),
        *([cause_line(incident)] if incident.diagnosis else [("cause", "not known yet")]),
        *(("fact", f"{each.about}: {each.text}") for each in facts),
        *(
            (f"investigator of {layer.layer} ({layer.status})", "; ".join(layer.findings) or "–")
            for layer in data.layers
        ),
        *(("ruled out", each) for each in excluded[:MAX_LISTED]),
        *(("changed", f"{each.command} ({each.ending})") for each in data.changes[-MAX_LISTED:]),
        *(("refused", each.command) for each in data.refused_actions[-MAX_LISTED:]),
        *(
            (f"check failed {each.when}", f"{each.check}: {each.detail}")
            for each in data.checks
            if not (each.ok or each.unknown)
        ),
        *(("hint", f"{each.person}: {each.text}") for each in hints[-MAX_LISTED:]),
        ("times in 14 days", str(data.recurrence.times)),
        ("report", incident.report_path),
    ]
    if is_worked_on(incident):
        pairs.append(("note", "Hermes works on it now; until that ends, this chat only reads"))
    return "\n".join(
        f"{name}: {visible_line(text, MAX_LINE_CHARS)}" for name, text in pairs if text
    )


def _state_text(incident: Incident) -> str:
    phase = f", {incident.phase}" if incident.phase and is_worked_on(incident) else ""
    return f"{incident.status}{phase}"
