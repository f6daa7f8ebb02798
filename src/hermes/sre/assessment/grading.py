"""Grades an incident again by the symptoms that its assessment found.

An alert may say little about what users notice: a log with errors, for instance. The severity and
its reason follow from what the journal shows by then.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from hermes.core.events import Event
from hermes.core.events.incidents import AlertRaised, IncidentAssessed, IncidentGraded
from hermes.core.incident import Incident
from hermes.skills.supervisors.units import same_service
from hermes.sre.assessment.symptoms import Assessment
from hermes.sre.settings import ServiceWeight
from hermes.sre.triage.severity import AlertImpact, IncidentImpact, alert_impact, is_graver
from hermes.sre.triage.topology import AlertLocation, alert_location

_ERROR_ANSWERS = re.compile(r"(\S+) answers (\S+) with an error")
_NOT_RUNNING = re.compile(r"(\S+) is (?:failed|not running)")


def assessment_events(
    incident: Incident, found: Assessment, weights: Mapping[str, ServiceWeight]
) -> Iterator[Event]:
    """The assessment, and the severity where it follows otherwise from what was found."""
    run, id = incident.details.run, incident.details.incident
    yield IncidentAssessed(
        run=run,
        incident=id,
        verdict=found.verdict,
        reasons=found.reasons,
        calls=found.evidence,
        component=found.component,
        mechanism=found.mechanism,
        value=found.value,
    )
    if found.verdict != "wrong" or incident.graded_by_person:
        return
    details = incident.details
    alert = AlertRaised(
        run=run, fingerprint="", title=details.title, labels=tuple(details.labels.items())
    )
    location = alert_location(details.labels)
    location = AlertLocation(details.service or location.service, location.host, location.namespace)
    of_alert = alert_impact(alert)
    before, after = IncidentImpact(weights), IncidentImpact(weights)
    before.add(location, of_alert)
    after.add(location, of_alert)
    for impact in symptom_impacts(found.reasons, location.service, of_alert):
        after.add(location, impact)
    old, (severity, why) = before.grade()[1], after.grade()
    graver = is_graver(severity, incident.severity)
    reason = why if graver else incident.reason
    if old and old in incident.reason:
        reason = incident.reason.replace(old, why, 1)
    if graver or reason != incident.reason:
        yield IncidentGraded(
            run=run,
            incident=id,
            severity=severity if graver else incident.severity,
            before=incident.severity,
            reason=reason,
        )


def symptom_impacts(
    symptoms: Sequence[str], service: str, alert: AlertImpact
) -> Iterator[AlertImpact]:
    """What the symptoms mean for users. A symptom of another service may have nothing to do with
    the alert: it is named, and raises no severity."""
    failing: dict[str, list[str]] = {}
    for symptom in symptoms:
        if answers := _ERROR_ANSWERS.fullmatch(symptom):
            failing.setdefault(answers[1].removesuffix(".service"), []).append(answers[2])
        elif (stopped := _NOT_RUNNING.fullmatch(symptom)) and same_service(stopped[1], service):
            yield AlertImpact("down", f"{service} does not work: {symptom}")
    for name, paths in failing.items():
        why = f"users of {name} get errors, by its log: it answers {' and '.join(paths[:3])}"
        own = same_service(name, service) if service else not alert.known
        effect = "worse" if own else alert.effect
        if own or not alert.known:
            text = why if own else f"{service} logs errors; {why}"
            yield AlertImpact(effect, f"{text} with an error")
