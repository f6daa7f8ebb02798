"""Summarises what was observed while a service was healthy, in bounded memory.

Numbers are kept as half-hours of the last day and as days of the last two weeks: lowest, highest
and mean. Answers are kept as counts of what they looked like.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from hermes.sre.probes.answer_facts import (
    ABSENT,
    ANY_KEY,
    ROOT_PATH,
    AnswerFacts,
    parent_path,
    path_depth,
)

PERIOD_S, DAY_S = 1800.0, 86_400.0
MAX_PERIODS, MAX_DAYS = 48, 14
FULL_DAY_PERIODS = 46
"""Half-hours with values that count as a day: a restart of the watch may cost two of them."""
MAX_KINDS, MAX_KNOWN_PATHS = 8, 120
SMOOTHED_VALUES = 5


class Period(msgspec.Struct, array_like=True):
    """The values of a half-hour or of a day."""

    start: float
    low: float
    high: float
    total: float
    count: int

    def add(self, value: float) -> None:
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.total, self.count = self.total + value, self.count + 1


class NumberSummary(msgspec.Struct, omit_defaults=True):
    """One measured number of a service."""

    count: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    periods: list[Period] = msgspec.field(default_factory=list)
    days: list[Period] = msgspec.field(default_factory=list)

    def learn(self, value: float, at: float) -> None:
        if at < self.last_at:  # the clock was set back
            self.periods = [each for each in self.periods if each.start <= at]
            self.first_at = min(self.first_at, at)
        self.first_at = self.first_at or at
        self.last_at, self.count = at, self.count + 1
        _add_to(self.periods, value, at, PERIOD_S, MAX_PERIODS)
        _add_to(self.days, value, at, DAY_S, MAX_DAYS)

    def forget(self) -> None:
        self.count, self.first_at, self.last_at = 0, 0.0, 0.0
        self.periods, self.days = [], []

    @property
    def learned_s(self) -> float:
        """The time in which values were learned; pauses of the watch do not count."""
        if not self.count:
            return 0.0
        known = max(len(self.periods), 1) * PERIOD_S
        if len(self.days) > 1:
            known = max(known, (len(self.days) - 1) * DAY_S)
        return min(self.last_at - self.first_at, known)

    @property
    def knows_a_day(self) -> bool:
        """Whether each time of the day was seen, so that a usual night is no surprise."""
        return len(self.periods) >= FULL_DAY_PERIODS or len(self.days) > 2

    def extremes(self, before: float | None = None) -> tuple[float, float] | None:
        """The lowest and the highest value; `before`: only of periods that ended by then."""
        found = [each for each in self.periods if before is None or each.start + PERIOD_S <= before]
        found += [each for each in self.days if before is None or each.start + DAY_S <= before]
        if not found:
            return None
        return min(each.low for each in found), max(each.high for each in found)

    @property
    def mean(self) -> float:
        count = sum(each.count for each in self.periods)
        return sum(each.total for each in self.periods) / count if count else 0.0


def _add_to(
    periods: list[Period], value: float, at: float, length_s: float, max_periods: int
) -> None:
    start = at - at % length_s
    if periods and periods[-1].start == start:
        periods[-1].add(value)
        return
    periods.append(Period(start, value, value, value, 1))
    del periods[: max(0, len(periods) - max_periods)]
    oldest = start - length_s * max_periods
    while periods[0].start <= oldest:
        del periods[0]


class PathSummary(msgspec.Struct, array_like=True):
    """What was seen at one path of the body."""

    kinds: dict[str, int] = msgspec.field(default_factory=dict)


class AnswerSummary(msgspec.Struct, omit_defaults=True):
    """The answers of one page."""

    count: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    statuses: dict[str, int] = msgspec.field(default_factory=dict)
    content_types: dict[str, int] = msgspec.field(default_factory=dict)
    shaped: int = 0
    """Answers with a shape."""
    unshaped: int = 0
    """Answers without one, although all of the body was read."""
    paths: dict[str, PathSummary] = msgspec.field(default_factory=dict)
    hours: int = 0
    """Hours of the day in which it was seen, one bit each."""

    def learn(self, facts: AnswerFacts, at: float) -> None:
        self.first_at = min(self.first_at or at, at)
        self.last_at, self.count = at, self.count + 1
        self.hours |= 1 << int(at % DAY_S // 3600)
        _count(self.statuses, str(facts.status))
        _count(self.content_types, facts.content_type)
        if facts.shape:
            self._learn_shape(facts)
        elif facts.complete:
            self.unshaped += 1

    def _learn_shape(self, facts: AnswerFacts) -> None:
        for path, kind in shape_kinds(facts, [*self.paths]):
            known = self.paths.get(path)
            if known is None:
                if kind == ABSENT or len(self.paths) >= MAX_KNOWN_PATHS:
                    continue
                known = self.paths[path] = PathSummary()
                if self._was_absent_before(path):
                    _count(known.kinds, ABSENT)
            _count(known.kinds, kind)
        self.shaped += 1

    def _was_absent_before(self, path: str) -> bool:
        """Return whether earlier answers had its parent, and not the path itself."""
        parent = parent_path(path)
        above = self.paths.get(parent) if parent is not None else None
        if path == ROOT_PATH or not self.shaped or above is None:
            return bool(self.shaped)
        return sum(above.kinds.get(kind, 0) for kind in ("object", "list")) > 0

    def forget(self) -> None:
        self.count = self.shaped = self.unshaped = self.hours = 0
        self.first_at = self.last_at = 0.0
        self.statuses, self.content_types, self.paths = {}, {}, {}

    @property
    def learned_s(self) -> float:
        return self.last_at - self.first_at

    @property
    def knows_a_day(self) -> bool:
        return self.hours.bit_count() >= 23 and self.learned_s >= DAY_S - 2 * 3600


def shape_kinds(facts: AnswerFacts, known: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each path with each kind. A known path is absent where its object is there without it."""
    for path, kinds in facts.shape.items():
        for kind in kinds:
            yield path, kind
    for path in known:
        parent = parent_path(path)
        if path in facts.shape or parent is None or path.endswith("[]"):
            continue
        any_key = f"{parent}.{ANY_KEY}" if parent else ANY_KEY
        if path_depth(path) > facts.depth or any_key in facts.shape:
            continue
        if "object" in facts.shape.get(parent, ()):
            yield path, ABSENT


def _count(counts: dict[str, int], key: str) -> None:
    if key in counts or len(counts) < MAX_KINDS:
        counts[key] = counts.get(key, 0) + 1


class Growth(msgspec.Struct, omit_defaults=True):
    """A rise of a number since it was last low; it ends when half of the rise is gone."""

    since: float = 0.0
    start: float = 0.0
    peak: float = 0.0
    half: list[tuple[float, float]] = msgspec.field(default_factory=list)
    """Time and value at a few moments of the rise."""
    longest_s: float = 0.0
    """The longest rise that ended without a report."""

    def add(self, value: float, at: float, *, learn: bool = True) -> None:
        """`learn`: whether a rise that ends now was a usual one."""
        ended = value <= self.start + (self.peak - self.start) / 2 or at < self.since
        if not self.since or (ended and value < self.peak) or value <= self.start:
            if learn and self.since and self.peak > self.start:
                self.longest_s = max(self.longest_s, self._rise_s())
            self.since, self.start, self.peak, self.half = at, value, value, [(at, value)]
            return
        self.peak = max(self.peak, value)
        self.half.append((at, value))
        if len(self.half) > 2 * MAX_PERIODS:
            self.half = self.half[::2]

    def _rise_s(self) -> float:
        """From the start to the highest value."""
        top = next((at for at, value in self.half if value >= self.peak * 0.98), self.since)
        return max(0.0, top - self.since)

    def reset(self) -> None:
        self.since, self.start, self.peak, self.half = 0.0, 0.0, 0.0, []

    def state(self, at: float) -> "GrowthState":
        middle = self.since + (at - self.since) / 2
        mid = next((value for when, value in reversed(self.half) if when <= middle), self.start)
        risen = self.peak - self.start
        late_share = (self.peak - mid) / risen if risen > 0 else 0.0
        return GrowthState(at - self.since if self.since else 0.0, risen, late_share)


class GrowthState(NamedTuple):
    lasting_s: float
    risen: float
    late_share: float
    """The share of the rise in the second half of the time: about a half while it is steady."""
