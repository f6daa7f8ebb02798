"""What only many sightings together tell: what comes back, when, and after what."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import permutations

from hermes.memory.facts.fact import Candidate, Fact

SPAN = timedelta(days=14)
ENOUGH = 3
WINDOW = 60
"""Minutes of a day within which something happens "at the same time"."""
SOON = timedelta(minutes=60)
MOST_PAIRED = 40
_DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def patterns(facts: Iterable[Fact], now: datetime) -> Iterator[Candidate]:
    """From facts that were seen again and again; each says on which events it rests."""
    seen = [fact for fact in facts if fact.memory == "episodic" and len(fact.seen) >= ENOUGH]
    for fact in seen:
        yield from _recurrence(fact, now)
        yield from _hour(fact)
    for one, other in permutations(seen[:MOST_PAIRED], 2):
        yield from _follows(one, other)


def occasions(fact: Fact) -> list[datetime]:
    """One time for each run and hour: three edits in one sitting are one occasion."""
    found: dict[tuple[str, str], datetime] = {}
    for sighting in fact.seen:
        found.setdefault((sighting.run, f"{sighting.at:%Y%m%d%H}"), sighting.at)
    return sorted(found.values())


def _recurrence(fact: Fact, now: datetime) -> Iterator[Candidate]:
    recent = [at for at in occasions(fact) if now - SPAN <= at <= now]
    if len(recent) < ENOUGH:
        return
    count, days = _ordinal(len(recent)), SPAN.days
    text = f"{count} time in {days} days: {fact.text}"
    if fact.relation == "edited" and fact.about:
        text = f"{count} manual edit of {fact.about[0]} in {days} days"
    yield _candidate(fact, text, "recurs", f"recurs: {fact.id}", recent[-1])


def _hour(fact: Fact) -> Iterator[Candidate]:
    times = occasions(fact)
    if len({at.date() for at in times}) < ENOUGH:
        return
    minutes = [at.astimezone(UTC).hour * 60 + at.minute for at in times]
    start = min(minutes, key=lambda first: max((m - first) % 1440 for m in minutes))
    width = max((m - start) % 1440 for m in minutes)
    if width > WINDOW:
        return
    middle = round((start + width / 2) / 30) * 30 % 1440
    weekdays = {at.weekday() for at in times}
    day = f" on {_DAYS[weekdays.pop()]}" if len(weekdays) == 1 else ""
    text = f"{fact.text}: around {middle // 60:02}:{middle % 60:02} UTC{day}"
    yield _candidate(fact, text, "happens-at", f"when: {fact.id}", times[-1])


def _follows(one: Fact, other: Fact) -> Iterator[Candidate]:
    """Whether the one usually comes shortly before the other."""
    later = occasions(other)
    gaps: list[timedelta] = []
    for before in occasions(one):
        after = next((at for at in later if timedelta(minutes=1) <= at - before <= SOON), None)
        if after is not None:
            gaps.append(after - before)
    missed = len(occasions(one)) - len(gaps)
    if len(gaps) < ENOUGH or missed > len(gaps) // 3:
        return
    minutes = round(sorted(gaps)[len(gaps) // 2].total_seconds() / 60)
    yield Candidate(
        memory="semantic",
        text=f"{one.text} usually precedes {other.text} by about {minutes} min",
        sources=tuple(dict.fromkeys((*one.sources, *other.sources))),
        about=tuple(dict.fromkeys((*one.about, *other.about))),
        relation="correlates-with",
        key=f"precedes: {one.id} {other.id}",
        at=later[-1],
    )


def _candidate(fact: Fact, text: str, relation: str, key: str, at: datetime) -> Candidate:
    return Candidate(
        memory="semantic",
        text=text,
        sources=fact.sources,
        about=fact.about,
        relation=relation,
        key=key,
        at=at,
    )


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0)
    return f"{number}{ending or 'th'}"
