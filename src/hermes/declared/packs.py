"""Keeps content by its digest, many pieces to a file.

A host has tens of thousands of small files; a file for each of them here would take minutes to
write. A pack is written completely under another name and then renamed, so a process that is
killed leaves a whole pack or none. What does not match its digest is as good as missing.
"""

import hashlib
import os
import struct
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from hermes.plumbing.files import write_atomically

MAX_CONTENT_BYTES = 256 * 1024
"""Of one piece; of a larger one only the digest is known."""
MAX_PENDING_BYTES = 4 << 20
"""What is held in memory before it is written as a pack."""
BLOCK_BYTES = 128 * 1024
"""Pieces compressed together: small ones compress badly alone."""
PACK_SUFFIX = ".pack"
_MAGIC = b"hermes-pack-1\n"
_LEVEL = 1
_MIN_USED_SHARE = 0.5
"""A pack of which less is used is written again without the rest."""


class _Place(msgspec.Struct, array_like=True, gc=False):
    """The position of a piece: the block in the file, and the piece in the block."""

    block: int
    block_bytes: int
    start: int
    length: int


_PackIndex = dict[bytes, _Place]


class ContentPacks:
    """The pieces of a folder. Not for use by two threads at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: dict[bytes, tuple[Path, int, _Place]] | None = None
        self._pending: dict[bytes, bytes] = {}
        self._pending_bytes = 0
        self._block: tuple[Path, int, bytes] | None = None

    def keep(self, content: bytes) -> str:
        """The digest. The content is on the disk after `flush`, unless it is too large."""
        digest = hashlib.sha256(content).digest()
        if len(content) <= MAX_CONTENT_BYTES and digest not in self:
            self._pending[digest] = content
            self._pending_bytes += len(content)
            if self._pending_bytes >= MAX_PENDING_BYTES:
                self.flush()
        return digest.hex()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._pending or digest in self._places()

    def content(self, digest: str) -> bytes | None:
        try:
            key = bytes.fromhex(digest)
        except ValueError:
            return None
        if key in self._pending:
            return self._pending[key]
        found = self._read(key)
        if found is None and key in self._places():
            self._index = None  # another process may have rewritten the pack
            found = self._read(key)
        return found

    def flush(self) -> None:
        """Writes what was kept since the last time."""
        if not self._pending:
            return
        name = hashlib.sha256(b"".join(sorted(self._pending))).hexdigest()[:24]
        path = self._folder / f"{name}{PACK_SUFFIX}"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, _encode_pack(self._pending))
        self._pending.clear()
        self._pending_bytes = 0
        if self._index is not None:
            self._index.update(_index_of(path))

    def remove_unused(self, used: Collection[str]) -> None:
        """Removes what is not used, and rewrites packs of which little is."""
        wanted = {bytes.fromhex(each) for each in used if each}
        for path in sorted(self._folder.glob(f"*{PACK_SUFFIX}")):
            index = {key: place for key, (_, _, place) in _index_of(path).items()}
            total = sum(place.length for place in index.values())
            kept = sum(place.length for key, place in index.items() if key in wanted)
            if kept and kept >= _MIN_USED_SHARE * total:
                continue
            pieces = {key: self._read(key) for key in index if key in wanted}
            self._pending.update({key: each for key, each in pieces.items() if each is not None})
            self.flush()
            path.unlink(missing_ok=True)
            self._index = None
        for abandoned in self._folder.glob(f".*{PACK_SUFFIX}.*"):
            abandoned.unlink(missing_ok=True)

    def size_bytes(self) -> int:
        total = 0
        for path in self._folder.glob(f"*{PACK_SUFFIX}"):
            with suppress(FileNotFoundError):
                total += path.stat().st_size
        return total

    def damaged(self) -> Iterator[Path]:
        for path in sorted(self._folder.glob(f"*{PACK_SUFFIX}")):
            if not _index_of(path):
                yield path

    def _places(self) -> dict[bytes, tuple[Path, int, _Place]]:
        if self._index is None:
            self._index = {}
            for path in sorted(self._folder.glob(f"*{PACK_SUFFIX}")):
                self._index.update(_index_of(path))
        return self._index

    def _read(self, key: bytes) -> bytes | None:
        found = self._places().get(key)
        if found is None:
            return None
        path, begin, place = found
        try:
            block = self._read_block(path, begin, place)
        except (OSError, zlib.error):
            return None
        content = block[place.start : place.start + place.length]
        return content if hashlib.sha256(content).digest() == key else None

    def _read_block(self, path: Path, begin: int, place: _Place) -> bytes:
        if self._block is not None and self._block[:2] == (path, place.block):
            return self._block[2]
        with path.open("rb") as file:
            file.seek(begin + place.block)
            block = zlib.decompress(file.read(place.block_bytes))
        self._block = (path, place.block, block)
        return block


def _encode_pack(pieces: dict[bytes, bytes]) -> bytes:
    index: _PackIndex = {}
    body = bytearray()
    for group in _groups(pieces):
        block = zlib.compress(b"".join(pieces[key] for key in group), _LEVEL)
        start = 0
        for key in group:
            index[key] = _Place(len(body), len(block), start, len(pieces[key]))
            start += len(pieces[key])
        body += block
    head = zlib.compress(msgspec.msgpack.encode(index), _LEVEL)
    return b"".join((_MAGIC, struct.pack(">I", len(head)), head, body))


def _groups(pieces: dict[bytes, bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for key, piece in pieces.items():
        group.append(key)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _index_of(path: Path) -> dict[bytes, tuple[Path, int, _Place]]:
    """Empty for a file that is gone or damaged."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC) + 4)
            if len(start) < len(_MAGIC) + 4 or not start.startswith(_MAGIC):
                return {}
            (length,) = struct.unpack(">I", start[len(_MAGIC) :])
            head = file.read(length)
            size = os.fstat(file.fileno()).st_size
        index = msgspec.msgpack.decode(zlib.decompress(head), type=_PackIndex)
    except (OSError, zlib.error, msgspec.DecodeError, MemoryError):
        return {}
    begin = len(start) + length
    end = max((place.block + place.block_bytes for place in index.values()), default=0)
    if size < begin + end:
        return {}
    return {key: (path, begin, place) for key, place in index.items()}
