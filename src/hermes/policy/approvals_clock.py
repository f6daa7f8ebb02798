"""When the time for an answer is over, by whichever clock says so first."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

Clock = Callable[[], datetime]
Monotonic = Callable[[], float]


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Deadline:
    """From `since` until `until`.

    The monotonic clock does not follow when somebody sets the time back; the wall clock also counts
    while the machine sleeps and between two lives of a process. A wall clock that stands before
    the question was asked has been set back: how long ago that was is not known, so it is over.
    """

    since: datetime
    until: datetime
    newest: datetime
    """The latest that is known to have happened: time is at least so late."""
    clock: Clock = now
    monotonic: Monotonic = time.monotonic
    begun: float = field(init=False)
    age: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begun", self.monotonic())
        object.__setattr__(self, "age", (self.clock() - self.since).total_seconds())

    @property
    def elapsed(self) -> float:
        """Seconds since it was asked; setting the time forth or back does not change it."""
        return self.age + self.monotonic() - self.begun

    @property
    def left(self) -> float:
        if self.age < 0 or self.newest >= self.until:
            return 0.0
        whole = (self.until - self.since).total_seconds()
        wall = (self.until - self.clock()).total_seconds()
        return max(min(whole - self.elapsed, wall), 0.0)


@dataclass(frozen=True)
class Countdown:
    """So many seconds of waiting that somebody could have used, whatever the time of day."""

    seconds: float
    monotonic: Monotonic = time.monotonic
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begun", self.monotonic())

    @property
    def elapsed(self) -> float:
        return self.monotonic() - self.begun

    @property
    def left(self) -> float:
        return max(self.seconds - self.elapsed, 0.0)
