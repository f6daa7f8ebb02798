"""Tables of an older version are migrated once, under a lock, and wholly or not at all."""

import subprocess
import sys
import time

import anyio
import psycopg
import pytest

from hermes.core.errors import StoreError, StoreTooNew
from hermes.core.events.runs import RunRenamed
from hermes.memory.journal.verification import verify
from hermes.memory.postgres.schema import migrate_schema, migration_files
from hermes.memory.store import open_journal

MIGRATE = """
import sys
from hermes.memory.postgres.schema import migrate_schema, migration_files
more = "SELECT pg_sleep(0.3); ALTER TABLE hermes.event ADD COLUMN extra integer"
migrate_schema(sys.argv[1], wanted={"journal": (*migration_files()["journal"], more)})
"""


async def write(database: str) -> None:
    async with open_journal(database) as journal:
        await journal.append(RunRenamed(run="r", title="t"))


def test_an_older_version_is_migrated_once_by_many_processes(database: str) -> None:
    anyio.run(write, database)
    command = [sys.executable, "-c", MIGRATE, database]
    others = [subprocess.Popen(command) for _ in range(4)]
    assert [other.wait(timeout=120) for other in others] == [0] * 4
    with pytest.raises(StoreTooNew, match="version 2"):
        anyio.run(write, database)
    with psycopg.connect(database) as other:
        assert other.execute("SELECT extra FROM hermes.event").fetchall() == [(None,)]


def test_a_migration_that_fails_leaves_the_old_version(database: str) -> None:
    migrate_schema(database)
    bad = {
        "journal": (*migration_files()["journal"], "CREATE TABLE hermes.new(x integer); SELECT 1/0")
    }
    with pytest.raises(StoreError, match="division by zero"):
        migrate_schema(database, wanted=bad)
    anyio.run(write, database)
    assert verify(database).events == 1


def test_a_migration_that_is_killed_leaves_the_old_version(database: str) -> None:
    migrate_schema(database)
    slow = MIGRATE.replace("pg_sleep(0.3)", "pg_sleep(1.5)")
    victim = subprocess.Popen([sys.executable, "-c", slow, database])
    with psycopg.connect(database, autocommit=True) as other:
        busy = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND state = 'active'"
        deadline = time.monotonic() + 120
        while other.execute(busy, ("SELECT pg_sleep%",)).fetchone() == (0,):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        victim.kill()
        victim.wait()
    anyio.run(write, database)
    with psycopg.connect(database) as other:
        assert other.execute(
            "SELECT version FROM hermes.component WHERE name = 'journal'"
        ).fetchall() == [(1,)]
