"""Learned checks in a watch: real probes, alerts, the stored file, measures of this host."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from learned_world import HOUR, MINUTE, START, healthy_page, items, number_seen, page, page_seen
from learned_world import play as play_learned
from probe_house import Pages, eventually, this_host, web_server

from hermes.core.bus import Bus
from hermes.core.events.incidents import AlertRaised
from hermes.core.incident import QUESTION_LABEL
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.checks import ProbeChecks
from hermes.sre.learned_evidence import LearnedEvidence
from hermes.sre.probes.answer_facts import describe_answer
from hermes.sre.probes.learned.learner import LearnedChecks
from hermes.sre.probes.learned.state import CheckMark, LearnedState, Observation
from hermes.sre.probes.learned.store import LEARNED_FILE, LearnedStore
from hermes.sre.probes.learned.watching import (
    HostMeasures,
    LearnedObserver,
    count_entries,
    find_queue_folders,
    find_service_parts,
    observation_of,
)
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.probe_runner import ProbeResult, run_probes
from hermes.sre.probes.scheduler import ProbeScheduler
from hermes.sre.settings import ProbeSettings
from hermes.sre.triage.severity import alert_impact

pytestmark = pytest.mark.anyio
GOOD = json.dumps(items())
BAD = json.dumps({"error": "upstream"})


class Clock:
    """A minute passes with every look at it."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        self.at += MINUTE
        return self.at


def page_probe(port: int) -> Probe:
    return Probe(
        name="shop-page",
        kind="http",
        what=f"http://127.0.0.1:{port}/items",
        service="shop",
        interval=0.05,
    )


def learn_page(store: LearnedStore, probe: Probe, hours: int = 6) -> None:
    checks = LearnedChecks()
    facts = describe_answer(200, "", GOOD.encode(), 0.01)
    result = ProbeResult(probe=probe.name, code=0, value=0.01, facts=facts)
    for minute in range(hours * 60):
        seen = observation_of(probe, result, START + minute * MINUTE)
        assert seen is not None
        assert not checks.observe(seen)
    store.save(checks.state)


async def alerts_of(bus: Bus) -> list[AlertRaised]:
    found = [recorded.event async for recorded in bus.journal.read()]
    return [event for event in found if isinstance(event, AlertRaised)]


async def test_a_web_page_gives_its_shape_and_keeps_no_body(tmp_path: Path) -> None:
    pages = Pages()
    pages.body = '{"token": "hunter2", "items": [{"id": 1}]}'
    with web_server(pages) as port:
        async with this_host(tmp_path) as here:
            probe = page_probe(port)
            result = (await run_probes(here, [probe]))[probe.name]
    assert result.facts is not None
    assert result.facts.status == 200
    assert result.facts.shape["items[].id"] == ("number",)
    assert "hunter2" not in repr(result)


async def test_a_watch_reports_wrong_data_across_a_restart_and_its_end(tmp_path: Path) -> None:
    bus, pages, clock = Bus(InMemoryJournal()), Pages(), Clock(START + 6 * HOUR)
    pages.body = GOOD
    with web_server(pages) as port:
        probe = page_probe(port)
        async with this_host(tmp_path) as here:
            store = LearnedStore(tmp_path, here.target)
            learn_page(store, probe)

            def watch() -> ProbeScheduler:
                return ProbeScheduler(
                    [probe],
                    here,
                    bus,
                    home=tmp_path,
                    settings=ProbeSettings(confirm=0.05),
                    learned=LearnedObserver(store, local=False, now=clock),
                )

            async def until(number: int) -> list[AlertRaised]:
                async def enough() -> bool:
                    return len(await alerts_of(bus)) >= number

                await eventually(enough, 60.0)
                return await alerts_of(bus)

            async with anyio.create_task_group() as group:
                first = watch()
                group.start_soon(first.run)
                pages.body = BAD
                [raised] = await until(1)
                group.cancel_scope.cancel()
            async with anyio.create_task_group() as group:
                second = watch()
                group.start_soon(second.run)

                async def ran() -> bool:
                    return second.rounds > 3

                await eventually(ran, 60.0)
                assert len(await alerts_of(bus)) == 1  # neither withdrawn nor raised again
                pages.body = GOOD
                _, resolved = await until(2)
                group.cancel_scope.cancel()
    assert raised.check == resolved.check == "learned-shop-page-shape"
    assert "`items` is missing" in raised.title
    assert dict(raised.labels)["service"] == "shop"
    assert QUESTION_LABEL not in dict(raised.labels)
    assert alert_impact(raised).floor == "P2"
    assert resolved.resolved


async def test_what_people_said_is_not_lost_when_the_watch_saves(tmp_path: Path) -> None:
    watch, command = LearnedStore(tmp_path, "host"), LearnedStore(tmp_path, "host")
    state = LearnedState()
    watch.save(state)
    command.mark("learned-x-shape", lambda mark: mark.as_false_alarm(5.0))
    watch.refresh_marks(state)
    assert state.mark("learned-x-shape") == CheckMark(weight=0.5, false_alarms=1, accepted_at=5.0)
    state.marks.clear()
    watch.save(state)
    assert command.load().mark("learned-x-shape").weight == 0.5


def test_a_file_that_cannot_be_read_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / LEARNED_FILE).write_bytes(b'{"host": {"subjects"')
    assert LearnedStore(tmp_path, "host").load() == LearnedState()


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    store, checks = LearnedStore(tmp_path, "host"), LearnedChecks()
    play_learned(checks, START, 5 * HOUR, healthy_page(random.Random(1)))
    store.save(checks.state)
    expected = [each.name for each in checks.checks()]
    assert expected
    for kill in range(20):
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:  # saves until it is killed
            try:
                while True:
                    store.save(checks.state)
                    os.write(writable, b".")
            finally:
                os._exit(1)
        for _ in range(kill % 4 + 1):
            os.read(readable, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(readable)
        os.close(writable)
        assert [each.name for each in LearnedChecks(store.load()).checks()] == expected


def test_memory_of_what_is_learned_is_bounded(tmp_path: Path) -> None:
    checks, store = LearnedChecks(), LearnedStore(tmp_path, "host")
    for minute in range(0, 20 * 24 * 60, 10):
        for number in range(10):
            checks.observe(
                number_seen(START + minute * 60, f"page-{number}", "latency", minute % 97 / 7)
            )
    store.save(checks.state)
    assert (tmp_path / LEARNED_FILE).stat().st_size < 10 * 6_000


def test_processes_queues_and_logs_of_this_host_are_measured(tmp_path: Path) -> None:
    queue, log = tmp_path / "mail-queue", tmp_path / "worker.log"
    (queue / "a").mkdir(parents=True)
    (queue / "a" / "1").touch()
    (queue / "2").touch()
    log.touch()
    os.utime(log, (START, START))
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"QUEUE": str(queue), "HOME": "/nowhere"},
        cwd="/",
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        assert find_queue_folders("worker", [child.pid]) == (str(queue),)
    finally:
        child.communicate()
    assert count_entries(str(queue)) == 2
    with web_server(Pages()) as port:
        probes = [
            Probe(name="port", kind="port", what=str(port), service="shop"),
            Probe(name="log-worker", kind="log", what=str(log), service="worker"),
        ]
        assert os.getpid() in find_service_parts(probes)["shop"].pids
        seen = {each.subject: each for each in HostMeasures().observe(probes, START + 90)}
    shop = seen["process-shop"]
    assert shop.values["memory"] > 5_000 and shop.values["descriptors"] > 3
    assert shop.started_at > 0
    assert seen["log-worker"].values == {"silence": 90.0}


# --- verification


class FixedMeasures(LearnedObserver):
    """What the host shows is chosen by the test."""

    seen: tuple[Observation, ...] = ()

    async def measure_now(self, probes: object) -> tuple[Observation, ...]:
        return self.seen


def observer_of(tmp_path: Path, checks: LearnedChecks) -> FixedMeasures:
    store = LearnedStore(tmp_path, "host")
    store.save(checks.state)
    return FixedMeasures(store, local=False, now=lambda: START)


async def test_a_fix_is_verified_by_the_shape_of_the_answer(tmp_path: Path) -> None:
    checks = LearnedChecks()
    play_learned(checks, START, 6 * HOUR, healthy_page(random.Random(1)))
    probe = Probe(name="http-8080-items", kind="http", what="http://x/items", service="shop")
    run = LearnedEvidence(observer_of(tmp_path, checks), "shop", lambda: START + 7 * HOUR)

    async def results(body: object) -> dict[str, bool]:
        facts = page(body)
        found = ProbeResult(probe=probe.name, code=0, value=0.02, facts=facts)
        return {each.check: each.ok for each in await run([probe], {probe.name: found})}

    assert await results({"error": "upstream"}) == {
        "learned-http-8080-items-status": True,
        "learned-http-8080-items-type": True,
        "learned-http-8080-items-shape": False,
    }
    assert all((await results(items())).values())


async def test_learned_checks_of_answers_run_on_a_copy(tmp_path: Path) -> None:
    checks, pages = LearnedChecks(), Pages()
    play_learned(checks, START, 6 * HOUR, healthy_page(random.Random(1)))
    learned = LearnedEvidence(observer_of(tmp_path, checks), "shop", lambda: START + 7 * HOUR)
    shape = "learned-http-8080-items-shape"
    async with this_host(tmp_path) as copy:
        with web_server(pages) as port:
            what = f"http://127.0.0.1:{port}/items"
            probe = Probe(name="http-8080-items", kind="http", what=what, service="shop")
            other = Probe(name="http-8080", kind="http", what=what, service="shop")
            on_copy = ProbeChecks([probe, other], copy, learned).in_environment(copy, [shape])
            for pages.body, ok in ((GOOD, True), (BAD, False)):
                assert [(each.check, each.ok) for each in await on_copy()] == [(shape, ok)]
    assert pages.asked == ["/items"] * 2


async def test_one_line_after_a_restart_does_not_prove_that_a_worker_works(tmp_path: Path) -> None:
    checks, randomness = LearnedChecks(), random.Random(2)
    play_learned(
        checks,
        START,
        5 * HOUR,
        lambda at: number_seen(at, "log-worker", "silence", randomness.random() * 20),
    )
    later = START + 5 * HOUR
    play_learned(
        checks, later, HOUR, lambda at: number_seen(at, "log-worker", "silence", at - later)
    )
    observer = observer_of(tmp_path, checks)
    at = later + HOUR
    run = LearnedEvidence(observer, "shop", lambda: at)

    async def result(now: float, silent_s: float) -> tuple[bool, bool]:
        nonlocal at
        at = now
        observer.seen = (number_seen(now, "log-worker", "silence", silent_s),)
        [found] = await run([], {})
        return found.ok, found.proves

    assert await result(at, HOUR) == (False, True)
    assert await result(at + 10, 2.0) == (True, False)  # the line of its start
    assert await result(at + 10, 12.0) == (True, False)
    assert await result(at + 10, 3.0) == (True, True)


async def test_a_backlog_that_shrinks_is_fixed_before_it_is_empty(tmp_path: Path) -> None:
    checks = LearnedChecks()
    play_learned(checks, START, 26 * HOUR, lambda at: number_seen(at, "q", "queue", at % 7))
    later = START + 26 * HOUR
    play_learned(checks, later, HOUR, lambda at: number_seen(at, "q", "queue", (at - later) / 10))
    observer = observer_of(tmp_path, checks)
    run = LearnedEvidence(observer, "shop", lambda: later + HOUR)
    states = []
    for length in (360.0, 365.0, 350.0, 3.0):
        observer.seen = (number_seen(later + HOUR, "q", "queue", length),)
        states += [each.ok for each in await run([], {})]
    assert states == [False, False, True, True]


def test_a_probe_result_of_a_page_is_an_observation() -> None:
    seen = page_seen(START, page(items()))
    assert seen.values.keys() == {"latency", "size"}
