"""Asks a Prometheus on a rhythm; what appears in an answer is an alert, what leaves it is over.

Alerts are raised on the change only, and the change is kept in the journal: a watch that was killed
reads there what it had raised, and goes on. An answer that did not come is neither good news nor
bad: nothing is resolved by it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import anyio
import msgspec

from hermes.core.errors import SettingsError, StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.core.protocols import Journal
from hermes.sre.prometheus.alerts import SOURCE, of_alert, of_series, of_trouble, origin_of
from hermes.sre.prometheus.client import BadQuery, PrometheusClient, Unanswered
from hermes.sre.prometheus.settings import PrometheusRule, PrometheusSettings

MEMORY = timedelta(days=14)
"""How far back a new watch looks for what it had raised."""
ALERTS, RULE, TROUBLE = "alerts", "rule:", "trouble:"

Publish = Callable[..., Awaitable[Sequence[int]]]
Found = dict[str, AlertRaised]
"""By fingerprint."""
Answer = Found | Unanswered | BadQuery


class PrometheusSource:
    def __init__(self, publish: Publish, settings: PrometheusSettings, *, secret: str = "") -> None:
        """Raises `SettingsError` for an address that is none and for names given twice."""
        _check(settings)
        self._publish = publish
        self._settings = settings
        self._client = PrometheusClient(
            settings.url,
            timeout=settings.timeout,
            largest=settings.largest,
            user=settings.user,
            secret=secret,
        )
        self._firing: dict[str, Found] = {}
        self._began: dict[str, dict[str, datetime]] = {}
        """When each series of an answer was first in it."""
        self._failed: dict[str, int] = {}

    async def remember(self, journal: Journal, now: datetime) -> None:
        """What an earlier life raised and did not resolve."""
        async for recorded in journal.read(kinds=["alert.raised"], since=now - MEMORY):
            event = recorded.event
            if isinstance(event, AlertRaised) and event.source == SOURCE:
                self._keep(origin_of(event), event)

    async def run(self) -> None:
        """Until cancelled."""
        due = anyio.current_time()
        while True:
            with suppress(StoreError):  # nothing was taken as told: the next round tells it again
                await self.round(datetime.now(UTC))
            due = max(due + self._settings.every, anyio.current_time())
            await anyio.sleep_until(due)

    async def round(self, now: datetime) -> None:
        """Ask everything once. Raises `StoreError`."""
        answers = await self._ask_all(now)
        silent = [each for each in answers.values() if isinstance(each, Unanswered)]
        if silent and len(silent) == len(answers):
            await self._tell_trouble(TROUBLE, silent[0], now)
            return
        await self._tell_trouble(TROUBLE, None, now)
        for origin, answer in answers.items():
            await self._tell_trouble(TROUBLE + origin, self._wrong(answer), now)
            if isinstance(answer, dict):
                await self._tell(origin, answer, now)
        known = {TROUBLE, *answers, *(TROUBLE + each for each in answers)}
        for gone in set(self._firing) - known:  # a rule that was taken out of the settings
            await self._tell(gone, {}, now)

    async def _ask_all(self, now: datetime) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}

        async def ask(origin: str, question: Callable[[], Awaitable[Found]]) -> None:
            try:
                answers[origin] = await question()
            except (Unanswered, BadQuery) as error:
                answers[origin] = error

        async with anyio.create_task_group() as group:
            for rule in self._settings.rules:
                group.start_soon(ask, RULE + rule.name, lambda rule=rule: self._rule(rule, now))
            if self._settings.alerts:
                group.start_soon(ask, ALERTS, self._alerts)
        return dict(sorted(answers.items()))

    async def _alerts(self) -> Found:
        found = [of_alert(each, ALERTS) for each in await self._client.alerts()]
        return {alert.fingerprint: alert for alert in found}

    async def _rule(self, rule: PrometheusRule, now: datetime) -> Found:
        origin, found = RULE + rule.name, {}
        before, began = self._began.get(origin, {}), {}
        for series in await self._client.query(rule.query):
            alert = of_series(rule, series, origin, now)
            first = began[alert.fingerprint] = before.get(alert.fingerprint, now)
            if (now - first).total_seconds() >= rule.lasting:
                found[alert.fingerprint] = msgspec.structs.replace(alert, since=first)
        self._began[origin] = began
        return found

    def _wrong(self, answer: Answer) -> Unanswered | BadQuery | None:
        if not isinstance(answer, dict):
            return answer
        if (count := len(answer)) <= (most := self._settings.most):
            return None
        return BadQuery(f"gives {count:,} series; only {most:,} become alerts: narrow it down")

    async def _tell_trouble(
        self, origin: str, wrong: Unanswered | BadQuery | None, now: datetime
    ) -> None:
        """Once when it begins, once when it is over. A query that is wrong needs no second look."""
        if wrong is None:
            self._failed.pop(origin, None)
            await self._tell(origin, {}, now)
            return
        self._failed[origin] = failed = self._failed.get(origin, 0) + 1
        if isinstance(wrong, Unanswered) and failed < self._settings.fails:
            return
        name = origin.removeprefix(TROUBLE).removeprefix(RULE)
        what = f"the question {name!r}" if name else f"Prometheus at {self._settings.url}"
        verb = "needs mending" if isinstance(wrong, BadQuery) else "is not answered"
        title = f"{what} {verb if name else 'cannot be asked'}"
        alert = of_trouble(self._settings.url, origin, title, str(wrong), now)
        await self._tell(origin, {alert.fingerprint: alert}, now)

    async def _tell(self, origin: str, found: Mapping[str, AlertRaised], now: datetime) -> None:
        """Publish the difference to what was told before; all of it, or none."""
        firing = self._firing.get(origin, {})
        gone = [
            msgspec.structs.replace(alert, resolved=True, at=now)
            for name, alert in firing.items()
            if name not in found
        ]
        room = max(0, self._settings.most - len(firing) + len(gone))
        fresh = [alert for name, alert in found.items() if name not in firing]
        new = [msgspec.structs.replace(alert, at=now) for alert in fresh[:room]]
        if not new and not gone:
            return
        await self._publish(*new, *gone)
        for alert in (*new, *gone):
            self._keep(origin, alert)

    def _keep(self, origin: str, alert: AlertRaised) -> None:
        firing = self._firing.setdefault(origin, {})
        if alert.resolved:
            firing.pop(alert.fingerprint, None)
        else:
            firing[alert.fingerprint] = alert
        if not firing:
            del self._firing[origin]


def _check(settings: PrometheusSettings) -> None:
    if settings.every <= 0:
        raise SettingsError(f"sre.prometheus.every: {settings.every:g} is no time; try 15")
    counted = Counter(rule.name for rule in settings.rules)
    if twice := [name for name, count in counted.items() if count > 1]:
        raise SettingsError(f"sre.prometheus.rules: {', '.join(twice)}: each needs its own name")
