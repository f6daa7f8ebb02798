"""Services that ran before are expected: real daemons, stopped, forgotten, removed, started."""

import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from probe_house import Pages, eventually, policy_at, this_host, web_server

from hermes.cli.monitoring.watch import watch
from hermes.core.bus import Bus
from hermes.core.events.incidents import AlertRaised
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.probes.admission import admit_probes, mark_admitted
from hermes.sre.probes.discovery import propose_probes
from hermes.sre.probes.host_scan import (
    parse_scan,
)
from hermes.sre.probes.inventory import (
    INVENTORY_FILE,
    InventoryStore,
    KnownService,
    RunningService,
    ServiceInventory,
    update_inventory,
    without_service,
)
from hermes.sre.probes.probe import PROVISIONAL_LABEL, Probe
from hermes.sre.probes.probe_list import PeriodicDiscovery, ProbeList, build_probe_list
from hermes.sre.probes.probe_runner import run_probes
from hermes.sre.probes.scheduler import ProbeScheduler
from hermes.sre.settings import ProbeSettings

pytestmark = pytest.mark.anyio
SETTINGS = ProbeSettings(confirm=0.05, temporary_folders=())
NOON = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)
REDIS = shutil.which("redis-server") or ""
needs_redis = pytest.mark.skipif(not REDIS, reason="redis is not installed")


def fixed_port() -> int:
    """One that the kernel does not hand out to anyone who asks for any."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) != 0:
                return port


async def test_hermes_itself_is_neither_expected_nor_a_daemon_of_an_incident() -> None:
    known = {
        name: KnownService(
            name=name,
            first_seen=NOON,
            last_seen=NOON,
            why="running for 5 minutes",
            daemon=PlainDaemon(name=name),
        )
        for name in ("hermes", "web")
    }
    inventory = ServiceInventory(services=known)
    assert [each.name for each in inventory.daemons] == ["web"]
    assert [each.name for each in inventory.expected] == ["web"]


@pytest.mark.parametrize(("minutes", "started_again"), [(30, False), (90, True)])
async def test_a_daemon_that_appeared_since_is_started_again_only_after_an_hour(
    minutes: int, started_again: bool
) -> None:
    """A process with a pid file or a port may be what a person tries out and ends."""
    known = ServiceInventory()
    for after in (0, 5, 5 + minutes):
        running = [
            RunningService(name=name, why="a daemon", daemon=PlainDaemon(name=name))
            for name in (("web",) if after == 0 else ("web", "tried-out"))
        ]
        known = update_inventory(known, running, [], NOON + timedelta(minutes=after), 300.0)
    assert {each.name for each in known.expected} == {"web", "tried-out"}
    names = {each.name for each in known.daemons}
    assert names == ({"web", "tried-out"} if started_again else {"web"})


class Daemon:
    def __init__(self, folder: Path, port: int, program: str = "redis-server") -> None:
        self.folder, self.port, self.program = folder, port, program
        self.pid_file = folder / f"{port}.pid"

    def start(self) -> None:
        argv = [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        argv += ["--daemonize", "yes", "--pidfile", str(self.pid_file), "--dir", str(self.folder)]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not answers(self.port) or not self.pid_file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stop(self) -> None:
        if not self.pid_file.exists():
            return
        subprocess.run(["kill", self.pid_file.read_text().strip()], check=False)
        deadline = time.monotonic() + 120
        while answers(self.port):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, fixed_port())
    daemon.start()
    yield daemon
    daemon.stop()


async def stock(folder: Path, settings: ProbeSettings = SETTINGS) -> ProbeList:
    async with this_host(folder) as here:
        store = InventoryStore(folder / "home", here.target)
        return await build_probe_list(here, store, settings, http_timeout_s=0.4)


@needs_redis
async def test_a_service_that_ran_before_is_expected_after_a_restart_of_the_watch(
    tmp_path: Path, redis: Daemon
) -> None:
    first = await stock(tmp_path)
    assert f"port-{redis.port}" in {each.name for each in first.probes}
    assert "redis-server" not in first.missing
    redis.stop()
    second = await stock(tmp_path)
    assert "a daemon" in second.missing["redis-server"]
    mine = [each for each in second.probes if each.name.endswith(str(redis.port))]
    assert {each.kind for each in mine} == {"port", "redis"}
    assert {each.service for each in mine} == {"redis-server"}
    redis.start()
    assert "redis-server" not in (await stock(tmp_path)).missing


@needs_redis
async def test_the_alert_about_it_names_it(tmp_path: Path, redis: Daemon) -> None:
    await stock(tmp_path)
    redis.stop()
    roster = await stock(tmp_path)
    probes = [each for each in roster.probes if each.name == f"port-{redis.port}"]
    async with patrolling(tmp_path, probes) as (_, bus):
        [raised] = await alerts(bus, 1)
    assert raised.title.startswith("redis-server: nothing answers")


@needs_redis
async def test_a_service_that_was_forgotten_is_not_expected(tmp_path: Path, redis: Daemon) -> None:
    await stock(tmp_path)
    redis.stop()
    async with this_host(tmp_path) as here:
        target = here.target
    home = tmp_path / "home"
    InventoryStore(home, target).change(lambda known: without_service(known, "redis-server"))
    after = await stock(tmp_path)
    assert "redis-server" not in after.missing
    assert not [each for each in after.probes if each.name.endswith(str(redis.port))]
    redis.start()
    await stock(tmp_path)
    redis.stop()
    assert "redis-server" in (await stock(tmp_path)).missing


@needs_redis
async def test_a_program_that_was_removed_is_a_question_and_no_outage(tmp_path: Path) -> None:
    program = tmp_path / "redis-server"
    shutil.copy(REDIS, program)
    daemon = Daemon(tmp_path, fixed_port(), str(program))
    daemon.start()
    await stock(tmp_path)
    daemon.stop()
    program.unlink()
    roster = await stock(tmp_path)
    assert "redis-server" not in roster.missing
    assert not [each for each in roster.probes if each.name.endswith(str(daemon.port))]
    [asked] = [each for each in roster.probes if each.name.startswith("question")]
    assert asked.severity == "P3"
    async with this_host(tmp_path) as here:
        assert (await admit_probes([asked], policy_at(tmp_path), here)).refused == ()
    assert any("hermes health forget redis-server" in each.text for each in roster.questions)
    async with patrolling(tmp_path, [asked]) as (_, bus):
        [raised] = await alerts(bus, 1)
        assert "is not installed any more" in raised.text
        shutil.copy(REDIS, program)


@contextmanager
def development_server(port: int) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not answers(port):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield child
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(120)


async def test_a_development_server_that_ends_is_no_alert_and_not_expected(tmp_path: Path) -> None:
    port = fixed_port()
    with development_server(port) as child:
        roster = await stock(tmp_path)
        probe = next(each for each in roster.probes if each.name == f"port-{port}")
        assert probe.service == "http.server"
        assert PROVISIONAL_LABEL in probe.labels
        async with patrolling(tmp_path, [probe]) as (patrol, bus):
            child.send_signal(signal.SIGKILL)
            child.wait(120)

            async def failed_often() -> bool:
                return patrol.rounds >= 8 and patrol.verdicts[0].state == "failing"

            await eventually(failed_often)
            assert await alerts(bus, 0) == []
    assert "http.server" not in (await stock(tmp_path)).missing


async def test_one_that_stays_becomes_expected(tmp_path: Path) -> None:
    port = fixed_port()
    patient = ProbeSettings(settle=0.0)
    with development_server(port):
        assert PROVISIONAL_LABEL in named(await stock(tmp_path), f"port-{port}").labels
        assert PROVISIONAL_LABEL not in named(await stock(tmp_path, patient), f"port-{port}").labels
    assert "http.server" in (await stock(tmp_path, patient)).missing


def named(roster: ProbeList, name: str) -> Probe:
    return next(each for each in roster.probes if each.name == name)


async def test_a_page_that_fails_when_it_is_first_seen_is_not_passed_over(tmp_path: Path) -> None:
    pages = Pages()
    pages.status = 502
    with web_server(pages) as port:
        roster = await stock(tmp_path)
        page = named(roster, f"http-{port}")
        async with this_host(tmp_path) as here:
            patrol = ProbeScheduler([page], here, Bus(InMemoryJournal()), home=tmp_path / "patrol")
            [verdict] = await patrol.run_once()
    assert verdict.state == "failing"
    assert "the status is 502" in verdict.detail


@needs_redis
async def test_a_service_that_is_started_while_the_watch_runs_is_found(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, fixed_port())
    rosters: list[ProbeList] = []

    async def adopt(roster: ProbeList) -> None:
        rosters.append(roster)

    async def found() -> bool:
        names = {each.name for each in rosters[-1].probes} if rosters else set()
        return f"redis-{daemon.port}" in names

    async with this_host(tmp_path) as here, anyio.create_task_group() as group:
        store = InventoryStore(tmp_path / "home", here.target)
        surveyor = PeriodicDiscovery(
            here, store, SETTINGS, adopt, check_interval_s=0.2, min_gap_s=0.2
        )
        group.start_soon(surveyor.run)
        await anyio.sleep(0.3)
        daemon.start()
        try:
            await eventually(found)
        finally:
            daemon.stop()
        group.cancel_scope.cancel()


@needs_redis
async def test_a_watch_with_declared_probes_asks_about_a_service_without_one(
    tmp_path: Path, redis: Daemon
) -> None:
    declared = [Probe(name="disk", kind="disk", what="/", limit=101)]
    settings = ProbeSettings(confirm=0.05, settle=0.1, temporary_folders=())
    probe_lists: list[ProbeList] = []

    async def adopt(probe_list: ProbeList) -> None:
        probe_lists.append(probe_list)

    async def asked() -> bool:
        return any("redis-server" in each.service for one in probe_lists for each in one.questions)

    async with this_host(tmp_path) as here, anyio.create_task_group() as group:
        store = InventoryStore(tmp_path / "home", here.target)
        discovery = PeriodicDiscovery(
            here, store, settings, adopt, declared=declared, check_interval_s=0.2
        )
        group.start_soon(discovery.run)
        await eventually(asked)
        group.cancel_scope.cancel()
    assert {"disk"} <= {each.name for each in probe_lists[0].probes}


@needs_redis
async def test_a_running_watch_follows_when_a_service_is_forgotten(
    tmp_path: Path, redis: Daemon
) -> None:
    first = await stock(tmp_path)
    home = tmp_path / "home"
    redis.stop()
    rosters = [first]

    async def adopt(roster: ProbeList) -> None:
        rosters.append(roster)

    async def gone() -> bool:
        return f"port-{redis.port}" not in {each.name for each in rosters[-1].probes}

    async with this_host(tmp_path) as here, anyio.create_task_group() as group:
        store = InventoryStore(home, here.target)
        surveyor = PeriodicDiscovery(
            here, store, SETTINGS, adopt, check_interval_s=0.2, min_gap_s=1000
        )
        group.start_soon(surveyor.run)
        await anyio.sleep(0.3)
        InventoryStore(home, here.target).change(
            lambda known: without_service(known, "redis-server")
        )
        await eventually(gone)
        group.cancel_scope.cancel()


async def test_a_patrol_resolves_what_it_is_not_to_ask_any_more(tmp_path: Path) -> None:
    old = Probe(name="old", kind="port", what=str(fixed_port()), interval=0.2, service="shop")
    new = Probe(name="new", kind="disk", what="/", limit=101, interval=0.2)
    async with patrolling(tmp_path, [old]) as (patrol, bus):
        [raised] = await alerts(bus, 1)
        await patrol.replace_probes([new])
        _, resolved = await alerts(bus, 2)

        async def asked() -> bool:
            return [each.probe for each in patrol.verdicts] == ["new"]

        await eventually(asked)
    assert resolved.resolved
    assert resolved.fingerprint == raised.fingerprint


@needs_redis
def test_a_file_that_is_written_expects_what_is_down_and_leaves_out_what_may_end(
    tmp_path: Path, redis: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, port = tmp_path / "home", fixed_port()
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    anyio.run(stock, tmp_path)
    redis.stop()
    with development_server(port):
        CliRunner().invoke(watch, ["--discover", "--write"], catch_exceptions=False)
    text = (home / "probes.yaml").read_text()
    assert f"redis-{redis.port}" in text
    assert f"port-{port}" not in text
    assert "http.server is left out" in text


def test_a_port_of_the_ephemeral_range_that_moved_is_not_missed() -> None:
    def seen(port: int) -> tuple[RunningService, Probe]:
        probe = Probe(name=f"port-{port}", kind="port", what=str(port), service="statd")
        return RunningService(name="statd", why="named in /run/statd.pid", ports=(port,)), probe

    known = ServiceInventory()
    for port in (40_001, 40_002):
        sighting, probe = seen(port)
        known = update_inventory(known, [sighting], [probe], NOON, 300.0)
    assert [each.name for each in known.services["statd"].probes] == ["port-40002"]


def test_what_was_failing_when_it_was_seen_is_not_remembered_as_fine() -> None:
    bad = Probe(
        name="http-80", kind="http", what="http://x/", service="web", labels={"now": "failing"}
    )
    known = update_inventory(
        ServiceInventory(), [RunningService(name="web", why="a daemon")], [bad], NOON, 300.0
    )
    assert known.services["web"].probes == ()


async def test_one_that_was_seen_for_a_while_is_expected_whatever_its_process_says(
    tmp_path: Path,
) -> None:
    """It is restarted all the time, so that its process is always young."""
    port = fixed_port()
    with development_server(port):
        await stock(tmp_path)
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    async with this_host(tmp_path) as here:
        target = here.target
    InventoryStore(tmp_path / "home", target).change(lambda known: first_seen(known, long_ago))
    with development_server(port):
        assert PROVISIONAL_LABEL not in named(await stock(tmp_path), f"port-{port}").labels
    assert "http.server" in (await stock(tmp_path)).missing


def first_seen(known: ServiceInventory, at: datetime) -> ServiceInventory:
    services = {name: replace(each, first_seen=at) for name, each in known.services.items()}
    return replace(known, services=services)


def test_a_home_that_cannot_be_written_or_is_gone_forgets_nothing(tmp_path: Path) -> None:
    """A folder of the file's name keeps it from being written, also for the superuser."""
    home = tmp_path / "home"
    (home / INVENTORY_FILE).mkdir(parents=True)
    store = InventoryStore(home, "here")
    web, db = RunningService(name="web", why="a daemon"), RunningService(name="db", why="a daemon")
    store.change(lambda known: update_inventory(known, [web], [], NOON, 300.0))
    store.change(lambda known: update_inventory(known, [db], [], NOON, 300.0))
    assert set(store.load().services) == {"web", "db"}
    (home / INVENTORY_FILE).rmdir()
    store.change(lambda known: update_inventory(known, [], [], NOON, 300.0))
    assert set(InventoryStore(home, "here").load().services) == {"web", "db"}
    shutil.rmtree(home)
    assert set(store.load().services) == {"web", "db"}
    InventoryStore(home, "here").change(lambda known: without_service(known, "web"))
    assert set(store.load().services) == set()


def test_what_was_seen_once_and_never_again_is_forgotten_after_a_day() -> None:
    known = update_inventory(ServiceInventory(), [RunningService(name="dev")], [], NOON, 300.0)
    assert "dev" in known.services
    assert known.expected == ()
    assert update_inventory(known, [], [], NOON + timedelta(days=2), 300.0).services == {}


@asynccontextmanager
async def patrolling(
    folder: Path, probes: list[Probe]
) -> AsyncGenerator[tuple[ProbeScheduler, Bus], None]:
    quick = [replace(each, interval=0.2) for each in probes]
    bus = Bus(InMemoryJournal())
    async with this_host(folder) as here, anyio.create_task_group() as group:
        patrol = ProbeScheduler(quick, here, bus, home=folder / "patrol", settings=SETTINGS)
        group.start_soon(patrol.run)
        yield patrol, bus
        group.cancel_scope.cancel()


async def alerts(bus: Bus, number: int) -> list[AlertRaised]:
    async def read() -> list[AlertRaised]:
        found = [recorded.event async for recorded in bus.journal.read()]
        return [event for event in found if isinstance(event, AlertRaised)]

    async def enough() -> bool:
        return len(await read()) >= number

    await eventually(enough)
    return await read()


def supervised(state: str, pid: str = "") -> str:
    command = "python3 /srv/q/worker.py -n 3"
    row = f"process=9\t4\t4\t0\t60\t\t/usr/bin/python3\tsupervisord:0<\t{command}\n"
    return f"have=supervisorctl\nat=100\nsupervised=mailer\t{state}\t{pid}\n{row}"


async def test_a_worker_without_a_port_is_watched_by_its_command_line(tmp_path: Path) -> None:
    found = propose_probes(parse_scan(supervised("RUNNING", "9")))
    [probe] = [each for each in found.probes if each.service == "mailer"]
    assert [each.name for each in found.services] == ["mailer"]
    async with this_host(tmp_path) as here:
        assert (await admit_probes([probe], policy_at(tmp_path), here)).refused == ()
        gone = (await run_probes(here, [mark_admitted(probe)]))[probe.name]
        assert gone.text == "mailer is not running"
        with worker(tmp_path / "worker.py"):
            what = probe.what.replace("/srv/q/worker", f"{tmp_path}/worker")
            there = (await run_probes(here, [mark_admitted(replace(probe, what=what))]))[probe.name]
    assert there.code == 0


async def test_a_program_that_renames_itself_is_running_when_supervisord_says_so(
    tmp_path: Path,
) -> None:
    """nginx is seen before it has opened its ports, and changes its command line then."""
    supervisor = real_supervisord(
        tmp_path, "bash -c 'sleep 1; exec -a \"mailer: master\" sleep 60'"
    )
    found = propose_probes(parse_scan(supervised("RUNNING", "9")))
    [probe] = [each for each in found.probes if each.service == "mailer"]
    configuration = f"supervisorctl -c {tmp_path}/supervisord.conf"
    with supervisor:
        async with this_host(tmp_path) as here:
            probe = replace(probe, what=probe.what.replace("supervisorctl", configuration))
            there = (await run_probes(here, [mark_admitted(probe)]))[probe.name]
    assert there.code == 0, there


@contextmanager
def real_supervisord(folder: Path, command: str) -> Iterator[None]:
    program = shutil.which("supervisord")
    if program is None:
        pytest.skip("supervisord is not installed")
    (folder / "supervisord.conf").write_text(
        f"[supervisord]\nnodaemon=true\nlogfile={folder}/log\npidfile={folder}/pid\n"
        f"[unix_http_server]\nfile={folder}/socket\n"
        f"[supervisorctl]\nserverurl=unix://{folder}/socket\n"
        "[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = "
        "supervisor.rpcinterface:make_main_rpcinterface\n"
        f"[program:mailer]\ncommand={command}\n"
    )
    with subprocess.Popen([program, "-c", f"{folder}/supervisord.conf"]) as process:
        try:
            control = ["supervisorctl", "-c", f"{folder}/supervisord.conf", "status"]
            deadline = time.monotonic() + 120
            while b"RUNNING" not in subprocess.run(control, capture_output=True).stdout:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


@contextmanager
def worker(script: Path) -> Iterator[None]:
    script.write_text("import time; time.sleep(60)")
    argv = ["python3", str(script), "-n", "3"]
    with subprocess.Popen(argv, executable=sys.executable) as child:
        yield
        child.kill()


def test_what_its_supervisor_cannot_start_fails_and_what_is_stopped_is_a_question() -> None:
    [probe] = [
        each
        for each in propose_probes(parse_scan(supervised("FATAL"))).probes
        if each.service == "mailer"
    ]
    assert probe.labels["now"] == "failing"
    stopped = propose_probes(parse_scan(supervised("STOPPED")))
    assert stopped.stopped == ("mailer",)
    assert not [each for each in stopped.probes if each.service == "mailer"]


def test_what_is_enabled_at_boot_and_does_not_run_fails() -> None:
    found = propose_probes(parse_scan("installed=nginx\tnginx\tenabled\ninstalled=ssh\tsshd\t\n"))
    [probe] = [each for each in found.probes if each.kind == "command"]
    assert (probe.service, probe.severity) == ("nginx", "P1")
    assert "enabled at boot and is not running" in probe.what


def test_supervisord_names_those_that_overwrote_their_own_name() -> None:
    survey = parse_scan(
        "listen=127.0.0.1\t6379\tredis-server\t 7\nsupervised=cache\tRUNNING\t7\n"
        "process=7\t4\t4\t0\t60\t\t/usr/bin/redis-server\tsupervisord:0<\tredis-server *:6379\n"
    )
    [cache] = propose_probes(survey).services
    assert (cache.name, cache.why) == ("cache", "supervised by supervisord")
    assert cache.program == "redis-server"


@needs_redis
async def test_a_server_that_was_seen_under_another_name_is_no_question(
    tmp_path: Path, redis: Daemon
) -> None:
    """It is installed as redis-server, and its supervisor called it cache."""
    await stock(tmp_path)
    async with this_host(tmp_path) as here:
        target = here.target
    InventoryStore(tmp_path / "home", target).change(lambda known: renamed(known, "cache"))
    redis.stop()
    roster = await stock(tmp_path)
    assert "cache" in roster.missing
    assert "redis-server" not in {each.service for each in roster.questions}


def renamed(known: ServiceInventory, name: str) -> ServiceInventory:
    service = replace(known.services["redis-server"], name=name)
    return replace(known, services={name: service})
