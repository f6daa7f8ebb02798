"""An export that proves itself: lines of JSON with digests, verifiable without the journal.

A line carries the whole event, or, where its text shall not leave the house, only the hash of it:
the chain of digests holds either way. What was cleaned for the export has both: the hash of what
was written, and `shown`, what may be read.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.messages import Value
from hermes.memory.chain import GENESIS, hash_text, link
from hermes.memory.pages import COLUMNS, scan
from hermes.memory.rows import json_of, micros, read
from hermes.memory.schema import opened
from hermes.memory.verification import SHOWN, Report, See

NOTHING = msgspec.Raw()
Clean = Callable[[Event | Unknown], Event | Unknown]


class Line(Value, kw_only=True, frozen=True):
    seq: int
    digest: str
    event: msgspec.Raw = NOTHING
    """Exactly as it was written."""
    kind: str = ""
    run: str = ""
    at: int = 0
    hash: str = ""
    """Of the text that is left out; then kind, run and time stand beside it."""
    shown: msgspec.Raw = NOTHING


class Stored(NamedTuple):
    seq: int
    digest: bytes
    at: int
    run: bytes
    kind: bytes
    purged: bool
    body: bytes
    """The text, or its hash when it is purged."""


def export_lines(
    path: Path, kinds: Collection[str] | None = None, clean: Clean | None = None
) -> Iterator[bytes]:
    """Every event; of those of other kinds than `kinds` only the hash."""
    with opened(path) as connection:
        for row in scan(connection, f"digest, {COLUMNS}"):
            yield line_of(Stored._make(row), kinds, clean)


def line_of(stored: Stored, kinds: Collection[str] | None, clean: Clean | None) -> bytes:
    seq, digest, at, run, kind, purged, body = stored
    name, of = kind.decode(), run.decode()
    line = Line(
        seq=seq,
        digest=digest.hex(),
        kind=name,
        run=of,
        at=at,
        hash=(body if purged else hash_text(body)).hex(),
    )
    if not purged and (kinds is None or name in kinds):
        event = read(seq, at, run, kind, body)
        shown = event if clean is None else clean(event)
        if shown == event:
            raw = msgspec.Raw(json_of(at, of, name, body))
            line = Line(seq=seq, digest=digest.hex(), event=raw)
        else:
            line = msgspec.structs.replace(line, shown=msgspec.Raw(msgspec.json.encode(shown)))
    return msgspec.json.encode(line)


def verify_lines(lines: Iterable[bytes], *, name: str, see: See) -> Report:
    """As `verification.verify` does with a journal."""
    faults: list[tuple[int, str]] = []
    before, count, expected = GENESIS, 0, 1
    for number, text in enumerate(lines, start=1):
        if len(faults) >= SHOWN:
            break
        try:
            line = msgspec.json.decode(text, type=Line)
            row, event = _row(line)
            digest = bytes.fromhex(line.digest)
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError, StoreCorrupt) as error:
            faults.append((expected, f"line {number} of the export cannot be read: {error}"))
            continue
        if line.seq != expected:
            what = f"events {expected} to {line.seq - 1} are missing, or were moved"
            faults.append((expected, what))
        if link(before, *row) != digest:
            what = f"event {line.seq} is not what was written, or what stood before it is not"
            faults.append((line.seq, what))
        see(line.seq, digest, event)
        before, count, expected = digest, count + 1, line.seq + 1
    return Report(
        path=name,
        events=count,
        last=expected - 1,
        problems=tuple(text for _, text in faults),
        first_broken=min((seq for seq, _ in faults), default=None),
    )


def _row(line: Line) -> tuple[tuple[bytes, str, str, int], object]:
    """What the chain is made of, and the event if it is there."""
    if line.event == NOTHING:
        hashed = bytes.fromhex(line.hash)
        if len(hashed) != 32:
            raise ValueError("it has neither an event nor a hash")
        return (hashed, line.kind, line.run, line.at), None
    raw = bytes(line.event)
    head: dict[str, Any] = msgspec.json.decode(raw)
    kind, run = str(head["kind"]), str(head["run"])
    at = micros(msgspec.convert(head["at"], datetime))
    start = json_of(at, run, kind, b"{}")
    if raw != start and not raw.startswith(start[:-1] + b","):
        raise ValueError("its event is not as it was written")
    body = b"{}" if raw == start else b"{" + raw[len(start) :]
    event = read(line.seq, at, run.encode(), kind.encode(), body)
    return (hash_text(body), kind, run, at), event
