"""Prometheus, Alertmanager and node exporter as they are; the journal on disk."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest
from monitors import MISSING, TOKEN, Monitors, answers, held, monitors, running

from hermes.core.bus import Bus
from hermes.core.events.incidents import AlertRaised
from hermes.core.protocols import Journal
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.prometheus import PrometheusSource
from hermes.sre.settings import PrometheusRule, PrometheusSettings
from hermes.web.alert_server import serve_alerts
from hermes.web.metrics import AlertMetrics
from hermes.web.settings import WebSettings

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]
RECEIVER = Path(__file__).parent / "receiver_process.py"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitors]:
    with monitors(tmp_path_factory.mktemp("monitors")) as made:
        yield made


@asynccontextmanager
async def receiving(journal: Journal, port: int) -> AsyncGenerator[None, None]:
    async with anyio.create_task_group() as group:
        settings = WebSettings(port=port)
        await group.start(partial(serve_alerts, Bus(journal), settings, token=TOKEN))
        yield
        group.cancel_scope.cancel()


async def alerts(journal: Journal) -> list[AlertRaised]:
    read = journal.read(kinds=["alert.raised"])
    return [each.event async for each in read if isinstance(each.event, AlertRaised)]


async def states(journal: Journal) -> dict[str, str]:
    """The last word on each queue."""
    found = await alerts(journal)
    word = {True: "resolved", False: "firing"}
    return {dict(each.labels)["queue"]: word[each.resolved] for each in found}


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    with anyio.fail_after(seconds):
        while True:
            if await holds():
                return
            await anyio.sleep(0.05)


async def test_a_rule_fires_and_resolves_and_both_are_in_the_journal(
    world: Monitors, tmp_path: Path
) -> None:
    async with (
        SqliteJournal.open(tmp_path / "journal.db") as journal,
        receiving(journal, world.receiver),
    ):
        began = datetime.now(UTC)
        world.measure(orders=250)
        await until(lambda: _is(journal, {"orders": "firing"}))
        (raised,) = await alerts(journal)
        assert raised.title == "queue orders is stuck"
        assert raised.text.startswith("250 orders wait")
        assert raised.source == "alertmanager" and raised.run == "watch"
        assert raised.severity == "critical"
        assert dict(raised.labels)["service"] == "shop"
        assert raised.fingerprint == world.known_to_alertmanager()["orders"]
        assert raised.since is not None and began <= raised.since <= raised.at
        world.measure(orders=0)
        await until(lambda: _is(journal, {"orders": "resolved"}))
        over = (await alerts(journal))[-1]
        assert (over.fingerprint, over.since) == (raised.fingerprint, raised.since)


async def _is(journal: Journal, wanted: dict[str, str]) -> bool:
    return await states(journal) == wanted


async def test_a_store_that_fails_for_a_while_loses_nothing(
    world: Monitors, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    queues = {f"busy{number}": 500 for number in range(5)}
    async with (
        SqliteJournal.open(path, timeout_s=0.1) as journal,
        receiving(journal, world.receiver),
    ):
        health = f"http://127.0.0.1:{world.receiver}/healthz"
        with held(path):
            world.measure(**queues)
            await until(lambda: _unwell(health))
            assert await alerts(journal) == []
        await until(lambda: _is(journal, dict.fromkeys(queues, "firing")))
        assert not await _unwell(health)
        world.measure(orders=0)
        await until(lambda: _is(journal, dict.fromkeys(queues, "resolved")))


async def _unwell(url: str) -> bool:
    return not await anyio.to_thread.run_sync(answers, url)


async def test_a_receiver_killed_in_a_storm_and_started_again_has_every_alert(
    world: Monitors, tmp_path: Path
) -> None:
    path, queues = tmp_path / "journal.db", {f"storm{number}": 500 for number in range(60)}
    command = [sys.executable, str(RECEIVER), str(path), str(world.receiver), TOKEN]
    async with SqliteJournal.open(path) as journal:
        for upto in (20, 40, 60):  # killed three times, each time with alerts on their way
            with running(command, tmp_path / "receiver.log"):
                world.measure(**dict(list(queues.items())[:upto]))
                await until(partial(_knows, world, f"storm{upto - 1}"))
        with running(command, tmp_path / "receiver.log"):
            await until(lambda: _is(journal, dict.fromkeys(queues, "firing")))
            assert {each.fingerprint for each in await alerts(journal)} == set(
                world.known_to_alertmanager().values()
            )
            world.measure(orders=0)
            await until(lambda: _is(journal, dict.fromkeys(queues, "resolved")))


async def test_questions_to_the_real_prometheus_raise_on_the_change_only(
    world: Monitors, tmp_path: Path
) -> None:
    rules = (
        PrometheusRule(name="LongQueue", query="shop_queue_length > 10", labels={"team": "shop"}),
        PrometheusRule(name="Nonsense", query="shop_queue_length >"),
        PrometheusRule(name="Number", query="1 + 1"),
    )
    settings = PrometheusSettings(url=world.prometheus, rules=rules, alerts=True)
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        source = PrometheusSource(Bus(journal).publish, settings)

        async def told(*wanted: tuple[str, bool]) -> bool:
            await source.poll(datetime.now(UTC))
            return [(each.title, each.resolved) for each in await alerts(journal)] == list(wanted)

        bad = ("the question 'Nonsense' needs correction", False)
        scalar = ("the question 'Number' needs correction", False)
        world.measure(orders=0)
        await until(lambda: told(bad, scalar))
        assert await told(bad, scalar)  # once
        world.measure(orders=20)
        raised = ("LongQueue: host", False)
        await until(lambda: told(bad, scalar, raised))
        alert = (await alerts(journal))[-1]
        assert {"team": "shop", "queue": "orders", "service": "host"}.items() <= dict(
            alert.labels
        ).items()
        assert "gives 20 for" in alert.text

        source = PrometheusSource(Bus(journal).publish, settings)  # the watch was killed
        await source.restore(journal, datetime.now(UTC))
        assert await told(bad, scalar, raised)
        world.measure(orders=0)
        await until(lambda: told(bad, scalar, raised, ("LongQueue: host", True)))


async def test_an_alert_of_prometheus_has_the_fingerprint_that_alertmanager_gives_it(
    world: Monitors, tmp_path: Path
) -> None:
    settings = PrometheusSettings(url=world.prometheus, alerts=True)
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        source = PrometheusSource(Bus(journal).publish, settings)

        async def told(wanted: dict[str, str]) -> bool:
            await source.poll(datetime.now(UTC))
            return await states(journal) == wanted

        world.measure(orders=999)
        await until(lambda: told({"orders": "firing"}))
        (raised,) = await alerts(journal)
        await until(lambda: _knows(world, "orders"))
        assert raised.fingerprint == world.known_to_alertmanager()["orders"]
        assert (raised.title, raised.severity) == ("queue orders is stuck", "critical")
        assert raised.since is not None
        world.measure(orders=0)
        await until(lambda: told({"orders": "resolved"}))


async def _knows(world: Monitors, queue: str) -> bool:
    return queue in await anyio.to_thread.run_sync(world.known_to_alertmanager)


def test_our_metrics_are_such_as_prometheus_likes_them() -> None:
    tally = AlertMetrics()
    tally.count_alert("alertmanager", resolved=False)
    tally.count_rejected("malformed", 2)
    tally.count_response("/alerts", 200)
    tally.observe_latency(0.004)
    command = ["promtool", "check", "metrics"]
    done = subprocess.run(command, input=tally.render({"P1": 2}), text=True, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_rule_is_written_as_people_know_it() -> None:
    rule = msgspec.convert({"name": "Down", "query": "up == 0", "for": 30}, PrometheusRule)
    assert rule.lasting == 30
