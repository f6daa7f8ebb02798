"""The rhythm of the watch: told once when something breaks, once when it is fixed."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from probe_house import PATH, Pages, eventually, this_host, web_server

from hermes.core.bus import Bus
from hermes.core.errors import EnvironmentFailed, StoreFull
from hermes.core.events import Event
from hermes.core.events.incidents import AlertRaised
from hermes.core.incident import WITHDRAWN_LABEL
from hermes.core.protocols import CommandResult, Environment
from hermes.environments.local import LocalEnvironment
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.evaluation import HISTORY_FILE, ProbeHistory, load_history, save_history
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.scheduled_probe import ScheduledProbe
from hermes.sre.probes.scheduler import ProbeScheduler
from hermes.sre.settings import ProbeSettings

pytestmark = pytest.mark.anyio
SETTINGS = ProbeSettings(confirm=0.05)


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.bus = Bus(InMemoryJournal())
        self.flag = folder / "broken"

    def probe(self, name: str = "flag", **more: object) -> Probe:
        chosen = {"interval": 0.3, "service": "shop", **more}
        return Probe(name=name, kind="command", what=f"! test -e {self.flag}", **chosen)  # type: ignore[arg-type]

    def patrol(self, *probes: Probe, here: Environment, bus: Bus | None = None) -> ProbeScheduler:
        return ProbeScheduler(
            [mark_admitted(each) for each in probes],
            here,
            bus or self.bus,
            home=self.home,
            settings=SETTINGS,
        )

    async def alerts(self) -> list[AlertRaised]:
        found = [recorded.event async for recorded in self.bus.journal.read()]
        return [event for event in found if isinstance(event, AlertRaised)]

    async def until(self, number: int) -> list[AlertRaised]:
        async def enough() -> bool:
            return len(await self.alerts()) >= number

        await eventually(enough)
        return await self.alerts()

    async def until_told(self, name: str) -> None:
        async def told() -> bool:
            return name in {each.check for each in await self.alerts()}

        await eventually(told)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@asynccontextmanager
async def watching(*patrols: ProbeScheduler) -> AsyncGenerator[None, None]:
    async with anyio.create_task_group() as group:
        for patrol in patrols:
            group.start_soon(patrol.run)
        yield
        group.cancel_scope.cancel()


async def until(happened: Callable[[], bool]) -> None:
    async def asked() -> bool:
        return happened()

    await eventually(asked)


async def test_a_change_is_told_exactly_once_each_way(world: World) -> None:
    async with this_host(world.folder) as here:
        patrol = world.patrol(world.probe(impact="no orders"), here=here)
        async with watching(patrol):
            await until(lambda: patrol.rounds >= 2)
            world.flag.touch()
            [raised] = await world.until(1)
            rounds = patrol.rounds
            await until(lambda: patrol.rounds >= rounds + 3)
            assert len(await world.alerts()) == 1
            world.flag.unlink()
            _, resolved = await world.until(2)
            rounds = patrol.rounds
            await until(lambda: patrol.rounds >= rounds + 3)
    assert len(await world.alerts()) == 2
    assert (raised.run, raised.check, raised.source) == ("watch", "flag", "probe")
    assert dict(raised.labels)["service"] == "shop"
    assert "no orders" in raised.text
    assert raised.since is not None
    assert raised.since <= raised.at
    assert resolved.resolved
    assert resolved.fingerprint == raised.fingerprint


async def test_one_bad_look_is_no_alert(world: World) -> None:
    """It fails every second time: never twice in a row."""
    count = world.folder / "count"
    text = f"echo x >> {count}; test $(( $(wc -l < {count}) % 2 )) = 0"
    odd = Probe(name="odd", kind="command", what=text, interval=0.2, fails=2)
    async with this_host(world.folder) as here:
        patrol = world.patrol(odd, here=here)
        async with watching(patrol):
            await until(lambda: count.exists() and count.read_text().count("x") >= 10)
    assert await world.alerts() == []


async def test_trouble_is_confirmed_long_before_the_next_interval(world: World) -> None:
    pages = Pages()
    pages.status = 500
    with web_server(pages) as port:
        url = f"http://127.0.0.1:{port}/"
        probe = Probe(name="page", kind="http", what=url, interval=3600.0, fails=2)
        async with this_host(world.folder) as here:
            patrol = world.patrol(probe, here=here)
            async with watching(patrol):
                await world.until(1)
    assert len(pages.asked) >= 2


async def test_a_probe_that_hangs_delays_no_alert_of_another(world: World) -> None:
    hangs = Probe(name="hangs", kind="command", what="sleep 6000", interval=0.5, timeout=600.0)
    late = Probe(name="late", kind="command", what="sleep 6000", interval=0.5, timeout=0.5)
    async with this_host(world.folder) as here:
        patrol = world.patrol(hangs, late, world.probe(), here=here)
        async with watching(patrol):
            await until(lambda: patrol.rounds >= 2)
            world.flag.touch()
            await world.until_told("flag")
            await world.until_told("late")
    assert patrol.skipped > 0
    assert "hangs" not in {each.check for each in await world.alerts()}


async def test_a_watch_that_was_killed_tells_nothing_twice(world: World) -> None:
    world.flag.touch()
    async with this_host(world.folder) as here:
        async with watching(world.patrol(world.probe(), here=here)):
            await world.until(1)
        second = world.patrol(world.probe(), here=here)
        async with watching(second):
            await until(lambda: second.rounds >= 3)
            assert len(await world.alerts()) == 1
        world.flag.unlink()
        async with watching(world.patrol(world.probe(), here=here)):
            found = await world.until(2)
    assert [each.resolved for each in found] == [False, True]


async def test_an_alert_of_a_probe_that_is_gone_is_taken_back(world: World) -> None:
    world.flag.touch()
    async with this_host(world.folder) as here:
        async with watching(world.patrol(world.probe("old"), here=here)):
            await world.until(1)
        async with watching(world.patrol(world.probe("new", fails=100), here=here)):
            raised, resolved = await world.until(2)
    assert resolved.resolved
    assert resolved.fingerprint == raised.fingerprint


async def test_of_two_watches_of_one_home_one_stands_by_and_takes_over(world: World) -> None:
    async with this_host(world.folder) as here:
        first, second = (world.patrol(world.probe(), here=here) for _ in range(2))
        async with anyio.create_task_group() as group:
            inner = anyio.CancelScope()

            async def watch_first() -> None:
                with inner:
                    await first.run()

            group.start_soon(watch_first)
            await until(lambda: first.rounds >= 1)
            group.start_soon(second.run)
            world.flag.touch()
            await world.until(1)
            assert second.rounds == 0
            inner.cancel()
            await until(lambda: second.rounds >= 2)
            group.cancel_scope.cancel()
    assert len(await world.alerts()) == 1


class Dying(LocalEnvironment):
    dead = False

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        if self.dead:
            raise EnvironmentFailed("connection refused")
        return await super().run(command, timeout=timeout, stdin=stdin, cwd=cwd)


async def test_a_place_that_fails_is_one_alert_and_not_one_a_probe(world: World) -> None:
    probes = [world.probe(f"p{number}") for number in range(5)]
    async with Dying(world.folder, {"PATH": PATH}) as here:
        patrol = world.patrol(*probes, here=here)
        async with watching(patrol):
            await until(lambda: len(patrol.verdicts) == 5)
            here.dead = True
            [raised] = await world.until(1)
            assert raised.check == "place"
            assert {each.state for each in patrol.verdicts} == {"unknown"}
            here.dead = False
            _, resolved = await world.until(2)
    assert resolved.resolved


class Full(InMemoryJournal):
    full = True

    async def append(self, *events: Event) -> list[int]:
        if self.full:
            raise StoreFull("no space left")
        return list(await super().append(*events))


async def test_an_alert_that_the_journal_did_not_take_is_told_later(world: World) -> None:
    journal = Full()
    world.bus = Bus(journal)
    world.flag.touch()
    async with this_host(world.folder) as here:
        journal.full = False
        patrol = world.patrol(world.probe(), here=here)
        async with watching(patrol):
            journal.full = True
            await until(lambda: patrol.unpublished >= 2)
            assert await world.alerts() == []
            journal.full = False
            await world.until(1)


async def test_one_look_at_everything_tells_nobody(world: World) -> None:
    world.flag.touch()
    gone = Probe(name="gone", kind="log", what=str(world.folder / "no.log"))
    disk = Probe(name="disk", kind="disk", what="/", limit=101)
    async with this_host(world.folder) as here:
        seen = await world.patrol(world.probe(), gone, disk, here=here).run_once()
    assert [(each.probe, each.state) for each in seen] == [
        ("flag", "failing"),
        ("gone", "unknown"),
        ("disk", "fine"),
    ]
    assert await world.alerts() == []
    assert not (world.home / HISTORY_FILE).exists()


async def test_what_is_unusual_is_told_only_when_enough_is_known(world: World) -> None:
    number = world.folder / "number"
    text = f"echo value=$(cat {number})"
    probe = Probe(name="n", kind="command", what=text, interval=0.2, baseline=True)
    number.write_text("900")
    async with this_host(world.folder) as here:
        patrol = world.patrol(probe, here=here)
        async with watching(patrol):  # nothing is known yet
            await until(lambda: patrol.rounds >= 4)
        assert await world.alerts() == []
        world.home.mkdir(exist_ok=True)
        save_history(world.home, {"n": ProbeHistory(values=tuple([10.0, 11.0, 9.0, 10.0] * 6))})
        async with watching(world.patrol(probe, here=here)):
            [raised] = await world.until(1)
            assert "usual is 10" in raised.text
            number.write_text("12")
            _, resolved = await world.until(2)
            assert resolved.resolved
    assert 900.0 not in load_history(world.home)["n"].values


async def test_a_memory_that_cannot_be_read_is_learned_anew(world: World) -> None:
    world.home.mkdir()
    (world.home / HISTORY_FILE).write_text("{half of it")
    assert load_history(world.home) == {}
    async with this_host(world.folder) as here:
        patrol = world.patrol(world.probe(), here=here)
        async with watching(patrol):
            await until(lambda: patrol.rounds >= 2)
    assert "flag" in load_history(world.home)


async def test_a_silent_log_proves_no_recovery_while_its_service_fails(world: World) -> None:
    """The service wrote errors and ended: it writes nothing any more, which is no recovery."""
    log = world.folder / "shop.log"
    log.touch()
    watched = Probe(name="log-shop", kind="log", what=str(log), interval=0.3, fails=1)
    async with this_host(world.folder) as here:
        patrol = world.patrol(watched, world.probe(), here=here)
        async with watching(patrol):
            await until(lambda: patrol.rounds >= 2)
            world.flag.touch()  # the service has ended
            await world.until_told("flag")
            log.write_text("error: no connection\n" * 50)
            await world.until_told("log-shop")
            await until(lambda: _state_of(patrol, "log-shop") != "failing")
            rounds = patrol.rounds
            await until(lambda: patrol.rounds >= rounds + 3)
            assert _state_of(patrol, "log-shop") == "unknown"
            assert not any(each.resolved for each in await world.alerts())
            world.flag.unlink()
            found = await world.until(4)
    assert {each.check for each in found if each.resolved} == {"flag", "log-shop"}


@pytest.mark.parametrize("beside", [False, True])
async def test_errors_that_merely_stop_are_no_recovery_until_something_is_written(
    world: World, beside: bool
) -> None:
    """A fault that only requests show writes no errors while nobody requests anything."""
    log, access = world.folder / "error.log", world.folder / "access.log"
    log.touch()
    access.touch()
    fast = {"service": "shop", "interval": 0.3, "fails": 1}
    errors = Probe(name="errors", kind="log", what=str(log), **fast)  # type: ignore[arg-type]
    requests = Probe(name="requests", kind="answers", what=str(access), **fast)  # type: ignore[arg-type]
    async with this_host(world.folder) as here:
        patrol = world.patrol(errors, requests, world.probe(), here=here)
        async with watching(patrol):
            await until(lambda: patrol.rounds >= 2)
            access.write_text("GET /cart 403\n")
            log.write_text("error: permission denied\n" * 50)
            await world.until_told("errors")
            rounds = patrol.rounds
            await until(lambda: patrol.rounds >= rounds + 6)
            assert _state_of(patrol, "errors") == "unknown"
            assert not any(each.resolved for each in await world.alerts())
            with (access if beside else log).open("a") as file:
                file.write("GET /cart 200\n")
            found = await world.until(2)
    assert [each.check for each in found if each.resolved] == ["errors"]


async def test_a_service_that_answered_wrongly_and_gives_no_answer_then_is_told_once_more(
    world: World,
) -> None:
    says = world.folder / "says"
    says.write_text("status 502")
    probe = Probe(
        name="page",
        kind="command",
        what=f"cat {says} >&2; ! grep -q . {says}",
        interval=0.3,
        service="shop",
    )
    async with this_host(world.folder) as here:
        patrol = world.patrol(probe, here=here)
        async with watching(patrol):
            await world.until(1)
            says.write_text("nothing answers at 127.0.0.1:80")
            await world.until(2)
        again = world.patrol(probe, here=here)
        async with watching(again):  # it is remembered, also by the next watch
            await until(lambda: again.rounds >= 4)
            assert len(await world.alerts()) == 2
            says.write_text("")
            found = await world.until(3)
    first, worse, resolved = found
    assert "502" in first.title and "nothing answers" in worse.title and resolved.resolved
    assert first.fingerprint == worse.fingerprint == resolved.fingerprint


def _state_of(patrol: ProbeScheduler, name: str) -> str:
    return next((each.state for each in patrol.verdicts if each.probe == name), "")


@pytest.mark.parametrize(
    ("now", "after"), [(100.0, 108.0), (104.0, 108.0), (108.0, 116.0), (130.0, 132.0)]
)
async def test_looks_keep_to_their_grid(now: float, after: float) -> None:
    """A late or a slow look does not move the later ones."""
    scheduled = ScheduledProbe(Probe(name="slow", kind="load", interval=8.0), start=100.0)
    scheduled.begin(now)
    assert scheduled.next == after


async def test_a_probe_that_was_removed_while_it_failed_says_that_it_passes_again(
    world: World,
) -> None:
    probe = mark_admitted(world.probe())
    async with this_host(world.folder) as here:
        patrol = world.patrol(probe, here=here)
        async with watching(patrol):
            world.flag.touch()
            await world.until(1)
            await patrol.replace_probes([])
            _, withdrawn = await world.until(2)
            world.flag.unlink()
            await patrol.replace_probes([probe])
            *_, again = await world.until(3)
    assert dict(withdrawn.labels)[WITHDRAWN_LABEL]
    assert again.resolved and WITHDRAWN_LABEL not in dict(again.labels)
