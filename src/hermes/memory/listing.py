"""Finds the runs of a journal file quickly, without reading their messages."""

from collections.abc import Sequence
from typing import Any

import apsw

from hermes.core.events.runs import RunStarted
from hermes.memory.pages import COLUMNS, JSON, PLAIN, PURGED
from hermes.memory.rows import moment, read
from hermes.memory.runs import TASK, RunSummary, joined


def list_runs(
    connection: apsw.Connection, limit: int, parent: str | None, deleted: bool
) -> Sequence[RunSummary]:
    found: list[RunSummary] = []
    cursor = connection.execute(*_started(parent))
    try:
        for seq, at, run, body in cursor:
            if len(found) >= limit:
                break
            started = read(seq, at, run.encode(), b"run.started", body)
            assert isinstance(started, RunStarted)
            summary = _summary(connection, run, started)
            if deleted or not summary.deleted:
                found.append(summary)
    finally:
        cursor.close()
    return found


def _started(parent: str | None) -> tuple[str, tuple[Any, ...]]:
    """First starts, newest first. A purged one has no text left and is no longer listed."""
    sql = (
        f"SELECT seq, at, run, {PLAIN} FROM event INDEXED BY event_by_kind "
        f"WHERE kind = 'run.started' AND NOT {PURGED} AND NOT EXISTS("
        "SELECT 1 FROM event earlier WHERE earlier.run = event.run "
        "AND earlier.seq < event.seq AND earlier.kind = 'run.started')"
    )
    if parent is None:
        return f"{sql} ORDER BY seq DESC", ()
    # An empty parent is left out of the JSON.
    return f"{sql} AND coalesce({JSON} ->> '$.parent', '') = ? ORDER BY seq DESC", (parent,)


def _summary(connection: apsw.Connection, run: str, started: RunStarted) -> RunSummary:
    messages, newest, renamed, switched, gone = connection.execute(
        "SELECT count(*) FILTER (WHERE kind IN ('message.added', 'message.imported')), max(seq), "
        "max(seq) FILTER (WHERE kind = 'run.renamed'), "
        "max(seq) FILTER (WHERE kind = 'model.switched'), "
        "max(seq) FILTER (WHERE kind = 'run.deleted') "
        "FROM event INDEXED BY event_by_run WHERE run = ?",
        (run,),
    ).get
    last_at = connection.execute("SELECT at FROM event WHERE seq = ?", (newest,)).get
    return joined(
        started,
        task=started.task or _asked_first(connection, run),
        title=_field(connection, renamed, "title"),
        model=_field(connection, switched, "model") or started.model,
        last_at=moment(last_at),
        messages=messages,
        deleted=gone is not None,
    )


def _asked_first(connection: apsw.Connection, run: str) -> str:
    return str(
        connection.execute(
            f"SELECT substr({JSON} ->> '$.message.text', 1, ?) FROM event INDEXED BY event_by_run "
            f"WHERE run = ? AND kind = 'message.added' AND {JSON} ->> '$.message.role' = 'user' "
            "ORDER BY seq LIMIT 1",
            (TASK, run),
        ).get
        or ""
    )


def _field(connection: apsw.Connection, seq: int | None, name: str) -> str:
    if seq is None:
        return ""
    sql = f"SELECT {COLUMNS} FROM event WHERE seq = ?"
    at, run, kind, purged, body = connection.execute(sql, (seq,)).get
    return "" if purged else str(getattr(read(seq, at, run, kind, body), name))
