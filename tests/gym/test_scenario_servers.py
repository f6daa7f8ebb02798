"""The real servers that scenarios are built from: quick to start, honest about what they need."""

import shutil
import time
from pathlib import Path

import anyio
import pytest

from hermes.environments.confinement import probe
from hermes.gym.box.box import Box
from hermes.gym.dice import Dice
from hermes.gym.episode import host_plan
from hermes.gym.parts.pg_found import server
from hermes.gym.parts.pg_server import USERS, postgres
from hermes.gym.parts.pg_template import FOLDER, NAME, cluster
from hermes.gym.parts.shell_lines import moves
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import PATH, find
from hermes.gym.story import File, Host

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(probe.hopeless()), reason=str(probe.hopeless())),
]
FOUND = server()
with_postgres = pytest.mark.skipif(FOUND is None, reason="PostgreSQL is not installed")

HEARS = """\
import signal, sys, time
def heard(number, frame):
    print("heard", signal.Signals(number).name, flush=True)
    sys.exit(0)
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, heard)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


async def says(box: Box, script: str, wanted: str, seconds: float = 20.0) -> None:
    said = ""
    with anyio.move_on_after(seconds):
        while wanted not in said:
            said = (await box.run(script)).output
            await anyio.sleep(0.02)
    assert wanted in said


@with_postgres
def test_the_cluster_is_made_once_and_then_taken_from_where_it_is_kept(tmp_path: Path) -> None:
    assert FOUND is not None
    first = cluster(FOUND, tmp_path)
    kept = tmp_path / FOLDER / NAME.format(version=FOUND.version)
    stamp = kept.stat().st_mtime_ns
    assert first
    assert cluster(FOUND, tmp_path) == first
    assert kept.stat().st_mtime_ns == stamp
    assert [each.name for each in kept.parent.iterdir()] == [kept.name]


@with_postgres
def test_a_home_that_cannot_be_written_costs_time_but_not_the_episode(tmp_path: Path) -> None:
    assert FOUND is not None
    (tmp_path / ".cache").write_text("a file where the folder should be")
    assert cluster(FOUND, tmp_path)


@with_postgres
async def test_a_database_is_furnished_and_asks_for_passwords() -> None:
    db = postgres(
        Dice(1),
        [
            "CREATE TABLE things (name text)",
            "INSERT INTO things VALUES ('lamp'), ('chair')",
            "CREATE ROLE reader LOGIN PASSWORD 'right'",
        ],
    )
    host = Host(name="db-1", users=USERS, files=db.files, folders=db.folders, units=(db.unit,))
    enter = f"psql -h 127.0.0.1 -p {db.port} -U reader -d {db.database} -Atc 'SELECT 7 * 6' 2>&1"
    async with Box([host_plan(host)]) as box:
        await says(box, db.ask("SELECT count(*) FROM things"), "2")
        assert (await box.run(f"PGPASSWORD=right {enter}")).output.strip() == "42"
        assert "authentication failed" in (await box.run(f"PGPASSWORD=wrong {enter}")).output
        await box.tell("restart", "postgresql.service")
        await says(box, db.ask("SELECT count(*) FROM things"), "2")


async def test_a_unit_is_stopped_with_the_signal_that_it_asks_for() -> None:
    service = unit(
        "polite", "/usr/bin/python3 -S /srv/hears.py", more="KillSignal=SIGINT\nTimeoutStopSec=20s"
    )
    host = Host(name="h", files=(File(path="/srv/hears.py", text=HEARS),), units=(service,))
    async with Box([host_plan(host)]) as box:
        await says(box, "journalctl -u polite", "ready")
        await box.tell("stop", "polite.service")
        await says(box, "journalctl -u polite", "heard SIGINT")


async def test_two_hosts_reach_each_other_by_their_addresses() -> None:
    if shutil.which("ip", path=PATH) is None:
        pytest.skip("iproute2 is not installed")
    hosts = [Host(name=f"h{n}", address=f"10.7.0.{n}") for n in (1, 2)]
    greet = "import socket as s; l = s.create_server(('10.7.0.2', 80)); l.accept()[0].send(b'hi')"
    async with Box([host_plan(each) for each in hosts]) as box:
        await box.run(f'(setsid python3 -c "{greet}" </dev/null >/dev/null 2>&1 &)', host=1)
        await says(box, "timeout 1 cat < /dev/tcp/10.7.0.2/80 2>&1", "hi")


async def test_a_number_that_stands_still_is_told_from_one_that_grows() -> None:
    async with Box([host_plan(Host(name="h"))]) as box:
        still = await box.run(moves("echo 5", within=0.2))
        grows = await box.run(f"n() {{ date +%s%N; }}; {moves('n')}")
    assert still.code == 1
    assert "still 5" in still.output
    assert grows.code == 0


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("certificate-expired", "openssl"),
        ("wrong-upstream", "nginx"),
        ("redis-out-of-memory", "redis-server"),
        ("db-deadlock", "postgres"),
        ("network-partition", "nft"),
    ],
)
def test_a_scenario_names_the_programs_without_which_it_cannot_be_played(
    name: str, program: str
) -> None:
    scenario = find(name)
    assert program in scenario.needs
    assert not scenario.light


@pytest.mark.parametrize("name", ["dns-wrong", "bad-deploy-rollback"])
def test_some_of_network_and_change_need_nothing(name: str) -> None:
    assert find(name).light


@with_postgres
def test_drawing_a_story_with_a_database_is_quick_once_the_cluster_is_kept() -> None:
    scenario = find("missing-index")
    scenario.story(1)
    started = time.process_time()
    scenario.story(2)
    assert time.process_time() - started < 0.5
