"""What a store is, how large and how far away, in one look."""

import time
from importlib import import_module
from pathlib import Path

from hermes.core.messages import Value
from hermes.memory.schema import opened, version_of


class Status(Value, kw_only=True, frozen=True, omit_defaults=False):
    kind: str
    place: str
    version: int
    events: int
    last: int
    bytes: int
    round_trip_ms: float
    server: str = ""
    pgvector: str = ""
    """Version of the extension; empty when the server has none."""
    processes: int = 1
    """How many Hermes processes are connected, this one included."""


def status(place: Path | str) -> Status:
    """Raises `StoreError` when it cannot be reached, or is not there."""
    if isinstance(place, str):
        found: Status = import_module("hermes.memory.postgres.status").status(place)
        return found
    started = time.perf_counter()
    with opened(place) as connection:
        last = connection.execute("SELECT coalesce(max(seq), 0) FROM event").get
        away = time.perf_counter() - started
        events = connection.execute("SELECT count(*) FROM event").get
        version = version_of(connection)
    log = place.with_name(place.name + "-wal")
    return Status(
        kind="sqlite",
        place=str(place),
        version=version,
        events=events,
        last=last,
        bytes=sum(file.stat().st_size for file in (place, log) if file.exists()),
        round_trip_ms=round(away * 1000, 2),
    )
