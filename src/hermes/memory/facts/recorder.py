"""Records facts in the journal, and derives patterns: what recurs, when, and after what."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import anyio

from hermes.core.events.memory import FactNoted
from hermes.core.protocols import Journal, JournalRecord, PublishEvents
from hermes.memory.facts.deduplication import FactEvent, resolve_candidates
from hermes.memory.facts.extraction import extract_candidates
from hermes.memory.facts.fact import Fact, FactCandidate, FactQuery
from hermes.memory.facts.sqlite_facts import SqliteFacts
from hermes.plumbing.units import ordinal

RECURRENCE_SPAN = timedelta(days=14)
MIN_OCCASIONS = 3
SAME_TIME_WINDOW_MIN = 60
"""Minutes of a day within which something happens "at the same time"."""
MAX_FOLLOW_GAP = timedelta(minutes=60)
MAX_PAIRED_FACTS = 40
_WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def find_patterns(facts: Iterable[Fact], now: datetime) -> Iterator[FactCandidate]:
    """From facts that were found repeatedly; each names the events it is based on."""
    repeated = [
        fact for fact in facts if fact.memory == "episodic" and len(fact.seen) >= MIN_OCCASIONS
    ]
    for fact in repeated:
        yield from _recurrence(fact, now)
        yield from _daily_time(fact)
    for one, other in permutations(repeated[:MAX_PAIRED_FACTS], 2):
        yield from _correlation(one, other)


def occasions(fact: Fact) -> list[datetime]:
    """One time for each run and hour: three edits in one session are one occasion."""
    found: dict[tuple[str, str], datetime] = {}
    for observation in fact.seen:
        found.setdefault((observation.run, f"{observation.at:%Y%m%d%H}"), observation.at)
    return sorted(found.values())


def _recurrence(fact: Fact, now: datetime) -> Iterator[FactCandidate]:
    recent = [at for at in occasions(fact) if now - RECURRENCE_SPAN <= at <= now]
    if len(recent) < MIN_OCCASIONS:
        return
    count, days = ordinal(len(recent)), RECURRENCE_SPAN.days
    text = f"{count} time in {days} days: {fact.text}"
    if fact.relation == "edited" and fact.about:
        text = f"{count} manual edit of {fact.about[0]} in {days} days"
    yield _pattern_candidate(fact, text, "recurs", f"recurs: {fact.id}", recent[-1])


def _daily_time(fact: Fact) -> Iterator[FactCandidate]:
    times = occasions(fact)
    if len({at.date() for at in times}) < MIN_OCCASIONS:
        return
    minutes = [at.astimezone(UTC).hour * 60 + at.minute for at in times]
    start = min(minutes, key=lambda first: max((m - first) % 1440 for m in minutes))
    width = max((m - start) % 1440 for m in minutes)
    if width > SAME_TIME_WINDOW_MIN:
        return
    middle = round((start + width / 2) / 30) * 30 % 1440
    weekdays = {at.weekday() for at in times}
    day = f" on {_WEEKDAYS[weekdays.pop()]}" if len(weekdays) == 1 else ""
    text = f"{fact.text}: around {middle // 60:02}:{middle % 60:02} UTC{day}"
    yield _pattern_candidate(fact, text, "happens-at", f"when: {fact.id}", times[-1])


def _correlation(one: Fact, other: Fact) -> Iterator[FactCandidate]:
    """Yield a fact if one of the two usually comes shortly before the other."""
    later = occasions(other)
    gaps: list[timedelta] = []
    for before in occasions(one):
        after = next(
            (at for at in later if timedelta(minutes=1) <= at - before <= MAX_FOLLOW_GAP), None
        )
        if after is not None:
            gaps.append(after - before)
    missed = len(occasions(one)) - len(gaps)
    if len(gaps) < MIN_OCCASIONS or missed > len(gaps) // 3:
        return
    minutes = round(sorted(gaps)[len(gaps) // 2].total_seconds() / 60)
    yield FactCandidate(
        memory="semantic",
        text=f"{one.text} usually precedes {other.text} by about {minutes} min",
        sources=tuple(dict.fromkeys((*one.sources, *other.sources))),
        about=tuple(dict.fromkeys((*one.about, *other.about))),
        relation="correlates-with",
        key=f"precedes: {one.id} {other.id}",
        at=later[-1],
    )


def _pattern_candidate(
    fact: Fact, text: str, relation: str, key: str, at: datetime
) -> FactCandidate:
    return FactCandidate(
        memory="semantic",
        text=text,
        sources=fact.sources,
        about=fact.about,
        relation=relation,
        key=key,
        at=at,
    )


MAX_PATTERN_FACTS = 500


def utc_now() -> datetime:
    return datetime.now(UTC)


class FactRecorder:
    """Opens the store at its first use. One write at a time; other processes may write too."""

    def __init__(
        self,
        path: Path,
        journal: Journal,
        publish: PublishEvents | None = None,
        *,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.facts = SqliteFacts(path, journal)
        self._journal = journal
        self._publish: Callable[..., Awaitable[Any]] = publish or journal.append
        self._clock = clock
        self._lock = anyio.Lock()

    async def record(self, run: str, candidates: Iterable[FactCandidate]) -> list[FactEvent]:
        """Note, confirm or supersede; returns the recorded events."""
        wanted = list(candidates)
        if not wanted:
            return []
        async with self._lock:
            return await self._record(run, wanted)

    async def learn(
        self,
        run: str,
        records: Sequence[JournalRecord],
        more_candidates: Sequence[FactCandidate] = (),
    ) -> list[FactEvent]:
        """Everything that rules find in these events, and `more` candidates of the caller."""
        found = [*extract_candidates(records), *more_candidates]
        if not found:
            return []
        async with self._lock:
            written = await self._record(run, found)
            if not written:
                return []
            await self.facts.catch_up()
            query = FactQuery(memory="episodic", limit=MAX_PATTERN_FACTS)
            repeated = find_patterns(await self.facts.find(query), self._clock())
            return [*written, *await self._record(run, repeated)]

    def close(self) -> None:
        self.facts.close()

    async def _record(self, run: str, candidates: Iterable[FactCandidate]) -> list[FactEvent]:
        await self.facts.catch_up()
        events = await resolve_candidates(self.facts, candidates, run=run, at=self._clock())
        if events:
            await self._publish(*events)
        return events


def noted_facts(events: Iterable[FactEvent]) -> list[FactNoted]:
    return [event for event in events if isinstance(event, FactNoted)]
