"""PostgreSQL that does not start: a stale pid file whose number another program has, a chown."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from supervisor_host import SupervisorHost, needs_namespaces, needs_supervisord
from test_playbooks_under_supervisors import play

BINARIES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/nonexistent"))
pytestmark = [
    pytest.mark.anyio,
    needs_namespaces,
    needs_supervisord,
    pytest.mark.skipif(not shutil.which("psql") or not BINARIES.exists(), reason="no PostgreSQL"),
]
DATA = "/srv/pg/data"
AS_POSTGRES = "setpriv --reuid postgres --regid postgres --clear-groups"
PREPARE = f"""
mkdir -p /run/postgresql /srv/pg && chown postgres:postgres /run/postgresql && cd /srv
mkdir {DATA} && chown postgres:postgres {DATA}
{AS_POSTGRES} {BINARIES}/initdb -D {DATA} -A trust >/dev/null
echo "listen_addresses = ''
fsync = off" >> {DATA}/postgresql.conf
"""
PROGRAM = f"""
[program:postgres]
command={BINARIES}/postgres -D {DATA}
user=postgres
startretries=1
redirect_stderr=true
stdout_logfile=/var/log/postgres.log
"""
UNTIL = (
    "for i in $(seq 600); do supervisorctl status postgres | grep -q {} && break; sleep 0.2; done"
)
ALERT = "postgres: nothing answers at 127.0.0.1:5432"


@contextmanager
def a_database() -> Iterator[SupervisorHost]:
    """A host with a PostgreSQL that ran once and was killed."""
    with SupervisorHost() as host:
        host.run(PREPARE)
        host.start_supervisord(PROGRAM)
        host.run(UNTIL.format("RUNNING"))
        yield host


def status(host: SupervisorHost) -> str:
    return host.run("supervisorctl status postgres").split()[1]


@pytest.mark.parametrize(
    ("program", "outcome"), [("sleep", "applied"), (f"{BINARIES}/postgres", "declined")]
)
async def test_a_pid_file_with_the_number_of_another_program_is_set_aside(
    program: str, outcome: str
) -> None:
    """`postgres` may be a server that still works there: hands off."""
    with a_database() as host:
        file = f"{DATA}/postmaster.pid"
        host.run(f"cp -p {file} /srv/left; supervisorctl stop postgres; cp -p {program} /srv/x")
        named = program.rpartition("/")[2]
        host.run(
            f"cp $(command -v sleep) /srv/{named}; setsid {AS_POSTGRES} /srv/{named} 1000"
            f' >/dev/null 2>&1 </dev/null & sed "1s/.*/$!/" /srv/left > {file};'
            f"chown postgres {file}; chmod 600 {file}; sleep 0.5; supervisorctl start postgres;"
            + UNTIL.format("FATAL")
        )
        result = await play(host, "stale-lock", ALERT)
        assert result.outcome == outcome, result.detail
        assert status(host) == ("RUNNING" if outcome == "applied" else "FATAL")
        assert host.run(f"pgrep -x {named} -u postgres").strip(), "the other program was ended"


async def test_a_folder_that_a_recursive_chown_took_away_is_given_back() -> None:
    with a_database() as host:
        host.run(
            f"supervisorctl stop postgres; chown -R root {DATA}; supervisorctl start postgres;"
            + UNTIL.format("FATAL")
        )
        result = await play(host, "ownership-drift", ALERT)
        assert (result.outcome, result.detail) == ("applied", "")
        assert status(host) == "RUNNING"
        assert not host.run(f"find {DATA} ! -user postgres").strip()


async def test_a_folder_of_another_group_is_not_taken_from_its_owner() -> None:
    with a_database() as host:
        host.run(
            f"supervisorctl stop postgres; chown -R root:root {DATA}; supervisorctl start postgres;"
            + UNTIL.format("FATAL")
        )
        result = await play(host, "ownership-drift", ALERT)
        assert result.outcome == "declined" and not result.changed
