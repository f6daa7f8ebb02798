"""What fails for reasons that an incident is not about: their checks do not judge its fix."""

from datetime import datetime

from hermes.core.messages import Value
from hermes.sre.triage.alert_series import AlertSeries
from hermes.sre.triage.incident_state import IncidentState
from hermes.sre.triage.maintenance import target_covers
from hermes.sre.triage.state import TriageState


class OtherProblems(Value, kw_only=True, frozen=True):
    services: frozenset[str] = frozenset()
    """Those with an open incident of their own."""
    checks: frozenset[str] = frozenset()
    """Those whose alerts belong to other open incidents, or fired before the incident began."""
    targets: tuple[str, ...] = ()
    """What is in maintenance."""

    def include(self, check: str, service: str) -> bool:
        if check in self.checks or (service and service in self.services):
            return True
        labels = {"service": service} if service else {}
        return any(target_covers(each, labels, check) for each in self.targets)


NO_OTHER_PROBLEMS = OtherProblems()


def find_other_problems(state: TriageState, incident: str, now: datetime) -> OtherProblems:
    own = state.incidents.get(incident)
    others = [each for each in state.incidents.values() if each is not own and each.in_progress]
    members = [series for each in others for series in state.members(each)]
    older = [] if own is None else _fired_before(state, own)
    services = {each.service for each in others} | {
        each.location.service for each in members if each.firing
    }
    return OtherProblems(
        services=frozenset(services - {"", own.service if own is not None else ""}),
        checks=frozenset(each.check for each in (*members, *older) if each.check),
        targets=tuple(each.target for each in state.calendar.open_windows(now)),
    )


def _fired_before(state: TriageState, own: IncidentState) -> list[AlertSeries]:
    return [
        each
        for each in state.series.values()
        if each.firing and each.incident != own.id and each.raised_at < own.opened_at
    ]
