"""Polls Prometheus, and publishes its alerts and the results of rules as alerts."""

import base64
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from urllib.parse import urlencode

import anyio
import msgspec

from hermes.core.errors import SettingsError, StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.core.foreign_text import (
    MAX_FIELD_CHARS,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    alert_fingerprint,
    clean_labels,
    clean_line,
)
from hermes.core.incident import WATCH_RUN
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.plumbing.http_client import (
    HttpAnswer,
    HttpAnswerTooLarge,
    HttpError,
    HttpLimits,
    HttpTimedOut,
    send_http_request,
)
from hermes.sre.settings import PrometheusRule, PrometheusSettings

FORM_CONTENT_TYPE = "application/x-www-form-urlencoded"
DecodedT = TypeVar("DecodedT")


class PrometheusUnavailable(Exception):
    """Prometheus gave no usable answer; it may the next time."""


class PrometheusQueryError(Exception):
    """Prometheus refused the query; a person must correct it."""


class MetricSeries(Value, frozen=True):
    labels: dict[str, str]
    value: str


class PrometheusAlert(Value, rename="camel", frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    state: str = ""
    active_at: datetime | None = None
    value: str = ""


class _PrometheusReply(msgspec.Struct, rename="camel"):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


class _MetricPoint(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _QueryResult(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _AlertsReply(msgspec.Struct):
    alerts: list[PrometheusAlert]


class PrometheusClient:
    def __init__(
        self, url: str, *, timeout: float, max_bytes: int, user: str = "", secret: str = ""
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise SettingsError(f"sre.prometheus.url: {url!r} is no http:// or https:// address")
        self._url = url.rstrip("/")
        self._limits = HttpLimits(
            timeout_s=timeout, total_timeout_s=timeout, max_answer_bytes=max_bytes
        )
        self._headers = {"User-Agent": "hermes-sre"} | _authorization(user, secret)

    async def query(self, promql: str) -> list[MetricSeries]:
        """Raises `PrometheusUnavailable` and `PrometheusQueryError`."""
        form = {"query": promql, "timeout": f"{self._limits.timeout_s:g}s"}
        data = await self._ask("/api/v1/query", urlencode(form).encode())
        found = _decode(data, _QueryResult)
        if found.result_type != "vector":
            kind = found.result_type
            raise PrometheusQueryError(
                f"gives a {kind}, not series; write a filter such as `up == 0`"
            )
        points = _decode(found.result, list[_MetricPoint])
        return [MetricSeries(point.metric, point.value[1]) for point in points]

    async def alerts(self) -> list[PrometheusAlert]:
        """Alerts that fire. Raises `PrometheusUnavailable` and `PrometheusQueryError`."""
        found = _decode(await self._ask("/api/v1/alerts", None), _AlertsReply)
        return [alert for alert in found.alerts if alert.state == "firing"]

    async def _ask(self, path: str, form: bytes | None) -> msgspec.Raw:
        answer = await self._fetch(path, form)
        reply = _decode_reply(answer)
        if reply.status == "success":
            return reply.data
        if answer.status in {400, 422}:
            raise PrometheusQueryError(reply.error or f"status {answer.status}")
        raise PrometheusUnavailable(f"it answers {answer.status}: {reply.error[:300]}")

    async def _fetch(self, path: str, form: bytes | None) -> HttpAnswer:
        """Proxies and redirects are ignored: the token is only for the configured address."""
        method, headers = "GET", self._headers
        if form is not None:
            method, headers = "POST", headers | {"Content-Type": FORM_CONTENT_TYPE}
        try:
            answer = await send_http_request(
                method, self._url + path, self._limits, headers=headers, body=form, proxies=False
            )
        except HttpAnswerTooLarge as error:
            raise PrometheusQueryError(f"{error}; narrow it down") from error
        except HttpTimedOut as error:
            message = f"no whole answer within {self._limits.timeout_s:g} seconds"
            raise PrometheusUnavailable(message) from error
        except HttpError as error:
            raise PrometheusUnavailable(str(error)) from error
        if answer.location:
            raise PrometheusUnavailable(
                f"it sends us on to {answer.location}: not followed; a person may set the address"
            )
        return answer


def _authorization(user: str, secret: str) -> dict[str, str]:
    if user:
        pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def _decode_reply(answer: HttpAnswer) -> _PrometheusReply:
    try:
        return msgspec.json.decode(answer.body, type=_PrometheusReply)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        message = f"it answers {answer.status}, and not as a Prometheus does"
        raise PrometheusUnavailable(message) from None


def _decode(data: msgspec.Raw, kind: type[DecodedT]) -> DecodedT:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PrometheusUnavailable(f"its answer cannot be read: {error}") from error


PROMETHEUS_SOURCE = "prometheus"
ORIGIN_LABEL = "hermes_rule"
"""The label with the rule of an alert: a restarted watch finds its own alerts by it."""
ALERT_HISTORY = timedelta(days=14)
"""How far back a new watch reads its earlier alerts."""
ALERTS_ORIGIN, RULE_PREFIX, FAILURE_PREFIX = "alerts", "rule:", "trouble:"
PublishEvents = Callable[..., Awaitable[Sequence[int]]]
FiringAlerts = dict[str, AlertRaised]
"""By fingerprint."""
QueryAnswer = FiringAlerts | PrometheusUnavailable | PrometheusQueryError


def alert_of_series(
    rule: PrometheusRule, series: MetricSeries, origin: str, since: datetime
) -> AlertRaised:
    named = {name: value for name, value in series.labels.items() if name != "__name__"}
    service = named.get(rule.service_label) or named.get("job", "")
    labels = named | ({"service": service} if service else {}) | rule.labels
    about = service or named.get("instance", "")
    title = rule.summary or (f"{rule.name}: {about}" if about else rule.name)
    return AlertRaised(
        run=WATCH_RUN,
        source=PROMETHEUS_SOURCE,
        fingerprint=alert_fingerprint(
            rule.name, *sorted(f"{k}={v}" for k, v in series.labels.items())
        ),
        title=clean_line(title, MAX_TITLE_CHARS),
        text=clean_line(
            f"{rule.query} gives {series.value} for {_labels_text(named)}", MAX_TEXT_CHARS
        ),
        labels=clean_labels(labels | {"alertname": rule.name, ORIGIN_LABEL: origin}, ORIGIN_LABEL),
        severity=clean_line(rule.severity or named.get("severity", ""), MAX_FIELD_CHARS),
        since=since,
    )


def alert_of_prometheus_alert(alert: PrometheusAlert, origin: str) -> AlertRaised:
    """An alert of Prometheus itself, with the same fingerprint as in Alertmanager."""
    notes = alert.annotations
    title = notes.get("summary") or alert.labels.get("alertname", "") or "an alert without a name"
    text = notes.get("description") or notes.get("message") or f"value {alert.value}"
    return AlertRaised(
        run=WATCH_RUN,
        source=PROMETHEUS_SOURCE,
        fingerprint=alertmanager_fingerprint(alert.labels),
        title=clean_line(title, MAX_TITLE_CHARS),
        text=clean_line(text, MAX_TEXT_CHARS),
        labels=clean_labels(alert.labels | {ORIGIN_LABEL: origin}, ORIGIN_LABEL),
        severity=clean_line(alert.labels.get("severity", ""), MAX_FIELD_CHARS),
        since=alert.active_at,
    )


def alert_of_failure(url: str, origin: str, title: str, why: str, since: datetime) -> AlertRaised:
    """An alert that Prometheus or a rule gives no answer."""
    return AlertRaised(
        run=WATCH_RUN,
        source=PROMETHEUS_SOURCE,
        fingerprint=alert_fingerprint("trouble", url, origin),
        title=clean_line(title, MAX_TITLE_CHARS),
        text=clean_line(why, MAX_TEXT_CHARS),
        labels=(("alertname", "PrometheusNotAnswering"), (ORIGIN_LABEL, origin)),
        severity="warning",
        since=since,
    )


def alert_origin(alert: AlertRaised) -> str:
    return dict(alert.labels).get(ORIGIN_LABEL, "")


def alertmanager_fingerprint(labels: Mapping[str, str]) -> str:
    """Compute the fingerprint as Alertmanager does (FNV-1a over the sorted labels)."""
    number = 0xCBF29CE484222325
    for name in sorted(labels):
        for byte in b"\xff".join((name.encode(), labels[name].encode(), b"")):
            number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{number:016x}"


def _labels_text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) or "all"


class PrometheusSource:
    def __init__(
        self, publish: PublishEvents, settings: PrometheusSettings, *, secret: str = ""
    ) -> None:
        """Raises `SettingsError` for an invalid address and for duplicate names."""
        _check_settings(settings)
        self._publish = publish
        self._settings = settings
        self._client = PrometheusClient(
            settings.url,
            timeout=settings.timeout,
            max_bytes=settings.largest,
            user=settings.user,
            secret=secret,
        )
        self._firing: dict[str, FiringAlerts] = {}
        self._began: dict[str, dict[str, datetime]] = {}
        """When each series first appeared in an answer."""
        self._failed: dict[str, int] = {}

    async def restore(self, journal: Journal, now: datetime) -> None:
        """Read the alerts that an earlier watch raised and did not resolve."""
        async for recorded in journal.read(kinds=["alert.raised"], since=now - ALERT_HISTORY):
            event = recorded.event
            if isinstance(event, AlertRaised) and event.source == PROMETHEUS_SOURCE:
                self._note_alert(alert_origin(event), event)

    async def run(self) -> None:
        """Poll until cancelled."""
        due = anyio.current_time()
        while True:
            with suppress(StoreError):  # the next round publishes it again
                await self.poll(datetime.now(UTC))
            due = max(due + self._settings.every, anyio.current_time())
            await anyio.sleep_until(due)

    async def poll(self, now: datetime) -> None:
        """Run all queries once. Raises `StoreError`."""
        answers = await self._ask_all(now)
        silent = [each for each in answers.values() if isinstance(each, PrometheusUnavailable)]
        if silent and len(silent) == len(answers):
            await self._publish_failure(FAILURE_PREFIX, silent[0], now)
            return
        await self._publish_failure(FAILURE_PREFIX, None, now)
        for origin, answer in answers.items():
            await self._publish_failure(FAILURE_PREFIX + origin, self._failure_of(answer), now)
            if isinstance(answer, dict):
                await self._publish_changes(origin, answer, now)
        known = {FAILURE_PREFIX, *answers, *(FAILURE_PREFIX + each for each in answers)}
        for gone in set(self._firing) - known:  # a rule that was taken out of the settings
            await self._publish_changes(gone, {}, now)

    async def _ask_all(self, now: datetime) -> dict[str, QueryAnswer]:
        answers: dict[str, QueryAnswer] = {}

        async def ask(origin: str, question: Callable[[], Awaitable[FiringAlerts]]) -> None:
            try:
                answers[origin] = await question()
            except (PrometheusUnavailable, PrometheusQueryError) as error:
                answers[origin] = error

        async with anyio.create_task_group() as group:
            for rule in self._settings.rules:
                group.start_soon(
                    ask, RULE_PREFIX + rule.name, lambda rule=rule: self._rule(rule, now)
                )
            if self._settings.alerts:
                group.start_soon(ask, ALERTS_ORIGIN, self._alerts)
        return dict(sorted(answers.items()))

    async def _alerts(self) -> FiringAlerts:
        found = [
            alert_of_prometheus_alert(each, ALERTS_ORIGIN) for each in await self._client.alerts()
        ]
        return {alert.fingerprint: alert for alert in found}

    async def _rule(self, rule: PrometheusRule, now: datetime) -> FiringAlerts:
        origin, found = RULE_PREFIX + rule.name, {}
        before, began = self._began.get(origin, {}), {}
        for series in await self._client.query(rule.query):
            alert = alert_of_series(rule, series, origin, now)
            first = began[alert.fingerprint] = before.get(alert.fingerprint, now)
            if (now - first).total_seconds() >= rule.lasting:
                found[alert.fingerprint] = msgspec.structs.replace(alert, since=first)
        self._began[origin] = began
        return found

    def _failure_of(
        self, answer: QueryAnswer
    ) -> PrometheusUnavailable | PrometheusQueryError | None:
        if not isinstance(answer, dict):
            return answer
        if (count := len(answer)) <= (most := self._settings.most):
            return None
        return PrometheusQueryError(
            f"gives {count:,} series; only {most:,} become alerts: narrow it down"
        )

    async def _publish_failure(
        self,
        origin: str,
        failure: PrometheusUnavailable | PrometheusQueryError | None,
        now: datetime,
    ) -> None:
        """Once when it begins, once when it is over; an invalid query at once, without a retry."""
        if failure is None:
            self._failed.pop(origin, None)
            await self._publish_changes(origin, {}, now)
            return
        self._failed[origin] = failed = self._failed.get(origin, 0) + 1
        if isinstance(failure, PrometheusUnavailable) and failed < self._settings.fails:
            return
        name = origin.removeprefix(FAILURE_PREFIX).removeprefix(RULE_PREFIX)
        what = f"the question {name!r}" if name else f"Prometheus at {self._settings.url}"
        verb = (
            "needs correction" if isinstance(failure, PrometheusQueryError) else "is not answered"
        )
        title = f"{what} {verb if name else 'cannot be asked'}"
        alert = alert_of_failure(self._settings.url, origin, title, str(failure), now)
        await self._publish_changes(origin, {alert.fingerprint: alert}, now)

    async def _publish_changes(
        self, origin: str, found: Mapping[str, AlertRaised], now: datetime
    ) -> None:
        """Publish the difference to the alerts published before, in one step."""
        firing = self._firing.get(origin, {})
        gone = [
            msgspec.structs.replace(alert, resolved=True, at=now)
            for name, alert in firing.items()
            if name not in found
        ]
        free = max(0, self._settings.most - len(firing) + len(gone))
        fresh = [alert for name, alert in found.items() if name not in firing]
        new = [msgspec.structs.replace(alert, at=now) for alert in fresh[:free]]
        if not new and not gone:
            return
        await self._publish(*new, *gone)
        for alert in (*new, *gone):
            self._note_alert(origin, alert)

    def _note_alert(self, origin: str, alert: AlertRaised) -> None:
        firing = self._firing.setdefault(origin, {})
        if alert.resolved:
            firing.pop(alert.fingerprint, None)
        else:
            firing[alert.fingerprint] = alert
        if not firing:
            del self._firing[origin]


def _check_settings(settings: PrometheusSettings) -> None:
    if settings.every <= 0:
        raise SettingsError(f"sre.prometheus.every: {settings.every:g} is no time; try 15")
    counted = Counter(rule.name for rule in settings.rules)
    if twice := [name for name, count in counted.items() if count > 1]:
        raise SettingsError(f"sre.prometheus.rules: {', '.join(twice)}: each needs its own name")
