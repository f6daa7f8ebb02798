"""Finds the runs of a journal in one question, without reading their messages."""

from collections.abc import Sequence
from typing import LiteralString

from hermes.core.events.runs import MessageAdded, ModelSwitched, RunRenamed, RunStarted
from hermes.memory.postgres.line import Connection
from hermes.memory.rows import moment, read
from hermes.memory.runs import TASK, RunSummary, joined

# JSON functions choke on the escape of a NUL, which is a legal character in our texts.
_PARENT: LiteralString = (
    r"coalesce(replace(s.body, '\u0000', '\ufffd')::json ->> 'parent', '') = %(parent)s"
)
_NEWEST: LiteralString = """
    (SELECT ARRAY[seq::text, at::text, body] FROM hermes.event e
     WHERE e.run = s.run AND e.kind = '{}' AND e.body IS NOT NULL ORDER BY seq DESC LIMIT 1)
"""
# Our own writer puts the role first; see `rows`.
_ASKED: LiteralString = """
    (SELECT ARRAY[seq::text, at::text, body] FROM hermes.event e WHERE e.run = s.run
     AND e.kind = 'message.added' AND starts_with(e.body, '{{"message":{{"role":"user"')
     ORDER BY seq LIMIT 1)
"""
_LIST: LiteralString = (
    "SELECT s.seq, s.at, s.run, s.body,"
    " (SELECT count(*) FROM hermes.event e WHERE e.run = s.run AND e.kind = 'message.added'),"
    " (SELECT at FROM hermes.event e WHERE e.run = s.run ORDER BY seq DESC LIMIT 1),"
    + _NEWEST.format("run.renamed")
    + ","
    + _NEWEST.format("model.switched")
    + ","
    + _ASKED
    + ", {gone} FROM hermes.event s WHERE s.kind = 'run.started' AND s.body IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM hermes.event e WHERE e.run = s.run AND e.seq < s.seq"
    " AND e.kind = 'run.started')"
    " AND ({parent}) AND ({deleted}) ORDER BY s.seq DESC LIMIT %(limit)s"
)
_GONE: LiteralString = (
    "EXISTS (SELECT 1 FROM hermes.event e WHERE e.run = s.run AND e.kind = 'run.deleted')"
)

Found = Sequence[str] | None


async def list_runs(
    connection: Connection, limit: int, parent: str | None, deleted: bool
) -> Sequence[RunSummary]:
    sql = _LIST.format(
        gone=_GONE,
        parent="true" if parent is None else _PARENT,
        deleted="true" if deleted else "NOT " + _GONE,
    )
    cursor = await connection.execute(sql, {"limit": limit, "parent": parent})
    return [_summary(*row) for row in await cursor.fetchall()]


def _summary(  # noqa: PLR0913 - the columns of one row
    seq: int,
    at: int,
    run: str,
    body: str,
    messages: int,
    last_at: int,
    renamed: Found,
    switched: Found,
    asked: Found,
    deleted: bool,
) -> RunSummary:
    started = read(seq, at, run.encode(), b"run.started", body.encode())
    assert isinstance(started, RunStarted)
    title = _event(renamed, run, b"run.renamed")
    model = _event(switched, run, b"model.switched")
    said = None if started.task else _event(asked, run, b"message.added")
    words = said.message.text[:TASK] if isinstance(said, MessageAdded) else ""
    return joined(
        started,
        task=started.task or words,
        title=title.title if isinstance(title, RunRenamed) else "",
        model=model.model if isinstance(model, ModelSwitched) else started.model,
        last_at=moment(last_at),
        messages=messages,
        deleted=deleted,
    )


def _event(found: Found, run: str, kind: bytes) -> object:
    if found is None:
        return None
    seq, at, body = found
    return read(int(seq), int(at), run.encode(), kind, body.encode())
