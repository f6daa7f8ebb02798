"""Keeps the states of hosts in the home directory.

A state is one file that is written completely and then renamed: killing the process at any moment
leaves the states before it, and perhaps the new one. A file that is cut off or altered is listed
as damaged and otherwise ignored. Their order is that of a counter, not of the clock.
"""

import hashlib
import re
import secrets
import struct
import time
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import cast

import msgspec
from msgspec import field

from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.declared.change_log import ChangeLog
from hermes.declared.packs import ContentPacks
from hermes.declared.state import Item, ItemId, ItemKind, State, StateSource
from hermes.plumbing.files import FileLock, write_atomically

STATES_FOLDER = "states"
STAGING_FOLDER = "staged-content"
"""Beside the states: content on its way to the host, and what it replaced there."""
MAX_STAGED_AGE_S = 7 * 86_400.0
_MAGIC = b"hermes-state-1\n"
_NAME = re.compile(r"(?P<number>\d{6,})-(?P<rest>[0-9a-f]{4})\.(?P<source>[a-z-]+)\.state")
_LEVEL = 1
_ARRAY_MARK = b"\xdd"
_COMPRESSED_AT_ONCE = 1 << 16
"""Of MessagePack: an array whose length follows in four bytes."""


class UnknownStateError(HermesError):
    """There is no such state, or it cannot be read."""


class StoreLimits(Value, frozen=True, kw_only=True):
    """Limits on what is kept. The oldest states go first, the newest known good state never."""

    states: int = 12
    """Of one host and source."""
    live_states: int = 3
    size_mb: int = 200
    """Of the contents of all."""


DEFAULT_LIMITS = StoreLimits()


class StoredState(Value, frozen=True, kw_only=True):
    """A state as it is listed."""

    id: str
    source: StateSource = "live"
    host: str = ""
    at: datetime | None = None
    items: int = 0
    size_bytes: int = 0
    damaged: str = ""
    """Why it cannot be read."""


class _Header(msgspec.Struct):
    host: str
    at: datetime
    source: StateSource
    count: int
    left_out: tuple[str, ...] = ()


class _StoredItem(msgspec.Struct, array_like=True, gc=False):
    kind: ItemKind
    key: str
    digest: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


_ITEMS_DECODER = msgspec.msgpack.Decoder(list[_StoredItem])


class StateStore:
    """The states below one folder, which is created when the first is saved."""

    def __init__(self, folder: Path, limits: StoreLimits = DEFAULT_LIMITS) -> None:
        self.folder = folder
        self._limits = limits
        self.changes = ChangeLog(folder / "changes")
        self._packs = ContentPacks(folder / "content")

    def keep(self, content: bytes) -> str:
        """The digest of the content, which is kept until no state or change refers to it."""
        return self._packs.keep(content)

    def content(self, digest: str) -> bytes | None:
        """Return None when only the digest is known."""
        return self._packs.content(digest)

    def save(self, state: State) -> str:
        """The id of the state. Raises `OSError`, for example when the disk is full."""
        with self.lock():
            self._packs.flush()  # what a state refers to is there before the state is
            number = max((int(match["number"]) for _, match in self._files()), default=0) + 1
            id = f"{number:06d}-{secrets.token_hex(2)}"
            path = self.folder / f"{id}.{state.source}.state"
            write_atomically(path, _encode(state))
            self._remove_old(state)
        return id

    def flush(self) -> None:
        """Writes what was kept; `save` does so as well."""
        self._packs.flush()

    def latest(self, host: str, source: StateSource = "known-good") -> State | None:
        """The newest state that is not damaged."""
        for path, match in self._files():
            if match["source"] != source:
                continue
            read = _read(path)
            if not isinstance(read, str) and read[0].host == host:
                return _decode(*read)
        return None

    def load(self, id: str) -> State:
        """By its id or the start of it. Raises `UnknownStateError`."""
        found = [path for path, _ in self._files() if path.name.startswith(id)]
        if not id or len(found) != 1:
            many = "several states begin" if len(found) > 1 else "there is no state that begins"
            raise UnknownStateError(f"{many} with {id!r}; `hermes state list` shows them")
        read = _read(found[0])
        if isinstance(read, str):
            raise UnknownStateError(f"the state {id} is damaged: {read}")
        return _decode(*read)

    def stored_states(self) -> Iterator[StoredState]:
        """The newest first."""
        for path, match in self._files():
            id, source = path.name.partition(".")[0], cast(StateSource, match["source"])
            read = _read(path)
            if isinstance(read, str):
                yield StoredState(id=id, source=source, damaged=read)
                continue
            header, body = read
            yield StoredState(
                id=id,
                source=source,
                host=header.host,
                at=header.at,
                items=header.count,
                size_bytes=len(body),
            )

    def delete(self, id: str) -> None:
        """By its whole id. Its content goes with the next state that is saved."""
        found = [path for path, _ in self._files() if path.name.partition(".")[0] == id]
        if not found:
            raise UnknownStateError(f"there is no state {id!r}; `hermes state list` shows them")
        with self.lock():
            found[0].unlink(missing_ok=True)

    def damaged_content(self) -> tuple[str, ...]:
        return tuple(path.name for path in self._packs.damaged())

    def lock(self) -> FileLock:
        return FileLock(self.folder / ".lock")

    def _files(self) -> list[tuple[Path, re.Match[str]]]:
        """The newest first."""
        try:
            paths = list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        found = [(path, match) for path in paths if (match := _NAME.fullmatch(path.name))]
        return sorted(found, key=lambda each: int(each[1]["number"]), reverse=True)

    def _remove_old(self, newest: State) -> None:
        files = self._files()
        mine = [path for path, match in files if match["source"] == newest.source]
        same_host = [path for path in mine if _host_of(path) == newest.host]
        limits = self._limits
        most = limits.live_states if newest.source == "live" else limits.states
        for path in same_host[most:]:
            path.unlink(missing_ok=True)
        self._remove_half_written()
        removable = same_host[1:most]
        if len(same_host) > most or self._is_too_large():
            self._packs.remove_unused(self._used())
        while self._is_too_large() and removable:
            removable.pop().unlink(missing_ok=True)
            self._packs.remove_unused(self._used())

    def _is_too_large(self) -> bool:
        return self._packs.size_bytes() > self._limits.size_mb << 20

    def _remove_half_written(self) -> None:
        for pattern in (".*.state.*", "changes/.*.changes.*"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        for path in (self.folder.parent / STAGING_FOLDER).glob("*"):
            if time.time() - path.lstat().st_ctime > MAX_STAGED_AGE_S:
                path.unlink(missing_ok=True)

    def _used(self) -> set[str]:
        used: set[str] = set()
        for path, _ in self._files():
            read = _read(path)
            if not isinstance(read, str):
                used.update(each.digest for each in _ITEMS_DECODER.decode(read[1]))
        return used | self.changes.digests()


def _encode(state: State) -> bytes:
    header = _Header(state.host, state.at, state.source, len(state.items), state.left_out)
    head = msgspec.msgpack.encode(header)
    rest = b"".join((struct.pack(">I", len(head)), head, _encode_items(state)))
    return b"".join((_MAGIC, hashlib.sha256(rest).digest(), rest))


def _encode_items(state: State) -> bytes:
    """A compressed array of MessagePack, made in small parts: a host has very many items."""
    encoder, compression = msgspec.msgpack.Encoder(), zlib.compressobj(_LEVEL)
    parts = [compression.compress(_ARRAY_MARK + struct.pack(">I", len(state.items)))]
    encoded = bytearray()
    for id, item in state.items.items():
        encoded += encoder.encode(_StoredItem(id.kind, id.key, item.digest, item.attributes))
        if len(encoded) >= _COMPRESSED_AT_ONCE:
            parts.append(compression.compress(encoded))
            encoded.clear()
    parts += [compression.compress(encoded), compression.flush()]
    return b"".join(parts)


def _read(path: Path) -> tuple[_Header, bytes] | str:
    """The header and the encoded items, or why they cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    if not data.startswith(_MAGIC):
        return "it does not begin as a state does"
    start = len(_MAGIC) + 32
    rest = data[start:]
    if hashlib.sha256(rest).digest() != data[len(_MAGIC) : start]:
        return "it was cut off or altered"
    (length,) = struct.unpack(">I", rest[:4])
    try:
        header = msgspec.msgpack.decode(rest[4 : 4 + length], type=_Header)
        return header, zlib.decompress(rest[4 + length :])
    except (msgspec.DecodeError, zlib.error) as error:
        return f"another version wrote it: {error}"


def _decode(header: _Header, body: bytes) -> State:
    items = {
        ItemId(each.kind, each.key): Item(each.digest, each.attributes)
        for each in _ITEMS_DECODER.decode(body)
    }
    return State(
        host=header.host,
        at=header.at,
        source=header.source,
        items=items,
        left_out=header.left_out,
    )


def _host_of(path: Path) -> str:
    read = _read(path)
    return "" if isinstance(read, str) else read[0].host
