"""Many incidents in numbers: how many, how long, and whether skills make it shorter."""

import statistics as numbers
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

from hermes.core.messages import Value
from hermes.sre.incident import Incident
from hermes.sre.report.statements import answer_of
from hermes.sre.report.times import times_of

WITH_SKILLS, WITHOUT = "with skills", "without"
RECURRING = 10


class Spread(Value, kw_only=True, frozen=True):
    """Seconds of those of which it is known."""

    count: int = 0
    median: float | None = None
    p90: float | None = None


class Week(Value, kw_only=True, frozen=True):
    """Times to repair of the incidents that were opened in the week from this Monday on."""

    begins: date
    repaired: dict[str, Spread]
    """With skills, without them, and by whom."""


class Again(Value, kw_only=True, frozen=True):
    fingerprint: str
    title: str
    times: int
    last_at: datetime
    by_skill: int = 0
    """How many of them a playbook answered."""
    first: float | None = None
    """Seconds to repair the first time, and the last time it is known."""
    last: float | None = None


class Statistics(Value, kw_only=True, frozen=True):
    incidents: int
    open: int
    """Worked on, or waiting for people."""
    severity: dict[str, int]
    outcome: dict[str, int]
    answered_by: dict[str, int]
    detect: Spread
    acknowledge: Spread
    repair: Spread
    repaired_by: dict[str, Spread]
    weeks: tuple[Week, ...]
    recurring: tuple[Again, ...]


def statistics(incidents: Sequence[Incident]) -> Statistics:
    times = [times_of(each) for each in incidents]
    return Statistics(
        incidents=len(incidents),
        open=sum(each.unresolved for each in incidents),
        severity=_counted(each.severity for each in incidents),
        outcome=_counted(each.status for each in incidents),
        answered_by=_counted(_who(each) for each in incidents if each.closed is not None),
        detect=spread(each.detect for each in times),
        acknowledge=spread(each.acknowledge for each in times),
        repair=spread(map(_repair, incidents)),
        repaired_by=_apart(incidents),
        weeks=_weeks(incidents),
        recurring=_recurring(incidents),
    )


def spread(seconds: Iterable[float | None]) -> Spread:
    known = sorted(each for each in seconds if each is not None)
    if not known:
        return Spread()
    return Spread(count=len(known), median=numbers.median(known), p90=_percentile(known, 0.9))


def _percentile(known: Sequence[float], share: float) -> float:
    """Between the two nearest, so that one of few does not count for all."""
    place = share * (len(known) - 1)
    low = int(place)
    high = min(low + 1, len(known) - 1)
    return known[low] + (known[high] - known[low]) * (place - low)


def _repair(incident: Incident) -> float | None:
    return times_of(incident).repair


def _who(incident: Incident) -> str:
    return answer_of(incident).by


def _apart(incidents: Sequence[Incident]) -> dict[str, Spread]:
    groups: dict[str, list[float | None]] = defaultdict(list)
    for each in incidents:
        if (seconds := _repair(each)) is not None:
            who = _who(each)
            groups[who].append(seconds)
            groups[WITH_SKILLS if who == "playbook" else WITHOUT].append(seconds)
    return {
        name: spread(groups[name]) for name in (*_KINDS, WITH_SKILLS, WITHOUT) if name in groups
    }


_KINDS = ("playbook", "model", "person", "nobody")


def _weeks(incidents: Sequence[Incident]) -> tuple[Week, ...]:
    by_week: dict[date, list[Incident]] = defaultdict(list)
    for each in incidents:
        day = each.case.opened_at.astimezone(UTC).date()
        by_week[day - timedelta(days=day.weekday())].append(each)
    found = [Week(begins=begins, repaired=_apart(by_week[begins])) for begins in sorted(by_week)]
    return tuple(week for week in found if week.repaired)


def _recurring(incidents: Sequence[Incident]) -> tuple[Again, ...]:
    same: dict[str, list[Incident]] = defaultdict(list)
    for each in incidents:
        if each.case.fingerprint:
            same[each.case.fingerprint].append(each)
    found = [_again(name, group) for name, group in same.items() if len(group) > 1]
    found.sort(key=lambda each: (each.times, each.last_at), reverse=True)
    return tuple(found[:RECURRING])


def _again(fingerprint: str, group: Sequence[Incident]) -> Again:
    repaired = [seconds for each in group if (seconds := _repair(each)) is not None]
    return Again(
        fingerprint=fingerprint,
        title=group[-1].case.title,
        times=len(group),
        last_at=group[-1].case.opened_at,
        by_skill=sum(_who(each) == "playbook" for each in group),
        first=repaired[0] if repaired else None,
        last=repaired[-1] if len(repaired) > 1 else None,
    )


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))
