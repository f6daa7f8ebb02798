"""Finds symptoms on a host, and problems that returned after they were over."""

from collections.abc import Iterator

from hermes.core.incident import AlertFacts
from hermes.sre.assessment.all_clear import AllClearReason, alert_unit, is_monitor_alarm
from hermes.sre.assessment.host_state import HostObservation, LogSummary, UnitState

SINGLE_RESTART_SETTLED_S = 60
"""Seconds after which a single restart is ignored."""
REPEATED_RESTARTS_SETTLED_S = 900
"""Seconds after which repeated restarts are ignored."""
MIN_GOOD_ANSWERS = 3
"""Good answers after an error before it counts as over."""
MIN_STEADY_ANSWERS = 20
"""The same where good and bad answers have alternated."""
MIN_FREE_MEMORY_PERCENT = 8
MEMORY_GROWTH_FACTOR = 1.05


def find_symptoms(facts: AlertFacts, observation: HostObservation) -> list[str]:
    subject = alert_unit(facts, observation)
    return [
        *_unit_symptoms(observation, subject),
        *(f"{where} is full" for where in observation.state.full),
        *(f"{file} is no longer valid" for file in observation.state.expired),
        *_resource_symptoms(observation),
        *(why for log in _relevant_logs(observation, subject) for why in _failing_paths(log)),
    ]


def find_recent_symptoms(facts: AlertFacts, observation: HostObservation) -> list[str]:
    """Symptoms of a moment ago that may be over."""
    subject = alert_unit(facts, observation)
    return [why for log in _relevant_logs(observation, subject) for why in _recent_failures(log)]


def find_returned_trouble(
    before: HostObservation, now: HostObservation, reason: AllClearReason
) -> list[str]:
    """Why the problem is not over; empty when it is."""
    found = []
    for name, log in now.logs.items():
        old = before.logs.get(name, LogSummary(unit=name))
        if name != reason.monitor and (log.bad > old.bad or log.errors > old.errors):
            found.append(f"{name} failed again")
    old_units = {unit.name: unit for unit in before.state.units}
    for unit in now.state.units:
        old_unit = old_units.get(unit.name)
        if old_unit and unit.restarts > old_unit.restarts:
            found.append(f"{unit.name} was restarted again")
        if old_unit and old_unit.rss and unit.rss > old_unit.rss * MEMORY_GROWTH_FACTOR:
            found.append(f"{unit.name} grows")
    works = now.logs.get(reason.works)
    old_works = before.logs.get(reason.works)
    if (
        reason.works
        and works
        and old_works
        and works.asked + works.lines <= (old_works.asked + old_works.lines)
    ):
        found.append(f"{reason.works} has done nothing since, so nothing shows that it works")
    return found


def _unit_symptoms(observation: HostObservation, subject: str) -> Iterator[str]:
    for unit in observation.state.units:
        if unit.active in ("failed", "activating", "deactivating") and not _is_given_up(
            unit, subject
        ):
            yield f"{unit.name} is {unit.active}"
        elif unit.name == subject and unit.active == "inactive":
            yield f"{unit.name} is not running"
        elif unit.restarts and unit.up < (
            SINGLE_RESTART_SETTLED_S if unit.restarts == 1 else REPEATED_RESTARTS_SETTLED_S
        ):
            yield f"{unit.name} was restarted {unit.restarts} times"


def _is_given_up(unit: UnitState, subject: str) -> bool:
    """A unit that failed long ago and is not the one of the alert."""
    return unit.active == "failed" and unit.restarts == 0 and unit.name != subject


def _resource_symptoms(observation: HostObservation) -> Iterator[str]:
    if observation.state.memory is not None and observation.state.memory < MIN_FREE_MEMORY_PERCENT:
        yield f"{observation.state.memory} % of the memory is left"
    for pid in observation.state.busy:
        yield f"process {pid} is busy all the time"


def _relevant_logs(observation: HostObservation, subject: str) -> Iterator[LogSummary]:
    """Logs whose errors are symptoms: not those of monitors or of units that failed long ago."""
    given_up = {unit.name for unit in observation.state.units if _is_given_up(unit, subject)}
    for log in observation.logs.values():
        if log.unit not in given_up and not is_monitor_alarm(log, observation):
            yield log


def _failing_paths(log: LogSummary) -> Iterator[str]:
    for path, runs in log.runs.items():
        if runs[-1][0] == "F":
            yield f"{log.unit} answers {path} with an error"


def _recent_failures(log: LogSummary) -> Iterator[str]:
    for path, runs in log.runs.items():
        failed = [count for kind, count in runs if kind == "F"]
        if failed and runs[-1][1] < (MIN_GOOD_ANSWERS if len(failed) == 1 else MIN_STEADY_ANSWERS):
            yield f"{log.unit} answered {path} with an error a moment ago"
    if log.errors and log.after < MIN_GOOD_ANSWERS:
        yield f"{log.unit} says: {log.error_lines[-1][:160] if log.error_lines else 'errors'}"
