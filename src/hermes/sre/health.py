"""Runs all health checks at a fixed interval, and reports rounds that were missed.

Rounds are missed when the watch was killed, the machine was suspended or the clock was changed.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import anyio
from msgspec.structs import replace

from hermes.core.bus import Bus
from hermes.core.errors import HermesError, StoreError
from hermes.core.events.operations import HealthChecked, HealthMissed
from hermes.core.incident import WATCH_RUN
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.sre.settings import HealthSettings

MAX_SLEEP_S = 15.0
"""Seconds of one sleep: a timer does not count the time in which a machine is suspended."""
MISSED_ROUND_SHARE = 0.5
"""The share of an interval by which a round may be late before it counts as missed."""


NOT_RECORDED_REASON = (
    "nothing was recorded: no watch was running, or it could not write its journal"
)


class HealthCheckResult(Value, kw_only=True, frozen=True):
    """The result of one probe; `ok` is None when it could not be run."""

    name: str
    ok: bool | None
    detail: str = ""


RunHealthChecks = Callable[[], Awaitable[Sequence[HealthCheckResult]]]


async def run_health_round(
    run_checks: RunHealthChecks, timeout: float
) -> tuple[HealthChecked, Sequence[HealthCheckResult]]:
    """Run one round now. A probe that could not be run, or not in time, is unknown, not ok."""
    began = anyio.current_time()
    found: Sequence[HealthCheckResult] = ()
    problem = ""
    try:
        with anyio.fail_after(timeout):
            found = await run_checks()
    except StoreError:
        raise
    except TimeoutError:
        problem = f"the round did not end within {timeout:g} s"
    except HermesError as error:
        problem = str(error)
    if problem:
        found = [HealthCheckResult(name="the health round", ok=None, detail=problem)]
    failing = tuple(each.name for each in found if each.ok is False)
    unknown = tuple(each.name for each in found if each.ok is None)
    checked = HealthChecked(
        run=WATCH_RUN,
        ok=not failing and not unknown,
        checks=0 if problem else len(found),
        failing=failing,
        unknown=unknown,
        seconds=round(anyio.current_time() - began, 3),
    )
    return checked, found


class HealthSchedule:
    """`now` and `sleep` can be replaced in tests."""

    def __init__(
        self,
        bus: Bus,
        run_checks: RunHealthChecks,
        settings: HealthSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._bus, self._run_checks, self._settings = bus, run_checks, settings
        self._now, self._sleep = now, sleep
        self._every = timedelta(seconds=settings.every)

    async def run(self) -> None:
        """Run until cancelled; the first round begins at once."""
        if self._settings.every <= 0:
            return
        due = self._now()
        await self._publish_missed_rounds(due)
        while True:
            await self._sleep_until(due)
            due = await self._next_due(await self._round(due))

    async def _publish_missed_rounds(self, now: datetime) -> None:
        """Report the rounds that were due since the last round of an earlier watch."""
        last = await read_last_round(self._bus.journal)
        if last is None or now - last < self._every * (1 + MISSED_ROUND_SHARE):
            return
        rounds = max(1, math.ceil((now - last) / self._every) - 1)
        await self._publish_missed(rounds, last + self._every, NOT_RECORDED_REASON)

    async def _sleep_until(self, due: datetime) -> None:
        while (left := (due - self._now()).total_seconds()) > 0:
            if left > self._settings.every * (1 + MISSED_ROUND_SHARE):  # the clock was set back
                return
            await self._sleep(min(left, MAX_SLEEP_S))

    async def _round(self, due: datetime) -> datetime:
        """Run one round; returns when it was due. Rounds missed before it are reported."""
        now = self._now()
        if rounds := max(0, math.floor((now - due) / self._every)):
            why = "the machine or the process was suspended, or the clock was changed"
            await self._publish_missed(rounds, due, why)
            due += self._every * rounds
        checked, _ = await run_health_round(self._run_checks, self._settings.timeout)
        await self._publish(replace(checked, at=now, due=due))
        return due

    async def _next_due(self, due: datetime) -> datetime:
        """A multiple of the interval after the first round, unless the clock was set back."""
        now = self._now()
        if now < due:
            return now + self._every
        following = due + self._every
        over = (now - following) / self._every
        if over >= MISSED_ROUND_SHARE:
            rounds = max(1, math.floor(over))
            why = "the round before took too long, or the process did not run"
            await self._publish_missed(rounds, following, why)
            following += self._every * rounds
        return following

    async def _publish_missed(self, rounds: int, since: datetime, why: str) -> None:
        at = self._now()
        await self._publish(HealthMissed(run=WATCH_RUN, at=at, rounds=rounds, since=since, why=why))

    async def _publish(self, event: HealthChecked | HealthMissed) -> None:
        try:
            await self._bus.publish(event)
        except StoreError:  # a full disk is reported by its probe
            return


async def read_last_round(journal: Journal) -> datetime | None:
    """When the last scheduled round was; rounds that a person started do not count."""
    last = None
    async for recorded in journal.read(kinds=("health.checked",)):
        event = recorded.event
        if isinstance(event, HealthChecked) and event.due is not None:
            last = event.at
    return last
