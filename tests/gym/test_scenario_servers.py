"""The real servers that scenarios are built from: quick to start, honest about what they need."""

import shutil
import time
from pathlib import Path

import anyio
import pytest

from hermes.environments.boxes.box import Box
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import PROGRAM_PATH, find_scenario
from hermes.gym.scenario_spec import HostFile, HostSpec
from hermes.gym.services.postgres import (
    CLUSTER_CACHE_FOLDER,
    CLUSTER_FILE_NAME,
    POSTGRES_HOST_USERS,
    find_installation,
    packed_cluster,
    postgres_server,
)
from hermes.gym.services.python_service import service_unit
from hermes.gym.services.shell_scripts import number_grows_script

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
FOUND = find_installation()
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


async def says(box: Box, script: str, wanted: str, seconds: float = 120.0) -> None:
    said = ""
    with anyio.move_on_after(seconds):
        while wanted not in said:
            said = (await box.run(script)).output
            await anyio.sleep(0.02)
    assert wanted in said


@with_postgres
def test_the_cluster_is_made_once_and_then_taken_from_where_it_is_kept(tmp_path: Path) -> None:
    assert FOUND is not None
    first = packed_cluster(FOUND, tmp_path)
    kept = tmp_path / CLUSTER_CACHE_FOLDER / CLUSTER_FILE_NAME.format(version=FOUND.version)
    stamp = kept.stat().st_mtime_ns
    assert first
    assert packed_cluster(FOUND, tmp_path) == first
    assert kept.stat().st_mtime_ns == stamp
    assert [each.name for each in kept.parent.iterdir()] == [kept.name]


@with_postgres
def test_a_home_that_cannot_be_written_costs_time_but_not_the_episode(tmp_path: Path) -> None:
    assert FOUND is not None
    (tmp_path / ".cache").write_text("a file where the folder should be")
    assert packed_cluster(FOUND, tmp_path)


@with_postgres
async def test_a_database_is_furnished_and_asks_for_passwords() -> None:
    db = postgres_server(
        RandomSource(1),
        [
            "CREATE TABLE things (name text)",
            "INSERT INTO things VALUES ('lamp'), ('chair')",
            "CREATE ROLE reader LOGIN PASSWORD 'right'",
        ],
    )
    host = HostSpec(
        name="db-1", users=POSTGRES_HOST_USERS, files=db.files, folders=db.folders, units=(db.unit,)
    )
    enter = f"psql -h 127.0.0.1 -p {db.port} -U reader -d {db.database} -Atc 'SELECT 7 * 6' 2>&1"
    async with Box([build_host_plan(host)]) as box:
        await says(box, db.ask("SELECT count(*) FROM things"), "2")
        assert (await box.run(f"PGPASSWORD=right {enter}")).output.strip() == "42"
        assert "authentication failed" in (await box.run(f"PGPASSWORD=wrong {enter}")).output
        await box.call_supervisor("restart", "postgresql.service")
        await says(box, db.ask("SELECT count(*) FROM things"), "2")


async def test_a_unit_is_stopped_with_the_signal_that_it_asks_for() -> None:
    service = service_unit(
        "polite", "/usr/bin/python3 -S /srv/hears.py", more="KillSignal=SIGINT\nTimeoutStopSec=20s"
    )
    host = HostSpec(name="h", files=(HostFile(path="/srv/hears.py", text=HEARS),), units=(service,))
    async with Box([build_host_plan(host)]) as box:
        await says(box, "journalctl -u polite", "ready")
        await box.call_supervisor("stop", "polite.service")
        await says(box, "journalctl -u polite", "heard SIGINT")


async def test_two_hosts_reach_each_other_by_their_addresses() -> None:
    if shutil.which("ip", path=PROGRAM_PATH) is None:
        pytest.skip("iproute2 is not installed")
    hosts = [HostSpec(name=f"h{n}", address=f"10.7.0.{n}") for n in (1, 2)]
    greet = "import socket as s; l = s.create_server(('10.7.0.2', 80)); l.accept()[0].send(b'hi')"
    async with Box([build_host_plan(each) for each in hosts]) as box:
        await box.run(f'(setsid python3 -c "{greet}" </dev/null >/dev/null 2>&1 &)', host=1)
        await says(box, "timeout 1 cat < /dev/tcp/10.7.0.2/80 2>&1", "hi")


async def test_a_number_that_grows_is_distinguished_from_one_that_does_not() -> None:
    async with Box([build_host_plan(HostSpec(name="h"))]) as box:
        still = await box.run(number_grows_script("echo 5", within=0.2))
        grows = await box.run(f"n() {{ date +%s%N; }}; {number_grows_script('n')}")
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
    scenario = find_scenario(name)
    assert program in scenario.needs
    assert not scenario.light


@pytest.mark.parametrize("name", ["dns-wrong", "bad-deploy-rollback"])
def test_some_of_network_and_change_need_nothing(name: str) -> None:
    assert find_scenario(name).light


@with_postgres
def test_drawing_a_story_with_a_database_is_quick_once_the_cluster_is_kept() -> None:
    scenario = find_scenario("missing-index")
    scenario.draw_spec(1)
    started = time.process_time()
    scenario.draw_spec(2)
    assert time.process_time() - started < 0.5
