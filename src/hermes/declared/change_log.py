"""Keeps the changes that were seen until their events are in the journal, and then for `show`.

A round of changes is one file, written completely and then renamed. A round that was cut off
before its state was saved is discarded and repeated; one that was published before a crash is
recognized by the ids of its changes, which depend only on what changed.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.declared.state import StateChange, change_id
from hermes.plumbing.files import write_atomically

MAX_ROUNDS = 500
_NAME = re.compile(r"(?P<number>\d{6,})-(?P<id>[0-9a-f]{10})\.(?P<published>new|seen)\.changes")


class UnknownChangeError(HermesError):
    """There is no such change, or its record is gone."""


class ChangeAuthor(Value, frozen=True):
    name: str = ""
    """Empty: not known."""
    evidence: str = ""
    unknown_because: str = ""


UNKNOWN_AUTHOR = ChangeAuthor(
    unknown_because="no log of the host names the author; an audit rule would: "
    "auditctl -w /etc -p wa -k etc"
)


class RecordedChange(Value, frozen=True, kw_only=True):
    change: StateChange
    host: str = ""
    seen_at: datetime
    after: datetime | None = None
    """The time of the last look at which it was unchanged."""
    author: ChangeAuthor = UNKNOWN_AUTHOR
    units: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return change_id(self.change)


_DECODER = msgspec.msgpack.Decoder(tuple[RecordedChange, ...])


class ChangeLog:
    """The rounds of changes below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, changes: Sequence[RecordedChange]) -> None:
        """Raises `OSError`."""
        if not changes:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = self._files()
        round_id = changes[0].id
        number = max((int(match["number"]) for _, match in files), default=0) + 1
        path = self._folder / f"{number:06d}-{round_id}.new.changes"
        write_atomically(path, msgspec.msgpack.encode(tuple(changes)))
        for old, _ in files[MAX_ROUNDS:]:
            old.unlink(missing_ok=True)

    def discard_unfinished(self, after: datetime) -> None:
        """Removes rounds that were compared with the state of this time and never published: it is
        still the last state, so they were cut off, and are about to be repeated."""
        for path, changes in list(self.unpublished()):
            if not changes or changes[0].after == after:
                path.unlink(missing_ok=True)

    def unpublished(self) -> Iterator[tuple[Path, tuple[RecordedChange, ...]]]:
        """The oldest first."""
        for path, match in reversed(self._files()):
            if match["published"] == "new":
                yield path, self._read(path)

    def mark_published(self, path: Path) -> None:
        path.rename(path.with_name(path.name.replace(".new.", ".seen.")))

    def find(self, id: str) -> RecordedChange:
        """The latest change with this id or its beginning. Raises `UnknownChangeError`."""
        for each in self.all():
            if id and each.id.startswith(id):
                return each
        raise UnknownChangeError(
            f"there is no record of the change {id!r}; `hermes changes` lists changes, and the "
            "content of old ones is removed in time"
        )

    def all(self) -> Iterator[RecordedChange]:
        """The latest first."""
        for path, _ in self._files():
            yield from reversed(self._read(path))

    def digests(self) -> set[str]:
        """Of all content that a change refers to."""
        return {
            item.digest
            for each in self.all()
            for item in (each.change.before, each.change.after)
            if item is not None and item.digest
        }

    def _files(self) -> list[tuple[Path, re.Match[str]]]:
        """The newest first."""
        try:
            paths = list(self._folder.iterdir())
        except FileNotFoundError:
            return []
        found = [(path, match) for path in paths if (match := _NAME.fullmatch(path.name))]
        return sorted(found, key=lambda each: int(each[1]["number"]), reverse=True)

    @staticmethod
    def _read(path: Path) -> tuple[RecordedChange, ...]:
        """Nothing for a file that is gone or damaged."""
        try:
            return _DECODER.decode(path.read_bytes())
        except (OSError, msgspec.DecodeError):
            return ()
