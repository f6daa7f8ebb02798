"""An audit log, and somebody who can write every file of it but lacks the private key.

They know the format, recompute the chain, mend SQLite's counter, forge signatures with a key of
their own and replace the public one. Also the figure of `bench/audit.py`.
"""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hermes.app.journal.upkeep import CheckpointSigner
from hermes.core.events import Event
from hermes.core.events.operations import CheckpointSigned
from hermes.core.events.runs import MessageAdded, RunStarted
from hermes.core.events.tools import ToolApproved, ToolDecided, ToolFinished, ToolRequested
from hermes.core.messages import Message, ToolCall, ToolResult
from hermes.memory.journal.rows import (
    GENESIS_DIGEST,
    chain_digest,
    decompress_body,
    from_micros,
    hash_text,
)
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.policy.audit.signer import AuditSigner
from hermes.policy.signing import SigningKeyPair

Row = tuple[int, str, str, bytes, Any]
"""at, run, kind, digest, body."""


async def make_log(home: Path, rounds: int = 6) -> Path:
    """A home whose journal is signed up to its last event."""
    path = home / "journal.db"
    async with SqliteJournal.open(path) as journal:
        notary = CheckpointSigner(journal, home, str(path))
        for number in range(rounds):
            await journal.append(*story(f"run-{number % 2}", number))
            await notary.sign()
    return path


def story(run: str, number: int) -> list[Event]:
    call = ToolCall(f"call-{number}", "terminal", {"command": f"rm -rf /srv/data/{number}"})
    asked = Message(role="user", text=f"please make room number {number}, the disk is full")
    return [
        RunStarted(run=run, origin="cli", task=f"task {number}"),
        MessageAdded(run=run, message=asked),
        ToolRequested(run=run, call=call),
        ToolDecided(run=run, call_id=call.id, verdict="ask", rule="destructive", hash=f"h{number}"),
        ToolApproved(run=run, call_id=call.id, approved=number % 2 == 0, by="ann"),
        ToolFinished(run=run, result=ToolResult(call_id=call.id, content=f"freed {number} GB")),
    ]


class Intruder:
    """Works on a copy of a home. Each trick returns what it did."""

    def __init__(self, home: Path, drawn: random.Random) -> None:
        self.home = home
        self.drawn = drawn
        self.signer = AuditSigner(SigningKeyPair(drawn.randbytes(32)))

    def strike(self) -> str:
        trick = self.drawn.choice(TRICKS)
        return f"{trick.__name__}: {trick(self)}"

    @contextmanager
    def rows(self, *, relink: bool | None = None) -> Iterator[list[Row]]:
        """The log as a list to change at will; written back with new numbers."""
        database = sqlite3.connect(self.home / "journal.db", isolation_level=None)
        try:
            listed = database.execute("SELECT at, run, kind, digest, body FROM event ORDER BY seq")
            rows: list[Row] = listed.fetchall()
            yield rows
            if relink if relink is not None else self.drawn.random() < 0.8:
                rows[:] = chained(rows)
            database.execute("PRAGMA synchronous=OFF")
            database.execute("BEGIN")
            database.execute("DELETE FROM event")
            database.executemany(
                "INSERT INTO event(seq, at, run, kind, digest, body) VALUES(?, ?, ?, ?, ?, ?)",
                [(seq, *row) for seq, row in enumerate(rows, start=1)],
            )
            database.execute("UPDATE sqlite_sequence SET seq = ?", (len(rows),))
            database.execute("COMMIT")
        finally:
            database.close()

    def sql(self, *statements: str) -> str:
        database = sqlite3.connect(self.home / "journal.db")
        with database:
            for statement in statements:
                database.execute(statement)
        database.close()
        return "; ".join(statements)


def chained(rows: list[Row]) -> list[Row]:
    made, before = [], GENESIS_DIGEST
    for at, run, kind, _, body in rows:
        hashed = body if purged(body) else hash_text(text_of(body))
        before = chain_digest(before, hashed, kind, run, at)
        made.append((at, run, kind, before, body))
    return made


def text_of(body: str | bytes) -> bytes:
    return decompress_body(body.encode() if isinstance(body, str) else body)


def purged(body: str | bytes) -> bool:
    return isinstance(body, bytes) and len(body) == 32


def edit(by: Intruder) -> str:
    """Another word in some event."""
    with by.rows() as rows:
        at = by.drawn.randrange(len(rows))
        when, run, kind, digest, body = rows[at]
        text = text_of(body).decode()
        places = [place for place, letter in enumerate(text) if letter.isalnum()]
        place = by.drawn.choice(places)
        other = by.drawn.choice([c for c in "abcdefgh01234567" if c != text[place]])
        rows[at] = (when, run, kind, digest, text[:place] + other + text[place + 1 :])
    return f"event {at + 1}"


def answer_otherwise(by: Intruder) -> str:
    """A no becomes a yes."""
    with by.rows() as rows:
        found = [n for n, row in enumerate(rows) if row[2] == "tool.approved"]
        at = by.drawn.choice(found)
        when, run, kind, digest, body = rows[at]
        fields = msgspec.json.decode(text_of(body))
        fields["approved"] = not fields["approved"]
        rows[at] = (when, run, kind, digest, msgspec.json.encode(fields).decode())
    return f"event {at + 1}"


def swap_runs(by: Intruder) -> str:
    with by.rows() as rows:
        first, second = _two(by, rows, lambda row: row[1])
        one, other = rows[first], rows[second]
        rows[first] = (one[0], other[1], *one[2:])
        rows[second] = (other[0], one[1], *other[2:])
    return f"events {first + 1} and {second + 1}"


def change_kind(by: Intruder) -> str:
    with by.rows() as rows:
        at = by.drawn.randrange(len(rows))
        rows[at] = (*rows[at][:2], f"{rows[at][2]}x", *rows[at][3:])
    return f"event {at + 1}"


def change_time(by: Intruder) -> str:
    with by.rows() as rows:
        at = by.drawn.randrange(len(rows))
        rows[at] = (rows[at][0] + by.drawn.randrange(1, 10**9), *rows[at][1:])
    return f"event {at + 1}"


def delete(by: Intruder) -> str:
    with by.rows() as rows:
        count = by.drawn.randrange(1, 5)
        for _ in range(count):
            del rows[by.drawn.randrange(len(rows))]
    return f"{count} events"


def delete_as_lost(by: Intruder) -> str:
    """And claims that a salvage could not save it."""
    with by.rows(relink=False) as rows:
        most = len(rows)
    first = by.drawn.randrange(1, most)
    until = min(most - 1, first + by.drawn.randrange(3))
    return by.sql(
        f"DELETE FROM event WHERE seq BETWEEN {first} AND {until}",
        f"INSERT INTO gap VALUES({first}, {until})",
    )


def reorder(by: Intruder) -> str:
    with by.rows() as rows:
        first, second = _two(by, rows, lambda row: row[:3] + row[4:])
        rows[first], rows[second] = rows[second], rows[first]
    return f"events {first + 1} and {second + 1}"


def renumber(by: Intruder) -> str:
    """The same events under other numbers."""
    step = by.drawn.randrange(1, 4)
    return by.sql(
        f"UPDATE event SET seq = -(seq + {step})",
        "UPDATE event SET seq = -seq",
        f"UPDATE sqlite_sequence SET seq = seq + {step}",
        f"INSERT INTO gap VALUES(1, {step})",
    )


def truncate(by: Intruder) -> str:
    with by.rows() as rows:
        count = by.drawn.randrange(1, len(rows) + 1)
        del rows[-count:]
    return f"the last {count}"


def truncate_without_head(by: Intruder) -> str:
    what = truncate(by)
    (by.home / "audit.head").unlink()
    return what


def insert(by: Intruder) -> str:
    with by.rows(relink=True) as rows:
        at = by.drawn.randrange(len(rows) - 1)
        rows.insert(at, rows[by.drawn.randrange(len(rows))])
    return f"before event {at + 1}"


def drop_checkpoints(by: Intruder) -> str:
    with by.rows(relink=True) as rows:
        signed = [n for n, row in enumerate(rows) if row[2] == "audit.signed"]
        count = by.drawn.randrange(1, len(signed) + 1)
        for at in sorted(by.drawn.sample(signed, count), reverse=True):
            del rows[at]
    return f"{count} of {len(signed)}"


def forge_signatures(by: Intruder) -> str:
    """Change something, then sign everything anew with another key, put in place of the old."""
    public = by.drawn.random() < 0.7
    with by.rows(relink=False) as rows:
        del rows[by.drawn.randrange(len(rows) // 2)]
        rows[:] = _signed_anew(rows, by.signer)
    last = len(rows)
    head = by.signer.sign_head(last, rows[-1][3].hex())
    (by.home / "audit.head").write_bytes(msgspec.json.encode(head))
    if public:
        (by.home / "audit.pub").write_text(by.signer.public.hex())
    return f"with audit.pub replaced: {public}"


def replace_public_key(by: Intruder) -> str:
    (by.home / "audit.pub").write_text(by.signer.public.hex())
    return "nothing else"


def change_head(by: Intruder) -> str:
    file = by.home / "audit.head"
    fields = msgspec.json.decode(file.read_bytes())
    name = by.drawn.choice(["seq", "digest", "at", "key", "signature"])
    fields[name] = {
        "seq": fields["seq"] - 1,
        "digest": by.drawn.randbytes(32).hex(),
        "at": "2026-01-01T00:00:00Z",
        "key": by.drawn.randbytes(8).hex(),
        "signature": by.drawn.randbytes(64).hex(),
    }[name]
    file.write_bytes(msgspec.json.encode(fields))
    return name


def purge(by: Intruder) -> str:
    """The text leaves, its hash stays: the chain holds."""
    with by.rows(relink=False) as rows:
        at = by.drawn.randrange(len(rows))
        when, run, kind, digest, body = rows[at]
        rows[at] = (when, run, kind, digest, hash_text(text_of(body)))
    return f"event {at + 1}"


def purge_as_deleted(by: Intruder) -> str:
    """Evidence of a run that is marked as deleted, among what outlives a deletion."""
    with by.rows(relink=False) as rows:
        kept = [n for n, row in enumerate(rows) if row[2] in ("tool.decided", "tool.approved")]
        at = by.drawn.choice(kept)
        when, run, kind, digest, body = rows[at]
        rows[at] = (when, run, kind, digest, hash_text(text_of(body)))
        rows.append((when, run, "run.deleted", bytes(32), "{}"))
        rows[-1] = chained(rows)[-1]
    return f"event {at + 1}"


def hide(by: Intruder) -> str:
    """The same bytes of another type: no search by run or kind finds it."""
    column, seq = by.drawn.choice(["run", "kind"]), by.drawn.randrange(1, 30)
    return by.sql(f"UPDATE event SET {column} = CAST({column} AS BLOB) WHERE seq = {seq}")


def set_a_trap(by: Intruder) -> str:
    return by.sql(
        "CREATE TRIGGER t AFTER INSERT ON event WHEN new.kind = 'tool.decided' "
        "BEGIN DELETE FROM event WHERE seq = new.seq; END"
    )


def blur_digest(by: Intruder) -> str:
    return by.sql(
        f"UPDATE event SET digest = randomblob(32) WHERE seq = {by.drawn.randrange(1, 30)}"
    )


def _two(by: Intruder, rows: list[Row], of: Callable[[Row], object]) -> tuple[int, int]:
    while True:
        first, second = by.drawn.sample(range(len(rows)), 2)
        if of(rows[first]) != of(rows[second]):
            return first, second


def _signed_anew(rows: list[Row], signer: AuditSigner) -> list[Row]:
    made: list[Row] = []
    last: CheckpointSigned | None = None
    for at, run, kind, _, body in rows:
        if kind == "audit.signed" and made:
            last = signer.sign(len(made), made[-1][3].hex(), after=last, at=from_micros(at))
            fields = msgspec.to_builtins(last)
            for name in ("kind", "run", "at"):
                del fields[name]
            body = msgspec.json.encode(fields).decode()
        made = chained_on(made, (at, run, kind, b"", body))
    return made


def chained_on(made: list[Row], row: Row) -> list[Row]:
    at, run, kind, _, body = row
    before = made[-1][3] if made else GENESIS_DIGEST
    hashed = body if purged(body) else hash_text(text_of(body))
    return [*made, (at, run, kind, chain_digest(before, hashed, kind, run, at), body)]


TRICKS: tuple[Callable[[Intruder], str], ...] = (
    edit,
    answer_otherwise,
    swap_runs,
    change_kind,
    change_time,
    delete,
    delete_as_lost,
    reorder,
    renumber,
    truncate,
    truncate_without_head,
    insert,
    drop_checkpoints,
    forge_signatures,
    replace_public_key,
    change_head,
    purge,
    purge_as_deleted,
    hide,
    set_a_trap,
    blur_digest,
)


def fresh_copy(home: Path, into: Path) -> Path:
    shutil.rmtree(into, ignore_errors=True)
    return Path(shutil.copytree(home, into))
