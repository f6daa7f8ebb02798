"""Positive grounds for saying that all is well: a check that is wrong itself, or trouble past."""

import re
from collections.abc import Iterator
from typing import Literal

from hermes.core.messages import Value
from hermes.skills.playbook.parameters import AlertFacts
from hermes.sre.assessment.host_state import HostObservation, LogSummary, MonitorConfig

_LIMIT_LINE = re.compile(
    r"^[\s\"]*([\w.-]*(?:max|min|threshold|limit|critical|crit|warn|alarm|alert|above|below|ceiling"
    r"|upper|lower|over|under|trigger)[\w.-]*)[\"\s]*[=:>]+[\s\"]*(-?\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.:/-])-?\d+(?:\.\d+)?(?![\w:/-]|\.\d)")
_WORD = re.compile(r"[a-z]{3,}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]?|\d\d:\d\d:\d\d(?:[.,]\d+)?")
_LEVEL = re.compile(r"^[\s\[<(|]*(?:level=)?(?:ERROR|FATAL|CRITICAL|WARN(?:ING)?)?[\s\]>):|-]*")
_PATH = re.compile(r"(?<![\w.])/[\w./@+-]*[\w@+-]")
_COMMON_WORDS = frozenset(
    [
        "the",
        "and",
        "for",
        "has",
        "was",
        "with",
        "are",
        "not",
        "its",
        "from",
        "since",
        "above",
        "below",
        "over",
        "min",
    ]
)
HARMLESS_VALUES = (
    (re.compile(r"percent|%|usage|utili[sz]ation|ratio"), 70.0),
    (re.compile(r"millisecond|latency|\bms\b|response time|duration"), 150.0),
    (re.compile(r"number of|count of|files|entries|sessions|sockets|processes"), 50.0),
)
"""What is measured, and a value that harms nobody."""
NEVER_HARMLESS = re.compile(
    r"\bage\b|hours? old|backup|backlog|queue|lag\b|pending|expir|certificate|\blost\b|\bfree\b"
    r"|\bleft\b|available|remaining",
    re.IGNORECASE,
)
"""Where a small number may well be trouble."""
MIN_GOOD_LINES = 3


class AllClearReason(Value, kw_only=True, frozen=True):
    verdict: Literal["no-incident", "recovered"]
    component: str
    mechanism: str
    value: str = ""
    reasons: tuple[str, ...] = ()
    monitor: str = ""
    """The unit that rings; what it says is no sign of trouble."""
    works: str = ""
    """The unit that must be seen to work."""


def alert_unit(facts: AlertFacts, seen: HostObservation) -> str:
    """The unit that an alert is about: the longest name that its labels, or its words, have."""
    labels = " ".join(facts.labels.values())
    for text in (labels, facts.combined_text):
        if found := _units_in(text, seen):
            return max(found, key=len)
    return ""


def alert_units(facts: AlertFacts, seen: HostObservation) -> list[str]:
    """All units that it names."""
    return _units_in(facts.combined_text, seen)


def _units_in(text: str, seen: HostObservation) -> list[str]:
    return [
        unit.name
        for unit in seen.state.units
        if re.search(rf"(?<![\w-]){re.escape(unit.name.removesuffix('.service'))}(?![\w-])", text)
    ]


def is_monitor_alarm(log: LogSummary, seen: HostObservation) -> bool:
    """Whether this is a monitor at work: it has a limit, and says that something is beyond it."""
    return any(_reports_limit(check, log) for check in seen.checks if check.unit == log.unit)


def _reports_limit(check: MonitorConfig, log: LogSummary) -> bool:
    if log.asked:  # one that serves requests speaks of itself
        return False
    lines = [*log.said, log.last]
    limits = {float(value) for _, value in _limits(check)}
    return any(limits & {float(each) for each in numbers_in_line(line)} for line in lines if line)


def _limits(check: MonitorConfig) -> Iterator[tuple[str, str]]:
    for line in check.lines:
        if found := _LIMIT_LINE.match(line):
            yield found[1], found[2]


def numbers_in_line(line: str) -> list[str]:
    apart = re.sub(r"(?<=\w)[=/](?=\d)", " ", _DATE.sub(" ", line))
    return _NUMBER.findall(apart)


def may_be_all_clear(facts: AlertFacts, seen: HostObservation) -> bool:
    """Whether waiting for a second look can lead to an all-clear."""
    if any(_matches_alert(check, facts) for check in seen.checks):
        return True
    log = seen.logs.get(alert_unit(facts, seen))
    return log is not None and bool(log.bad) and log.asked > log.bad


def find_all_clear_reason(facts: AlertFacts, seen: HostObservation) -> AllClearReason | None:
    return find_false_alarm(facts, seen) or find_past_trouble(facts, seen)


def find_false_alarm(facts: AlertFacts, seen: HostObservation) -> AllClearReason | None:
    """A check that rings at a value which harms nobody, while nobody else has any complaint."""
    for check in seen.checks:
        log = seen.logs.get(check.unit, LogSummary(unit=check.unit))
        if not _matches_alert(check, facts) or not (
            _reports_limit(check, log) or check.unit == "cron"
        ):
            continue
        if any(other.bad or other.errors for other in _other_logs(seen, check.unit)):
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


def _other_logs(seen: HostObservation, monitor: str) -> Iterator[LogSummary]:
    gone = {unit.name for unit in seen.state.units if unit.active == "failed"}
    return (log for name, log in seen.logs.items() if name != monitor and name not in gone)


def _matches_alert(check: MonitorConfig, facts: AlertFacts) -> bool:
    """The alert names its limit, or speaks of what it measures."""
    words = set(_WORD.findall(facts.combined_text.lower())) - _COMMON_WORDS
    own = set(_WORD.findall(" ".join(check.lines).lower())) - _COMMON_WORDS
    said = {float(each) for each in numbers_in_line(facts.combined_text)}
    limits = {float(value) for _, value in _limits(check)}
    return len(words & own) >= 2 or (bool(limits & said) and bool(words & own))


def _measured_value(log: LogSummary, limit: str) -> float | None:
    """What was measured, from the last line that has the limit in it."""
    for line in [log.last, *reversed(log.said)]:
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
) -> AllClearReason:
    line = next(line for line in check.lines if name in line)
    who = check.unit.removesuffix(".service")
    return AllClearReason(
        verdict="no-incident",
        component=check.file,
        mechanism=f"false alarm: the threshold {name} of this check is a wrong limit, too low: a "
        f"healthy host is at {value:g} and crosses {limit}",
        value=line,
        reasons=(
            f"{who} rings because of {line!r} in {check.file}; it measures {value:g}",
            "all units run, nothing is full, and no log has an error",
        ),
        monitor=check.unit,
    )


def find_past_trouble(facts: AlertFacts, seen: HostObservation) -> AllClearReason | None:
    """Errors in the log of what the alert is about, and good answers ever since."""
    subject = alert_unit(facts, seen)
    log = seen.logs.get(subject)
    if log is None or not (log.errors or log.bad) or log.after < MIN_GOOD_LINES or log.died:
        return None
    if not any(runs[-1][0] == "S" for runs in log.runs.values()):
        return None
    told = [line for line in log.said if not re.search(r"(GET|POST|PUT) /", line)] or [*log.said]
    if not told:
        return None
    cause = _LEVEL.sub("", _DATE.sub("", told[-1])).strip()
    return AllClearReason(
        verdict="recovered",
        component=_failed_component(cause, seen, subject),
        mechanism=f"for a short time: {cause[:200]}; it has recovered since",
        value=cause[:110],
        reasons=(
            f"{subject} last failed with {cause[:160]!r}",
            f"{log.after} good lines since, and none that is not",
        ),
        works=subject,
    )


def _failed_component(cause: str, seen: HostObservation, subject: str) -> str:
    names = [unit.name.removesuffix(".service") for unit in seen.state.units]
    for name in sorted(names, key=len, reverse=True):
        if f"{name}.service" != subject and re.search(rf"(?<![\w-]){name}(?![\w-])", cause):
            return name
    found = _PATH.search(cause)
    return found[0] if found else subject.removesuffix(".service")
