"""Sessions of a real PostgreSQL that hold up others and do nothing are ended; others are not."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from supervisor_host import SupervisorHost, needs_namespaces
from test_playbooks_under_supervisors import play

BINARIES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/nonexistent"))
pytestmark = [
    pytest.mark.anyio,
    needs_namespaces,
    pytest.mark.skipif(not shutil.which("psql") or not BINARIES.exists(), reason="no PostgreSQL"),
]
NAME, ALERT = "blocking-session", "shop: status is 500, queries wait for a lock"
AS_POSTGRES = "setpriv --reuid postgres --regid postgres --clear-groups"
START = f"""
mkdir -p /run/postgresql /srv/pg && chown postgres /run/postgresql /srv/pg && cd /srv
{AS_POSTGRES} {BINARIES}/initdb -D /srv/pg/data -A trust >/dev/null
echo "listen_addresses = ''
max_connections = 9
superuser_reserved_connections = 3
fsync = off" >> /srv/pg/data/postgresql.conf
{AS_POSTGRES} {BINARIES}/pg_ctl -D /srv/pg/data -l /srv/pg/log -w -s start
psql -h /run/postgresql -U postgres -qc 'create role app login' -c 'create table t (id int)' \
  -c 'grant all on t to app'
"""
OTHERS = "from pg_stat_activity where application_name = '{}' and pid <> pg_backend_pid()"
COUNT = f"select count(*) {OTHERS}"
LOCKED = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted"
IDLE_HOLDERS = (
    "select count(*) from pg_stat_activity where application_name in ({}) "
    "and state = 'idle in transaction' and state_change < now() - interval '30 seconds'"
)
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"


class Database:
    """A PostgreSQL server on a host."""

    def __init__(self, host: SupervisorHost) -> None:
        self.host = host
        host.run(START)

    def ask(self, query: str, user: str = "postgres") -> str:
        return self.host.run(f'psql -h /run/postgresql -U {user} -d postgres -qAtXc "{query}" 2>&1')

    def open(self, statements: str, *, name: str, user: str = "postgres") -> None:
        """A session that stays open after these statements."""
        self.host.run(
            f"( {{ echo '{statements}'; sleep 1000; }} | PGAPPNAME={name} psql "
            f"-h /run/postgresql -U {user} -d postgres -qX ) >/dev/null 2>&1 </dev/null &"
        )

    def sessions(self, name: str) -> int:
        return int(self.ask(COUNT.format(name)))

    async def until(self, query: str, count: int) -> None:
        deadline = time.monotonic() + 180
        while int(self.ask(query)) != count:
            assert time.monotonic() < deadline, self.ask("select * from pg_stat_activity")
            await anyio.sleep(0.2)

    async def until_idle(self, *names: str, count: int) -> None:
        """Until so many sessions of these programs have been idle for as long as they must."""
        await self.until(IDLE_HOLDERS.format(", ".join(f"'{each}'" for each in names)), count)


@contextmanager
def a_database() -> Iterator[Database]:
    with SupervisorHost() as host:
        yield Database(host)


async def test_only_an_idle_holder_of_a_lock_that_others_need_is_ended() -> None:
    with a_database() as database:
        for name, table in (("batch", "a"), ("psql", "b"), ("quiet", "c")):
            database.ask(f"create table {table} (id int)")
            database.open(f"begin; lock table {table};", name=name)
        await database.until(LOCKED, 3)
        for table in ("a", "b"):
            database.open(f"select count(*) from {table};", name="reader")
        await database.until(WAITING, 2)
        await database.until_idle("batch", "psql", "quiet", count=3)
        result = await play(database.host, NAME, ALERT)
        assert (result.outcome, result.detail) == ("applied", "")
        left = {name: database.sessions(name) for name in ("batch", "psql", "quiet", "reader")}
        assert left == {"batch": 0, "psql": 1, "quiet": 1, "reader": 2}
        again = await play(database.host, NAME, ALERT)
        assert again.outcome == "declined"


async def fill_slots(database: Database, name: str) -> None:
    """Opens sessions until others are refused. One that ends holds its slot for a moment, so that
    is asked more than once."""
    refused, deadline = 0, time.monotonic() + 60
    while refused < 3:
        assert time.monotonic() < deadline
        full = "slots" in database.ask("select 1", user="app")
        refused = refused + 1 if full else 0
        if not full:
            database.open("begin; select 1;", name=name, user="app")
        await anyio.sleep(0.3)


async def test_sessions_that_leak_until_no_slot_is_free_are_ended() -> None:
    with a_database() as database:
        await fill_slots(database, "nightly")
        await database.until_idle("nightly", count=6)
        result = await play(database.host, NAME, ALERT)
        assert (result.outcome, result.detail) == ("applied", "")
        await database.until(COUNT.format("nightly"), 0)
        assert database.ask("select 1", user="app").strip() == "1"


async def test_a_program_that_holds_its_lock_again_at_once_is_no_success() -> None:
    """Its cause is elsewhere, such as a peer that reads no more."""
    with a_database() as database:
        ask = "psql -h /run/postgresql -U postgres -d postgres -qAtX"
        none = f'[ "$({ask} -c "{COUNT.format("export")}")" = 0 ]'
        hold = f"{{ echo 'begin; lock table t;'; sleep 1000; }} | PGAPPNAME=export {ask}"
        database.host.run(
            f"( while sleep 0.2; do {none} && {{ {hold} & }}; done ) >/dev/null 2>&1 </dev/null &"
        )
        await database.until(LOCKED, 1)
        database.host.run(
            "( while sleep 0.1; do psql -h /run/postgresql -U postgres -d postgres -qXc "
            "'select count(*) from t'; done ) >/dev/null 2>&1 </dev/null &"
        )
        await database.until(WAITING, 1)
        await database.until_idle("export", count=1)
        result = await play(database.host, NAME, ALERT)
    assert (result.outcome, result.step) == ("unmet", "nobody-does-it-again")
