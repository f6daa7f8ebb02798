"""A Prometheus that is slow, broken, too talkative or hostile; tests/web has a real one."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest

from hermes.core.bus import Bus
from hermes.core.errors import SettingsError, StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.prometheus import (
    MetricSeries,
    PrometheusSource,
    alert_of_series,
    alertmanager_fingerprint,
)
from hermes.sre.settings import PrometheusRule, PrometheusSettings

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
Told = list[tuple[str, bool]]


class Server:
    """Answers each query with what `answers` says: series, a status with a body, or a deed."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.headers: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                server.headers.append(self.headers.get("authorization", ""))
                server.reply(self, server.answers.get(form["query"][0], []))

            def log_message(self, format: str, *given: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def reply(self, handler: BaseHTTPRequestHandler, answer: Any) -> None:
        if callable(answer):
            answer(handler)
            return
        status, body = answer if isinstance(answer, tuple) else (200, vector(answer))
        handler.send_response(status)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def vector(series: list[dict[str, str]]) -> bytes:
    result = [{"metric": each, "value": [1.5, "7"]} for each in series]
    return json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": result}}
    ).encode()


def refused(words: str) -> tuple[int, bytes]:
    return 400, json.dumps({"status": "error", "errorType": "bad_data", "error": words}).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


class Watch:
    def __init__(self, url: str, *rules: PrometheusRule, **settings: Any) -> None:
        self.journal = InMemoryJournal()
        limits = {"timeout": 60.0, **settings}
        self._settings = PrometheusSettings(url=url, rules=rules, **limits)
        self.source = PrometheusSource(Bus(self.journal).publish, self._settings, secret="tok")

    async def round(self, seconds: float = 0.0) -> Told:
        """What it told of in a round so many seconds after the beginning."""
        before = await self.journal.last()
        await self.source.poll(NOW + timedelta(seconds=seconds))
        return [(each.title, each.resolved) for each in await self.alerts(before)]

    async def alerts(self, after: int = 0) -> list[AlertRaised]:
        read = self.journal.read(after=after)
        return [each.event async for each in read if isinstance(each.event, AlertRaised)]


DOWN = PrometheusRule(name="Down", query="up == 0", severity="critical")
ONE, TWO = {"job": "web", "instance": "a"}, {"job": "db", "instance": "b", "service": "store"}


async def test_what_appears_is_raised_and_what_leaves_is_resolved(server: Server) -> None:
    watch = Watch(server.url, DOWN)
    assert await watch.round() == []
    server.answers["up == 0"] = [ONE, TWO]
    assert await watch.round(15) == [("Down: web", False), ("Down: store", False)]
    assert await watch.round(30) == []
    server.answers["up == 0"] = [TWO]
    assert await watch.round(45) == [("Down: web", True)]
    first = (await watch.alerts())[0]
    assert first.source == "prometheus" and first.run == "watch" and first.severity == "critical"
    assert first.since == NOW + timedelta(seconds=15)
    assert dict(first.labels)["alertname"] == "Down"
    assert server.headers[0] == "Bearer tok"


async def test_a_series_must_last_before_it_is_an_alert(server: Server) -> None:
    rule = PrometheusRule(name="Down", query="up == 0", lasting=30)
    watch = Watch(server.url, rule)
    server.answers["up == 0"] = [ONE]
    assert await watch.round(0) == []
    assert await watch.round(29) == []
    server.answers["up == 0"] = []
    assert await watch.round(31) == []
    server.answers["up == 0"] = [ONE]
    assert await watch.round(40) == []
    assert await watch.round(70) == [("Down: web", False)]
    assert (await watch.alerts())[0].since == NOW + timedelta(seconds=40)


async def test_a_silent_prometheus_is_told_once_and_resolves_nothing(server: Server) -> None:
    watch = Watch(server.url, DOWN, fails=2)
    server.answers["up == 0"] = [ONE]
    await watch.round()
    server.answers["up == 0"] = (500, b"<html>busy</html>")
    assert await watch.round() == []
    ((title, over),) = await watch.round()
    assert title == f"Prometheus at {server.url} cannot be asked" and not over
    assert await watch.round() == []
    server.answers["up == 0"] = [ONE]
    assert await watch.round() == [(title, True)]


async def test_nobody_listening_is_silence_too() -> None:
    watch = Watch("http://127.0.0.1:1", DOWN, fails=1)
    ((title, _),) = await watch.round()
    assert "cannot be asked" in title
    assert "refused" in (await watch.alerts())[0].text.lower()


async def test_one_bad_question_is_told_once_and_the_others_are_asked(server: Server) -> None:
    bad = PrometheusRule(name="Typo", query="up ==")
    watch = Watch(server.url, bad, DOWN)
    server.answers |= {"up ==": refused("parse error"), "up == 0": [ONE]}
    told = await watch.round()
    assert sorted(told) == [("Down: web", False), ("the question 'Typo' needs correction", False)]
    assert await watch.round() == []
    server.answers["up =="] = []
    assert await watch.round() == [("the question 'Typo' needs correction", True)]


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever: each within the time-out of a socket."""
    handler.send_response(200)
    handler.end_headers()
    give_up = time.monotonic() + 600
    try:
        while time.monotonic() < give_up:
            handler.wfile.write(b" ")
            time.sleep(0.05)
    except OSError:
        return


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(b" " * 100_000)
    except OSError:
        return


def elsewhere(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("location", "http://192.0.2.1/")
    handler.send_header("content-length", "0")
    handler.end_headers()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (drip, "within 1 seconds"),
        (endless, "more than 8,388,608 bytes"),
        (elsewhere, "not followed"),
        ((200, b"[" * 100_000), "not as a Prometheus does"),
        ((200, b'{"status": "success", "data": 7}'), "cannot be read"),
        ((200, b'{"status": "success"}'), "cannot be read"),
    ],
)
async def test_a_hostile_answer_costs_a_round_and_no_more(
    server: Server, answer: Callable[..., None] | tuple[int, bytes], words: str
) -> None:
    watch = Watch(server.url, DOWN, fails=1, timeout=1.0 if answer is drip else 60.0)
    server.answers["up == 0"] = answer
    with anyio.fail_after(120):
        assert len(await watch.round()) == 1
    assert words in (await watch.alerts())[0].text


async def test_a_question_with_thousands_of_answers_is_cut_and_told(server: Server) -> None:
    watch = Watch(server.url, DOWN, most=20)
    server.answers["up == 0"] = [{"instance": f"host{number:05d}"} for number in range(5000)]
    told = await watch.round()
    assert ("the question 'Down' needs correction", False) in told and len(told) == 21
    assert await watch.round() == []
    server.answers["up == 0"] = []
    assert {over for _, over in await watch.round()} == {True}
    assert len(await watch.alerts()) == 42


async def test_a_new_watch_goes_on_where_the_old_one_was_killed(server: Server) -> None:
    watch = Watch(server.url, DOWN, PrometheusRule(name="Old", query="old"))
    server.answers |= {"up == 0": [ONE], "old": [ONE]}
    assert len(await watch.round()) == 2
    again = Watch(server.url, DOWN)
    again.journal = watch.journal
    settings = PrometheusSettings(url=server.url, rules=(DOWN,))
    again.source = PrometheusSource(Bus(watch.journal).publish, settings)
    await again.source.restore(watch.journal, NOW)
    assert await again.round() == [("Old: web", True)]  # the rule was taken out of the settings
    server.answers["up == 0"] = []
    assert await again.round() == [("Down: web", True)]


async def test_what_the_journal_refused_is_told_again_in_the_next_round(server: Server) -> None:
    kept: list[Any] = []

    async def publish(*events: Any) -> list[int]:
        if not kept:
            kept.append("refused once")
            raise StoreError("full")
        kept.extend(events)
        return [1] * len(events)

    server.answers["up == 0"] = [ONE]
    settings = PrometheusSettings(url=server.url, rules=(DOWN,), every=0.01)
    source = PrometheusSource(publish, settings)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(source.run)
            while len(kept) < 2:  # noqa: ASYNC110 - there is nothing else to wait for
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    assert [each.title for each in kept[1:]] == ["Down: web"]


def test_hostile_labels_are_data() -> None:
    series = MetricSeries(
        {"job": "a\x1b[2J\nb" + "x" * 900} | {f"l{n}": "v" for n in range(99)}, "1"
    )
    alert = alert_of_series(DOWN, series, "rule:Down", NOW)
    assert "\x1b" not in alert.title and "\n" not in alert.text
    assert len(alert.title) <= 200 and len(alert.text) <= 4000 and len(alert.labels) == 40
    assert dict(alert.labels)["hermes_rule"] == "rule:Down"


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"sre\.prometheus\.url"):
        Watch("127.0.0.1:9090", DOWN)
    with pytest.raises(SettingsError, match="Down: each needs its own name"):
        Watch("http://127.0.0.1:9090", DOWN, DOWN)
    with pytest.raises(SettingsError, match="is no time"):
        Watch("http://127.0.0.1:9090", DOWN, every=0)


def test_the_fingerprint_of_no_labels_is_the_known_offset() -> None:
    assert alertmanager_fingerprint({}) == "cbf29ce484222325"
