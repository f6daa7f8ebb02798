"""Health on a rhythm: everything is looked at, whether or not anybody complains.

Rounds that should have been and were not are noticed and said: a watch that was killed, a machine
that slept, a clock that jumped.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import anyio

from hermes.core.bus import Bus
from hermes.core.errors import HermesError, StoreError
from hermes.core.events.operations import HealthChecked, HealthMissed
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.sre.settings import HealthSettings

HEALTH_RUN = "watch"
MAX_SLEEP_S = 15.0
"""Seconds of sleep at most: a machine that was suspended wakes up with the old alarm clock."""
MISSED_ROUND_SHARE = 0.5
"""So much of an interval may pass before a round counts as missed."""


NOT_RECORDED_REASON = (
    "nothing was recorded: no watch was running, or it could not write its journal"
)


class HealthCheckResult(Value, kw_only=True, frozen=True):
    """One probe, asked once; `ok` is None when it could not be asked."""

    name: str
    ok: bool | None
    detail: str = ""


RunHealthChecks = Callable[[], Awaitable[Sequence[HealthCheckResult]]]


async def run_health_round(
    rounds: RunHealthChecks, timeout: float
) -> tuple[HealthChecked, Sequence[HealthCheckResult]]:
    """One round now. What could not be asked, or not in time, is unknown and not fine."""
    began = anyio.current_time()
    found: Sequence[HealthCheckResult] = ()
    trouble = ""
    try:
        with anyio.fail_after(timeout):
            found = await rounds()
    except StoreError:
        raise
    except TimeoutError:
        trouble = f"the round did not end within {timeout:g} s"
    except HermesError as error:
        trouble = str(error)
    if trouble:
        found = [HealthCheckResult(name="the round itself", ok=None, detail=trouble)]
    failing = tuple(each.name for each in found if each.ok is False)
    unknown = tuple(each.name for each in found if each.ok is None)
    checked = HealthChecked(
        run=HEALTH_RUN,
        ok=not failing and not unknown,
        checks=0 if trouble else len(found),
        failing=failing,
        unknown=unknown,
        seconds=round(anyio.current_time() - began, 3),
    )
    return checked, found


class HealthSchedule:
    """`now` and `sleep` are given where time is not the real one."""

    def __init__(
        self,
        bus: Bus,
        rounds: RunHealthChecks,
        settings: HealthSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._bus, self._rounds, self._settings = bus, rounds, settings
        self._now, self._sleep = now, sleep
        self._every = timedelta(seconds=settings.every)

    async def run(self) -> None:
        """Until cancelled; the first round is at once."""
        if self._settings.every <= 0:
            return
        due = self._now()
        await self._publish_missed_rounds(due)
        while True:
            await self._sleep_until(due)
            due = await self._next_due(await self._round(due))

    async def _publish_missed_rounds(self, now: datetime) -> None:
        """What an earlier watch of this journal should have done since its last round."""
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
        """When it was really due: after a long sleep, the last of those that should have been."""
        now = self._now()
        if rounds := max(0, math.floor((now - due) / self._every)):
            why = "the process did not run: a machine that slept, a stopped process, a clock set on"
            await self._publish_missed(rounds, due, why)
            due += self._every * rounds
        checked, _ = await run_health_round(self._rounds, self._settings.timeout)
        await self._publish(
            HealthChecked(
                run=HEALTH_RUN,
                at=now,
                ok=checked.ok,
                checks=checked.checks,
                failing=checked.failing,
                unknown=checked.unknown,
                seconds=checked.seconds,
                due=due,
            )
        )
        return due

    async def _next_due(self, due: datetime) -> datetime:
        """On the grid of the first round, unless the clock has left it."""
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
        await self._publish(
            HealthMissed(run=HEALTH_RUN, at=at, rounds=rounds, since=since, why=why)
        )

    async def _publish(self, event: HealthChecked | HealthMissed) -> None:
        try:
            await self._bus.publish(event)
        except StoreError:  # a full disk is found by its probe; the rhythm goes on
            return


async def read_last_round(journal: Journal) -> datetime | None:
    """When the last one on the rhythm was; those by hand do not count."""
    last = None
    async for recorded in journal.read(kinds=("health.checked",)):
        event = recorded.event
        if isinstance(event, HealthChecked) and event.due is not None:
            last = event.at
    return last
