"""Positive grounds for saying that all is well: a check that is wrong itself, or trouble past."""

import re
from collections.abc import Iterator
from typing import Literal

from hermes.core.messages import Value
from hermes.skills.playbook.facts import Facts
from hermes.sre.assessing.whole_host import Log, Monitor, Seen

_LIMIT = re.compile(
    r"^[\s\"]*([\w.-]*(?:max|min|threshold|limit|critical|crit|warn|alarm|alert|above|below|ceiling"
    r"|upper|lower|over|under|trigger)[\w.-]*)[\"\s]*[=:>]+[\s\"]*(-?\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.:/-])-?\d+(?:\.\d+)?(?![\w:/-]|\.\d)")
_WORD = re.compile(r"[a-z]{3,}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]?|\d\d:\d\d:\d\d(?:[.,]\d+)?")
_LEVEL = re.compile(r"^[\s\[<(|]*(?:level=)?(?:ERROR|FATAL|CRITICAL|WARN(?:ING)?)?[\s\]>):|-]*")
_PATH = re.compile(r"(?<![\w.])/[\w./@+-]*[\w@+-]")
_COMMON = frozenset(
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
HARMLESS = (
    (re.compile(r"percent|%|usage|utili[sz]ation|ratio"), 70.0),
    (re.compile(r"millisecond|latency|\bms\b|response time|duration"), 150.0),
    (re.compile(r"number of|count of|files|entries|sessions|sockets|processes"), 50.0),
)
"""What is measured, and a value that harms nobody."""
NEVER = re.compile(
    r"\bage\b|hours? old|backup|backlog|queue|lag\b|pending|expir|certificate|\blost\b|\bfree\b"
    r"|\bleft\b|available|remaining",
    re.IGNORECASE,
)
"""Where a small number may well be trouble."""
ENOUGH = 3


class Grounds(Value, kw_only=True, frozen=True):
    verdict: Literal["no-incident", "recovered"]
    component: str
    mechanism: str
    value: str = ""
    reasons: tuple[str, ...] = ()
    monitor: str = ""
    """The unit that rings; what it says is no sign of trouble."""
    works: str = ""
    """The unit that must be seen to work."""


def subject_of(facts: Facts, seen: Seen) -> str:
    """The unit that an alert is about: the longest name that its labels, or its words, have."""
    labels = " ".join(facts.labels.values())
    for text in (labels, facts.words):
        if found := _units_in(text, seen):
            return max(found, key=len)
    return ""


def subjects_of(facts: Facts, seen: Seen) -> list[str]:
    """All units that it names."""
    return _units_in(facts.words, seen)


def _units_in(text: str, seen: Seen) -> list[str]:
    return [
        unit.name
        for unit in seen.state.units
        if re.search(rf"(?<![\w-]){re.escape(unit.name.removesuffix('.service'))}(?![\w-])", text)
    ]


def complains(log: Log, seen: Seen) -> bool:
    """Whether this is a monitor at work: it has a limit, and says that something is beyond it."""
    return any(_rings(check, log) for check in seen.checks if check.unit == log.unit)


def _rings(check: Monitor, log: Log) -> bool:
    if log.asked:  # one that serves requests speaks of itself
        return False
    lines = [*log.said, log.last]
    limits = {float(value) for _, value in _limits(check)}
    return any(limits & {float(each) for each in numbers_in(line)} for line in lines if line)


def _limits(check: Monitor) -> Iterator[tuple[str, str]]:
    for line in check.lines:
        if found := _LIMIT.match(line):
            yield found[1], found[2]


def numbers_in(line: str) -> list[str]:
    apart = re.sub(r"(?<=\w)[=/](?=\d)", " ", _DATE.sub(" ", line))
    return _NUMBER.findall(apart)


def may_be_well(facts: Facts, seen: Seen) -> bool:
    """Whether waiting for a second look can lead to an all-clear."""
    if any(_about_alert(check, facts) for check in seen.checks):
        return True
    log = seen.logs.get(subject_of(facts, seen))
    return log is not None and bool(log.bad) and log.asked > log.bad


def grounds_for(facts: Facts, seen: Seen) -> Grounds | None:
    return false_alarm(facts, seen) or passed_trouble(facts, seen)


def false_alarm(facts: Facts, seen: Seen) -> Grounds | None:
    """A check that rings at a value which harms nobody, while nobody else has any complaint."""
    for check in seen.checks:
        log = seen.logs.get(check.unit, Log(unit=check.unit))
        if not _about_alert(check, facts) or not (_rings(check, log) or check.unit == "cron"):
            continue
        if any(other.bad or other.errors for other in _others(seen, check.unit)):
            continue
        text = " ".join([*check.lines, facts.words])
        if NEVER.search(text):
            continue
        for name, limit in _limits(check):
            value = _value(log, limit) or _value(Log(unit="", last=facts.words), limit)
            if value is not None and _harmless(text.lower(), value):
                return _senseless(check, name, limit, value, facts)
    return None


def _others(seen: Seen, monitor: str) -> Iterator[Log]:
    gone = {unit.name for unit in seen.state.units if unit.active == "failed"}
    return (log for name, log in seen.logs.items() if name != monitor and name not in gone)


def _about_alert(check: Monitor, facts: Facts) -> bool:
    """The alert names its limit, or speaks of what it measures."""
    words = set(_WORD.findall(facts.words.lower())) - _COMMON
    own = set(_WORD.findall(" ".join(check.lines).lower())) - _COMMON
    said = {float(each) for each in numbers_in(facts.words)}
    limits = {float(value) for _, value in _limits(check)}
    return len(words & own) >= 2 or (bool(limits & said) and bool(words & own))


def _value(log: Log, limit: str) -> float | None:
    """What was measured, from the last line that has the limit in it."""
    for line in [log.last, *reversed(log.said)]:
        numbers = [float(each) for each in numbers_in(line)]
        if float(limit) in numbers:
            numbers.remove(float(limit))
            beyond = [each for each in numbers if each > float(limit)]
            if beyond:
                return beyond[0]
    return None


def _harmless(text: str, value: float) -> bool:
    return any(pattern.search(text) and value <= most for pattern, most in HARMLESS)


def _senseless(check: Monitor, name: str, limit: str, value: float, facts: Facts) -> Grounds:
    line = next(line for line in check.lines if name in line)
    who = check.unit.removesuffix(".service")
    return Grounds(
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


def passed_trouble(facts: Facts, seen: Seen) -> Grounds | None:
    """Errors in the log of what the alert is about, and good answers ever since."""
    subject = subject_of(facts, seen)
    log = seen.logs.get(subject)
    if log is None or not (log.errors or log.bad) or log.after < ENOUGH or log.died:
        return None
    if not any(runs[-1][0] == "S" for runs in log.runs.values()):
        return None
    told = [line for line in log.said if not re.search(r"(GET|POST|PUT) /", line)] or [*log.said]
    if not told:
        return None
    cause = _LEVEL.sub("", _DATE.sub("", told[-1])).strip()
    return Grounds(
        verdict="recovered",
        component=_culprit(cause, seen, subject),
        mechanism=f"for a short time: {cause[:200]}; it has recovered since",
        value=cause[:110],
        reasons=(
            f"{subject} last failed with {cause[:160]!r}",
            f"{log.after} good lines since, and none that is not",
        ),
        works=subject,
    )


def _culprit(cause: str, seen: Seen, subject: str) -> str:
    names = [unit.name.removesuffix(".service") for unit in seen.state.units]
    for name in sorted(names, key=len, reverse=True):
        if f"{name}.service" != subject and re.search(rf"(?<![\w-]){name}(?![\w-])", cause):
            return name
    found = _PATH.search(cause)
    return found[0] if found else subject.removesuffix(".service")
