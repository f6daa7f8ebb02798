"""`hermes drill from-incident`: makes a scenario folder of a recorded incident."""

from collections.abc import Callable
from pathlib import Path

from hermes.app.changes.incident_states import kept_probes, load_state, read_kept_states
from hermes.core.errors import HermesError
from hermes.core.events.experiments import ExperimentsEnded, IncidentStateKept
from hermes.core.incident import IncidentDetails
from hermes.core.protocols import Journal
from hermes.declared.store import StateStore
from hermes.gym.incidents.build import IncidentDrill, build_incident_drill
from hermes.gym.incidents.folder import write_incident_drill
from hermes.gym.incidents.recorded import RecordedIncident

DRILLS_FOLDER = "drills"
"""In the home."""


def drill_name(incident: str) -> str:
    return f"incident-{incident.rpartition('-')[2][:12]}"


async def make_incident_drill(
    journal: Journal,
    store: StateStore,
    details: IncidentDetails,
    folder: Path,
    redact: Callable[[str], str],
) -> IncidentDrill:
    """Raises `HermesError` with what is missing."""
    recorded = await read_recorded_incident(journal, store, details)
    drill = build_incident_drill(recorded, store.content, redact)
    write_incident_drill(drill, folder, details.incident)
    return drill


async def read_recorded_incident(
    journal: Journal, store: StateStore, details: IncidentDetails
) -> RecordedIncident:
    """Raises `HermesError`."""
    kept = await read_kept_states(journal, details)
    failing = kept.get("failing")
    if failing is None or not failing.known_good:
        raise HermesError(
            f"no states were kept for {details.incident}: a drill needs a known good state from "
            "before the incident (hermes state record) and the failing state, which a watch keeps "
            "when it escalates"
        )
    recovered = kept.get("recovered")
    names = [failing.service, *_failing_units(failing)]
    return RecordedIncident(
        incident=details.incident,
        title=details.title,
        text=details.text,
        labels=details.labels,
        severity=details.severity,
        services=tuple(dict.fromkeys(name for name in names if name)),
        known=load_state(store, failing.known_good, "known good"),
        failing=load_state(store, failing.state, "failing"),
        recovered=load_state(store, recovered.state, "recovered") if recovered else None,
        causes=await _proved_causes(journal, details),
        failing_checks={each.check: each.detail for each in failing.readings if not each.ok},
        passing_checks=tuple(each.check for each in failing.readings if each.ok),
        probes=tuple(kept_probes(failing)),
    )


def _failing_units(failing: IncidentStateKept) -> list[str]:
    bad = {each.check for each in failing.readings if not each.ok}
    return [each.service for each in kept_probes(failing) if each.name in bad and each.service]


async def _proved_causes(journal: Journal, details: IncidentDetails) -> tuple[str, ...]:
    records = [each async for each in journal.read(run=details.run, kinds=("experiment.ended",))]
    for record in reversed(records):
        event = record.event
        if isinstance(event, ExperimentsEnded) and event.status == "proved":
            return event.causes
    return ()
