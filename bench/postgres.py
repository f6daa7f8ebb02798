"""The store in PostgreSQL: writers, kills, and recall over many vectors. One JSON row a figure.

`python bench/postgres.py [VECTORS] [KILLS]`, 1,000,000 and 300 unless told. It unpacks and starts a
server of its own (see tests/memory/real_postgres.py). The vectors are clustered: topics, and two
sorts of deviation from each. Making the index of a million takes from minutes to an hour.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "memory"))

from real_postgres import Installation, Server, installed, running

from hermes.core.events.runs import RunRenamed
from hermes.memory.journal.verification import verify
from hermes.memory.postgres.journal import PostgresJournal
from hermes.memory.postgres.schema import migrate_schema, vector_migration_files
from hermes.memory.postgres.search import PostgresSearch
from hermes.memory.postgres.vectors import PostgresVectors, create_vector_index

TORTURE = Path(__file__).parent.parent / "tests" / "memory" / "kill_torture.py"
SIZE, TOPICS, DEVIATIONS, ASKED = 384, 2000, 4000, 200
WRITE = """
import sys, anyio
from hermes.core.events.runs import RunRenamed
from hermes.memory.store import open_journal

async def main():
    async with open_journal(sys.argv[1]) as journal:
        for number in range(500):
            await journal.append(*[RunRenamed(run=sys.argv[2], title="x" * 200)] * 3)

anyio.run(main)
"""
# Sums on the server: a million vectors through a Python loop would take longer than their index.
FILL = """
    INSERT INTO hermes.embedding
    SELECT 'bench', g, l2_normalize(t.v + a.v + b.v)::halfvec(384)
    FROM generate_series(1, %s) AS g
    JOIN topic t ON t.id = (hashint8(g) & 2147483647) %% %s
    JOIN deviation a ON a.id = (hashint8(g * 7 + 1) & 2147483647) %% %s
    JOIN deviation b ON b.id = (hashint8(g * 13 + 5) & 2147483647) %% %s
"""


def figure(name: str, **values: Any) -> None:
    print(json.dumps({"figure": name, **values}), flush=True)


async def appends(url: str) -> None:
    async with PostgresJournal.open(url) as journal:
        waits = []
        for _ in range(500):
            started = time.perf_counter()
            await journal.append(RunRenamed(run="r", title="x" * 200))
            waits.append((time.perf_counter() - started) * 1000)
    figure("append one event, acknowledged on disk", **spread(waits))


def writers(url: str, count: int) -> None:
    started = time.perf_counter()
    lives = [
        subprocess.Popen([sys.executable, "-c", WRITE, url, f"w{number}"])
        for number in range(count)
    ]
    for life in lives:
        life.wait()
    seconds = time.perf_counter() - started
    report = verify(url)
    figure(
        f"{count} writers at once",
        events=report.events,
        expected=count * 1500,
        whole=report.ok,
        events_a_second=round(report.events / seconds),
    )


def kills(url: str, count: int) -> None:
    command = [sys.executable, str(TORTURE), url, str(count), "7"]
    figure("kill -9 of writers", **json.loads(subprocess.check_output(command)))


def fill(url: str, count: int) -> random.Random:
    chance = random.Random(1)
    migrate_schema(url)
    migrate_schema(url, wanted=vector_migration_files())
    with psycopg.connect(url, autocommit=True) as connection:
        for table, rows, width in (("topic", TOPICS, 1.0), ("deviation", DEVIATIONS, 0.45)):
            connection.execute(f"CREATE TABLE {table}(id integer PRIMARY KEY, v vector(384))")
            with connection.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO {table} VALUES (%s, %s::vector)",
                    [(number, str(gauss(chance, width))) for number in range(rows)],
                )
        started = time.perf_counter()
        connection.execute(FILL, (count, TOPICS, DEVIATIONS, DEVIATIONS))
        figure("fill", vectors=count, seconds=round(time.perf_counter() - started, 1))
    return chance


def gauss(chance: random.Random, width: float) -> list[float]:
    return [round(chance.gauss(0, width), 4) for _ in range(SIZE)]


def index(url: str) -> None:
    started = time.perf_counter()
    made = create_vector_index(url, "bench")
    seconds = round(time.perf_counter() - started, 1)
    with psycopg.connect(url) as connection:
        size = connection.execute("SELECT pg_total_relation_size('hermes.embedding')").fetchone()
    figure("HNSW index", made=made, seconds=seconds, bytes=size[0] if size else 0)


async def recall(url: str, chance: random.Random) -> None:
    questions = ask_for(url, chance)
    search = PostgresSearch(url)
    vectors = PostgresVectors(search, url)
    trips, waits, found = [], [], []
    for vector in questions[:20]:  # the cache warms up
        await vectors.nearest(vector, "bench", session=None, limit=100)
    for vector in questions:
        started = time.perf_counter()
        await search.ask(lambda index: index.connection.execute("SELECT 1"))
        trips.append((time.perf_counter() - started) * 1000)
        started = time.perf_counter()
        hits = await vectors.nearest(vector, "bench", session=None, limit=100)
        waits.append((time.perf_counter() - started) * 1000)
        found.append([hit.seq for hit in hits])
    search.close()
    figure("round trip", **spread(trips))
    figure("nearest 100", **spread(waits), recall=overlap(url, questions[:10], found[:10]))


def ask_for(url: str, chance: random.Random) -> list[bytes]:
    """New points near known topics."""
    asked = []
    with psycopg.connect(url) as connection:
        for _ in range(ASKED):
            row = connection.execute(
                "SELECT l2_normalize(t.v + d.v)::real[] FROM topic t, deviation d "
                "WHERE t.id = %s AND d.id = %s",
                (chance.randrange(TOPICS), chance.randrange(DEVIATIONS)),
            ).fetchone()
            assert row is not None
            asked.append(array("f", row[0]).tobytes())
    return asked


def overlap(url: str, questions: Sequence[bytes], found: Sequence[Sequence[int]]) -> float:
    """How many of the true nearest the index finds."""
    shares = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET enable_indexscan = off; SET max_parallel_workers_per_gather = 0")
        for vector, hits in zip(questions, found, strict=True):
            rows = connection.execute(
                "SELECT seq FROM hermes.embedding WHERE model = 'bench' "
                "ORDER BY vector::halfvec(384) <=> %s::halfvec(384) LIMIT 100",
                (str(list(array("f", vector))),),
            ).fetchall()
            shares.append(len({seq for (seq,) in rows} & set(hits)) / len(rows))
    return round(statistics.mean(shares), 3)


def spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "p50_ms": round(ordered[len(ordered) // 2], 2),
        "p95_ms": round(ordered[int(len(ordered) * 0.95)], 2),
    }


def disk(installation: Installation, count: int) -> None:
    with running(installation, "fsync=on") as server:
        with server.database() as url:
            anyio.run(appends, url)
        with server.database() as url:
            writers(url, 8)
        with server.database() as url:
            kills(url, count)


def memory(server: Server, count: int) -> None:
    with server.database() as url:
        chance = fill(url, count)
        index(url)
        anyio.run(recall, url, chance)


def main() -> None:
    vectors = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    killed = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    with installed() as installation:
        if killed:
            disk(installation, killed)
        if vectors:
            large = ("shared_buffers=3GB", "maintenance_work_mem=4GB", "max_wal_size=8GB")
            with running(installation, *large) as server:
                memory(server, vectors)


if __name__ == "__main__":
    main()
