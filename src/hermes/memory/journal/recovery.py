"""Recovers events directly from the pages of a damaged SQLite file.

A table row lies in a leaf page that says where its rows are, so rows can be found page by page when
the header, the upper parts of the tree or half of the file are gone. An event row is recognized by
its shape: six columns, the fifth of them a digest of 32 bytes. The format is documented at
sqlite.org/fileformat2.html.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import apsw

from hermes.core.errors import StoreCorrupt, StoreError
from hermes.core.messages import Value
from hermes.memory.journal.rows import (
    GENESIS_DIGEST,
    EventRow,
    compress_body,
    decompress_body,
    read_event,
)
from hermes.memory.journal.sqlite_file import (
    close_without_checkpoint,
    connect,
    open_for_writing,
    translate_errors,
)

_LEAF_PAGE_TYPE = 0x0D
_VALID_PAGE_SIZES = {1 << power for power in range(9, 17)}
_DIGEST_SERIAL_TYPE = 12 + 2 * 32  # the serial type of "a blob of 32 bytes"
_BYTES_BY_INTEGER_TYPE = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}


class RecoveredRow(NamedTuple):
    row: EventRow
    digest: bytes

    def follows(self, previous: "RecoveredRow | None") -> bool:
        return self.row.digest_after(previous.digest if previous else GENESIS_DIGEST) == self.digest


def recover_rows(path: Path) -> dict[int, RecoveredRow]:
    """All events that can still be read, by number.

    No connection of this process may have the file open: closing the file here would release the
    locks of that connection.
    """
    raw = path.read_bytes() if path.exists() else b""
    log = path.with_name(path.name + "-wal")
    wal = log.read_bytes() if log.exists() else b""
    size = _page_size(raw, wal)
    pages = {number + 1: raw[at : at + size] for number, at in enumerate(range(0, len(raw), size))}
    found = _rows_in_pages(pages)
    if not wal:
        return dict(sorted(found.items()))
    # The log is read last, over the file: its pages are newer. Where one of them is damaged, the
    # older page in the file has been used.
    for seq, carved in _rows_in_pages(pages | _committed_wal_pages(wal, size)).items():
        if seq not in found or isinstance(carved.row.body, bytes):
            found[seq] = carved
    return dict(sorted(found.items()))


def _page_size(raw: bytes, wal: bytes) -> int:
    stored_size = int.from_bytes(raw[16:18])
    candidates = (65536 if stored_size == 1 else stored_size, int.from_bytes(wal[8:12]))
    return next((size for size in candidates if size in _VALID_PAGE_SIZES), 4096)


def _committed_wal_pages(wal: bytes, size: int) -> dict[int, bytes]:
    """The newest committed copy of each page in the log."""
    salts = wal[16:24]
    pages: dict[int, bytes] = {}
    committed: dict[int, bytes] = {}
    for at in range(32, len(wal) - size - 23, size + 24):
        if wal[at + 8 : at + 16] != salts:
            break  # left over from an earlier cycle of the log
        pages[int.from_bytes(wal[at : at + 4])] = wal[at + 24 : at + 24 + size]
        if int.from_bytes(wal[at + 4 : at + 8]):
            committed |= pages
            pages = {}
    return committed


def _rows_in_pages(pages: Mapping[int, bytes]) -> dict[int, RecoveredRow]:
    found: dict[int, RecoveredRow] = {}
    for number, page in pages.items():
        for seq, record in _leaf_cells(page, 100 if number == 1 else 0, pages):
            carved = _parse_event_row(seq, record)
            if carved is not None and (seq not in found or isinstance(carved.row.body, bytes)):
                found[seq] = carved
    return found


def _leaf_cells(page: bytes, start: int, pages: Mapping[int, bytes]) -> Iterator[tuple[int, bytes]]:
    if page[start : start + 1] != bytes([_LEAF_PAGE_TYPE]):
        return
    count = min(int.from_bytes(page[start + 3 : start + 5]), len(page) // 6)  # more cannot fit
    for at in range(start + 8, start + 8 + 2 * count, 2):
        offset = int.from_bytes(page[at : at + 2])
        length, offset = _read_varint(page, offset)
        seq, offset = _read_varint(page, offset)
        record = _read_payload(page, offset, length, pages)
        if record is not None and 0 < seq < 1 << 62:
            yield seq, record


def _read_payload(
    page: bytes, offset: int, length: int, pages: Mapping[int, bytes]
) -> bytes | None:
    """The record, collected from its overflow pages; None when a part is missing."""
    usable = len(page)
    if length <= usable - 35:
        return page[offset : offset + length]
    least = (usable - 12) * 32 // 255 - 23
    local = least + (length - least) % (usable - 4)
    if local > usable - 35:
        local = least
    parts, missing = [page[offset : offset + local]], length - local
    following = int.from_bytes(page[offset + local : offset + local + 4])
    seen: set[int] = set()
    while missing > 0:
        overflow = pages.get(following)
        if overflow is None or following in seen:
            return None
        seen.add(following)
        parts.append(overflow[4 : 4 + min(missing, usable - 4)])
        missing -= usable - 4
        following = int.from_bytes(overflow[:4])
    return b"".join(parts)


def _parse_event_row(seq: int, record: bytes) -> RecoveredRow | None:
    """The row when it has the shape of an event and its text can be read."""
    header, at = _read_varint(record, 0)
    types: list[int] = []
    while at < header and len(types) < 7:
        serial, at = _read_varint(record, at)
        types.append(serial)
    texts = all(serial >= 13 and serial % 2 for serial in types[2:4])
    if len(types) != 6 or types[0] or types[1] not in _BYTES_BY_INTEGER_TYPE or not texts:
        return None
    if types[4] != _DIGEST_SERIAL_TYPE or types[5] < 12:
        return None
    sizes = [_BYTES_BY_INTEGER_TYPE[types[1]], *((serial - 12) // 2 for serial in types[2:])]
    values, offset = [], header
    for size in sizes:
        values.append(record[offset : offset + size])
        offset += size
    when, run, kind, digest, body = values
    try:
        body = decompress_body(body)
        text = body if types[5] == _DIGEST_SERIAL_TYPE else body.decode()
        row = EventRow(int.from_bytes(when, signed=True), run.decode(), kind.decode(), text)
        if isinstance(text, str):
            read_event(seq, row.at, run, kind, body)
    except (UnicodeDecodeError, StoreCorrupt):
        return None
    return RecoveredRow(row, digest)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for length in range(9):
        byte = data[at + length] if at + length < len(data) else 0
        if length == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + length + 1
    return value, at + 9


class SalvageResult(Value, kw_only=True, frozen=True):
    saved: int
    lost: tuple[tuple[int, int], ...] = ()
    """First and last number of each range that could not be read."""
    doubtful: tuple[int, ...] = ()
    """Readable, and kept, but not what the chain says was written."""
    into: str
    original: str
    """Where the damaged file is now."""


def salvage(path: Path, into: Path | None = None) -> SalvageResult:
    """Copy every readable event, under its own number, into a new file.

    Without `into` the new file replaces the damaged one, which is kept beside it. All processes
    that use the journal must have ended. The chain is computed again over the recovered events.
    """
    target = into or path
    if target != path and target.exists():
        raise StoreError(f"{target} is there already; name a file that is not")
    with translate_errors(path):
        numbered = _highest_seq_given(path)
        events = recover_rows(path)
        if not events and not path.exists():
            raise StoreError(f"there is no journal at {path}")
        partial = target.with_name(target.name + ".partial")
        partial.unlink(missing_ok=True)
        lost = _missing_ranges(events, numbered)
        _write_journal(partial, events, lost)
        original = _keep_damaged_file(path) if target == path else path
        partial.rename(target)
    doubtful = (seq for seq, event in events.items() if _breaks_chain(seq, event, events))
    return SalvageResult(
        saved=len(events),
        lost=lost,
        doubtful=tuple(doubtful),
        into=str(target),
        original=str(original),
    )


def _highest_seq_given(path: Path) -> int:
    """The highest number ever assigned, when the file still has it; refuses a file in use."""
    if not path.exists() or not path.stat().st_size:
        return 0  # SQLite would take an empty file for a new one and delete the log
    connection = connect(path, timeout_s=1.0)
    try:
        # Exclusive: fails when any process has the file open. Writable schema: read in spite of
        # damage.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE; PRAGMA writable_schema=ON")
        return int(connection.execute("SELECT max(seq) FROM sqlite_sequence").get or 0)
    except apsw.BusyError:
        raise
    except apsw.Error:
        return 0
    finally:
        close_without_checkpoint(connection)


def _missing_ranges(
    events: Mapping[int, RecoveredRow], numbered: int
) -> tuple[tuple[int, int], ...]:
    lost, expected = [], 1
    for seq in (*events, max(numbered, *events, 0) + 1):
        if seq > expected:
            lost.append((expected, seq - 1))
        expected = seq + 1
    return tuple(lost)


def _write_journal(
    path: Path, events: Mapping[int, RecoveredRow], lost: Iterable[tuple[int, int]]
) -> None:
    connection = open_for_writing(path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        digest = GENESIS_DIGEST
        for seq, (row, _) in events.items():
            digest = row.digest_after(digest)
            body = row.body if isinstance(row.body, bytes) else compress_body(row.body)
            connection.execute(
                "INSERT INTO event(seq, at, run, kind, digest, body) VALUES(?, ?, ?, ?, ?, ?)",
                (seq, row.at, row.run, row.kind, digest, body),
            )
        connection.executemany("INSERT INTO gap VALUES(?, ?)", lost)
        # Numbers are never assigned twice, not even those of lost events.
        top = max((last for _, last in lost), default=0)
        connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?)", (top,))
        connection.execute("COMMIT")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.close()


def _keep_damaged_file(path: Path) -> Path:
    """Give the damaged file a second name; its own name is then replaced atomically."""
    kept = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
    log = path.with_name(path.name + "-wal")
    if path.exists():
        os.link(path, kept)
    if log.exists():  # an old log beside a new file would be taken for its own
        log.rename(kept.with_name(kept.name + "-wal"))
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    return kept


def _breaks_chain(seq: int, event: RecoveredRow, events: Mapping[int, RecoveredRow]) -> bool:
    if seq > 1 and seq - 1 not in events:
        return False  # nothing to compare with
    return not event.follows(events.get(seq - 1))
