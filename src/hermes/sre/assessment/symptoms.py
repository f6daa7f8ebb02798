"""Finds symptoms on a host, and reasons for an all-clear.

These are a monitor with a wrong limit, or a problem that is over and does not return.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from hermes.core.incident import AlertFacts
from hermes.core.messages import Value
from hermes.plumbing.units import format_duration
from hermes.sre.assessment.host_state import HostObservation, LogSummary, MonitorConfig, UnitState

_LIMIT_LINE = re.compile(
    r"^[\s\"]*([\w.-]*(?:max|min|threshold|limit|critical|crit|warn|alarm|alert|above|below|ceiling"
    r"|upper|lower|over|under|trigger)[\w.-]*)[\"\s]*[=:>]+[\s\"]*(-?\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.:/-])-?\d+(?:\.\d+)?(?![\w:/-]|\.\d)")
_WORD = re.compile(r"[a-z]{3,}")
_BUSY_PROCESS = re.compile(r"process \d+ is busy all the time")
_LOAD_WORDS = re.compile(
    r"\b(?:cpu|processors?|load|slow|latency|took|within|timed? ?out|busy|hangs?)\b", re.IGNORECASE
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]?|\d\d:\d\d:\d\d(?:[.,]\d+)?")
_LEVEL = re.compile(r"^[\s\[<(|]*(?:level=)?(?:ERROR|FATAL|CRITICAL|WARN(?:ING)?)?[\s\]>):|-]*")
_PATH = re.compile(r"(?<![\w.])/[\w./@+-]*[\w@+-]")
_COMMON_WORDS = frozenset(
    {
        *("the", "and", "for", "has", "was", "with", "are", "not", "its", "from", "since"),
        *("above", "below", "over", "min"),
    }
)
HARMLESS_VALUES = (
    (re.compile(r"percent|%|usage|utili[sz]ation|ratio"), 70.0),
    (re.compile(r"millisecond|latency|\bms\b|response time|duration"), 150.0),
    (re.compile(r"number of|count of|files|entries|sessions|sockets|processes"), 50.0),
)
"""What is measured, and the highest value that is harmless."""
NEVER_HARMLESS = re.compile(
    r"\bage\b|hours? old|backup|backlog|queue|lag\b|pending|expir|certificate|\blost\b|\bfree\b"
    r"|\bleft\b|available|remaining",
    re.IGNORECASE,
)
"""Measurements of which a small number may be a problem."""
MIN_GOOD_LINES = 3


class Assessment(Value, kw_only=True, frozen=True):
    verdict: Literal["no-incident", "recovered", "wrong", "unknown"]
    evidence: tuple[str, ...] = ()
    """Ids of the tool calls that show it."""
    reasons: tuple[str, ...] = ()
    component: str = ""
    """What raised a false alarm, or what had failed for a while."""
    mechanism: str = ""
    value: str = ""
    monitor: str = ""
    """For a false alarm: the unit that raises it; its log lines are no symptoms."""
    works: str = ""
    """For a problem that is over: the unit that must be observed to work."""

    @property
    def all_clear(self) -> bool:
        return self.verdict in ("no-incident", "recovered")


def alert_unit(facts: AlertFacts, observation: HostObservation) -> str:
    """The unit that an alert is about: the longest unit name in its labels, else in its text."""
    labels = " ".join(facts.labels.values())
    for text in (labels, facts.combined_text):
        if found := _units_in(text, observation):
            return max(found, key=len)
    return ""


def alert_units(facts: AlertFacts, observation: HostObservation) -> list[str]:
    """All units that the alert names."""
    return _units_in(facts.combined_text, observation)


def _units_in(text: str, observation: HostObservation) -> list[str]:
    return [
        unit.name
        for unit in observation.state.units
        if re.search(rf"(?<![\w-]){re.escape(unit.name.removesuffix('.service'))}(?![\w-])", text)
    ]


def is_monitor_alarm(log: LogSummary, observation: HostObservation) -> bool:
    """Return whether the log is of a monitor that reports a value beyond its limit."""
    return any(_reports_limit(check, log) for check in observation.checks if check.unit == log.unit)


def _reports_limit(check: MonitorConfig, log: LogSummary) -> bool:
    if log.asked:  # a service that answers requests logs its own errors
        return False
    lines = [*log.error_lines, log.last]
    limits = {float(value) for _, value in _limits(check)}
    return any(limits & {float(each) for each in numbers_in_line(line)} for line in lines if line)


def _limits(check: MonitorConfig) -> Iterator[tuple[str, str]]:
    for line in check.lines:
        if found := _LIMIT_LINE.match(line):
            yield found[1], found[2]


def numbers_in_line(line: str) -> list[str]:
    apart = re.sub(r"(?<=\w)[=/](?=\d)", " ", _DATE.sub(" ", line))
    return _NUMBER.findall(apart)


def may_be_all_clear(facts: AlertFacts, observation: HostObservation) -> bool:
    """Return whether a second observation may lead to an all-clear."""
    if any(_matches_alert(check, facts) for check in observation.checks):
        return True
    log = observation.logs.get(alert_unit(facts, observation))
    return log is not None and bool(log.bad) and log.asked > log.bad


def find_all_clear_reason(facts: AlertFacts, observation: HostObservation) -> Assessment | None:
    return find_false_alarm(facts, observation) or find_past_trouble(facts, observation)


def find_false_alarm(facts: AlertFacts, observation: HostObservation) -> Assessment | None:
    """A monitor that raises an alarm at a harmless value, while no other log has an error."""
    for check in observation.checks:
        log = observation.logs.get(check.unit, LogSummary(unit=check.unit))
        if not _matches_alert(check, facts) or not (
            _reports_limit(check, log) or check.unit == "cron"
        ):
            continue
        if any(other.bad or other.errors for other in _other_logs(observation, check.unit)):
            continue
        text = " ".join([*check.lines, facts.combined_text])
        if NEVER_HARMLESS.search(text):
            continue
        for name, limit in _limits(check):
            value = _measured_value(log, limit) or _measured_value(
                LogSummary(unit="", last=facts.combined_text), limit
            )
            if value is not None and _is_harmless(text.lower(), value):
                return _false_alarm_reason(check, name, limit, value, facts)
    return None


def _other_logs(observation: HostObservation, monitor: str) -> Iterator[LogSummary]:
    gone = {unit.name for unit in observation.state.units if unit.active == "failed"}
    return (log for name, log in observation.logs.items() if name != monitor and name not in gone)


def _matches_alert(check: MonitorConfig, facts: AlertFacts) -> bool:
    """Return whether the alert mentions the limit of this monitor, or what it measures."""
    words = set(_WORD.findall(facts.combined_text.lower())) - _COMMON_WORDS
    own = set(_WORD.findall(" ".join(check.lines).lower())) - _COMMON_WORDS
    named_numbers = {float(each) for each in numbers_in_line(facts.combined_text)}
    limits = {float(value) for _, value in _limits(check)}
    return len(words & own) >= 2 or (bool(limits & named_numbers) and bool(words & own))


def _measured_value(log: LogSummary, limit: str) -> float | None:
    """The measured value, from the last line that contains the limit."""
    for line in [log.last, *reversed(log.error_lines)]:
        numbers = [float(each) for each in numbers_in_line(line)]
        if float(limit) in numbers:
            numbers.remove(float(limit))
            beyond = [each for each in numbers if each > float(limit)]
            if beyond:
                return beyond[0]
    return None


def _is_harmless(text: str, value: float) -> bool:
    return any(pattern.search(text) and value <= most for pattern, most in HARMLESS_VALUES)


def _false_alarm_reason(
    check: MonitorConfig, name: str, limit: str, value: float, facts: AlertFacts
) -> Assessment:
    line = next(line for line in check.lines if name in line)
    monitor = check.unit.removesuffix(".service")
    return Assessment(
        verdict="no-incident",
        component=check.file,
        mechanism=f"false alarm: the threshold {name} of this check is a wrong limit, too low: a "
        f"healthy host is at {value:g} and crosses {limit}",
        value=line,
        reasons=(
            f"{monitor} raises an alarm because of {line!r} in {check.file}; it measures {value:g}",
            "all units run, nothing is full, and no log has an error",
        ),
        monitor=check.unit,
    )


def find_past_trouble(facts: AlertFacts, observation: HostObservation) -> Assessment | None:
    """Errors in the log of the unit of the alert, and only good answers since."""
    subject = alert_unit(facts, observation)
    log = observation.logs.get(subject)
    if log is None or not (log.errors or log.bad) or log.after < MIN_GOOD_LINES or log.died:
        return None
    if not any(runs[-1][0] == "S" for runs in log.runs.values()):
        return None
    lines = [line for line in log.error_lines if not re.search(r"(GET|POST|PUT) /", line)] or [
        *log.error_lines
    ]
    if not lines:
        return None
    cause = _LEVEL.sub("", _DATE.sub("", lines[-1])).strip()
    return Assessment(
        verdict="recovered",
        component=_failed_component(cause, observation, subject),
        mechanism=f"for a short time: {cause[:200]}; it has recovered since",
        value=cause[:110],
        reasons=(
            f"{subject} last failed with {cause[:160]!r}",
            f"{log.after} good lines since, and none that is not",
        ),
        works=subject,
    )


def _failed_component(cause: str, observation: HostObservation, subject: str) -> str:
    names = [unit.name.removesuffix(".service") for unit in observation.state.units]
    for name in sorted(names, key=len, reverse=True):
        if f"{name}.service" != subject and re.search(rf"(?<![\w-]){name}(?![\w-])", cause):
            return name
    found = _PATH.search(cause)
    return found[0] if found else subject.removesuffix(".service")


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
    before: HostObservation, now: HostObservation, reason: Assessment
) -> list[str]:
    """Return why the problem is not over; empty when it is."""
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
        elif (
            unit.restarts
            and unit.up is not None
            and unit.up
            < (SINGLE_RESTART_SETTLED_S if unit.restarts == 1 else REPEATED_RESTARTS_SETTLED_S)
        ):
            up = format_duration(unit.up)
            yield f"{unit.name} was restarted {unit.restarts} times, and runs for {up}"


def _is_given_up(unit: UnitState, subject: str) -> bool:
    """A unit that failed long ago and is not the one of the alert."""
    return unit.active == "failed" and unit.restarts == 0 and unit.name != subject


def related_symptoms(symptoms: Sequence[str], facts: AlertFacts) -> list[str]:
    """Symptoms that may be a cause: a process that is busy explains only what is slow."""
    slow = _LOAD_WORDS.search(facts.combined_text) is not None
    return [each for each in symptoms if slow or not _BUSY_PROCESS.fullmatch(each)]


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
