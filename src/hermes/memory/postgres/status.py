"""What the database holds, and who else uses it."""

import time

from hermes.memory.postgres.address import shown
from hermes.memory.postgres.schema import opened, versions
from hermes.memory.status import Status

_LOOK = """
    SELECT (SELECT count(*) FROM hermes.event), (SELECT last FROM hermes.head),
        (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
         WHERE relnamespace = 'hermes'::regnamespace AND relkind = 'r'),
        current_setting('server_version'),
        coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), ''),
        (SELECT count(DISTINCT application_name) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'hermes %')
"""


def status(url: str) -> Status:
    with opened(url) as connection:
        started = time.perf_counter()
        connection.execute("SELECT 1")
        away = time.perf_counter() - started
        found = connection.execute(_LOOK).fetchone() or (0, 0, 0, "", "", 0)
        version = versions(connection, url)["journal"]
    events, last, size, server, pgvector, processes = found
    return Status(
        kind="postgresql",
        place=shown(url),
        version=version,
        events=events,
        last=last,
        bytes=size,
        round_trip_ms=round(away * 1000, 2),
        server=server,
        pgvector=pgvector,
        processes=processes,
    )
