"""Reads events straight out of the pages of a damaged file, without trusting what SQLite needs.

A table row lies in a leaf page that says where its rows are, so rows can be found page by page
when the header, the upper parts of the tree or half of the file are gone. What a row is, is told
by its shape: six columns, the fifth of them a digest of 32 bytes. The format is documented at
sqlite.org/fileformat2.html.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hermes.core.errors import StoreCorrupt
from hermes.memory.chain import GENESIS
from hermes.memory.packing import plain
from hermes.memory.rows import Row, read

_LEAF = 0x0D
_PAGE_SIZES = {1 << power for power in range(9, 17)}
_DIGEST = 12 + 2 * 32  # how a record says "a blob of 32 bytes"
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}


class Carved(NamedTuple):
    row: Row
    digest: bytes

    def follows(self, before: "Carved | None") -> bool:
        return self.row.link(before.digest if before else GENESIS) == self.digest


def carve(path: Path) -> dict[int, Carved]:
    """All events that can still be read, by number.

    No connection of this process may have the file open: closing the file here would drop the
    locks of that connection.
    """
    raw = path.read_bytes() if path.exists() else b""
    log = path.with_name(path.name + "-wal")
    wal = log.read_bytes() if log.exists() else b""
    size = _page_size(raw, wal)
    pages = {number + 1: raw[at : at + size] for number, at in enumerate(range(0, len(raw), size))}
    found = _events(pages)
    if not wal:
        return dict(sorted(found.items()))
    # The log is looked at last, on top of the file: its pages are newer. Where one of them is
    # damaged the older page in the file has had its say.
    for seq, carved in _events(pages | _logged(wal, size)).items():
        if seq not in found or isinstance(carved.row.body, bytes):
            found[seq] = carved
    return dict(sorted(found.items()))


def _page_size(raw: bytes, wal: bytes) -> int:
    told = int.from_bytes(raw[16:18])
    candidates = (65536 if told == 1 else told, int.from_bytes(wal[8:12]))
    return next((size for size in candidates if size in _PAGE_SIZES), 4096)


def _logged(wal: bytes, size: int) -> dict[int, bytes]:
    """The newest committed copy of each page in the log."""
    salts = wal[16:24]
    pages: dict[int, bytes] = {}
    committed: dict[int, bytes] = {}
    for at in range(32, len(wal) - size - 23, size + 24):
        if wal[at + 8 : at + 16] != salts:
            break  # left over from an earlier round of the log
        pages[int.from_bytes(wal[at : at + 4])] = wal[at + 24 : at + 24 + size]
        if int.from_bytes(wal[at + 4 : at + 8]):
            committed |= pages
            pages = {}
    return committed


def _events(pages: Mapping[int, bytes]) -> dict[int, Carved]:
    found: dict[int, Carved] = {}
    for number, page in pages.items():
        for seq, record in _cells(page, 100 if number == 1 else 0, pages):
            carved = _event(seq, record)
            if carved is not None and (seq not in found or isinstance(carved.row.body, bytes)):
                found[seq] = carved
    return found


def _cells(page: bytes, start: int, pages: Mapping[int, bytes]) -> Iterator[tuple[int, bytes]]:
    if page[start : start + 1] != bytes([_LEAF]):
        return
    count = min(int.from_bytes(page[start + 3 : start + 5]), len(page) // 6)  # more cannot fit
    for at in range(start + 8, start + 8 + 2 * count, 2):
        offset = int.from_bytes(page[at : at + 2])
        length, offset = _varint(page, offset)
        seq, offset = _varint(page, offset)
        record = _payload(page, offset, length, pages)
        if record is not None and 0 < seq < 1 << 62:
            yield seq, record


def _payload(page: bytes, offset: int, length: int, pages: Mapping[int, bytes]) -> bytes | None:
    """The record, gathered from its overflow pages; None when a part is missing."""
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


def _event(seq: int, record: bytes) -> Carved | None:
    """The row when it has the shape of an event and its text can be read."""
    header, at = _varint(record, 0)
    types: list[int] = []
    while at < header and len(types) < 7:
        serial, at = _varint(record, at)
        types.append(serial)
    texts = all(serial >= 13 and serial % 2 for serial in types[2:4])
    if len(types) != 6 or types[0] or types[1] not in _INTEGER_BYTES or not texts:
        return None
    if types[4] != _DIGEST or types[5] < 12:
        return None
    sizes = [_INTEGER_BYTES[types[1]], *((serial - 12) // 2 for serial in types[2:])]
    values, offset = [], header
    for size in sizes:
        values.append(record[offset : offset + size])
        offset += size
    when, run, kind, digest, body = values
    try:
        body = plain(body)
        text = body if types[5] == _DIGEST else body.decode()
        row = Row(int.from_bytes(when, signed=True), run.decode(), kind.decode(), text)
        if isinstance(text, str):
            read(seq, row.at, run, kind, body)
    except (UnicodeDecodeError, StoreCorrupt):
        return None
    return Carved(row, digest)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for length in range(9):
        byte = data[at + length] if at + length < len(data) else 0
        if length == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + length + 1
    return value, at + 9
