"""Remembers on disk which background processes there are, so that a crash of ours loses none.

Several of our processes share one file. Each entry has an owner, and each owner changes only its
own entries; those of an owner that has died can be claimed by anybody, once.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from hermes.core.messages import Value
from hermes.environments.processes.tree import birth


class Entry(Value, kw_only=True, frozen=True):
    id: str
    command: str
    environment: str
    target: str
    handle: str
    started_at: datetime
    pid: int | None = None
    run: str = ""
    watch: tuple[str, ...] = ()
    owner: str = ""


class Checkpoint:
    def __init__(self, path: Path) -> None:
        self._path = path
        pid = os.getpid()
        self._me = f"{pid}:{birth(pid)}:{secrets.token_hex(4)}"

    def save(self, mine: Sequence[Entry]) -> None:
        with self._changing() as entries:
            others = [entry for entry in entries if entry.owner != self._me]
            entries[:] = [*others, *(msgspec.structs.replace(e, owner=self._me) for e in mine)]

    def release(self, id: str | None = None) -> None:
        """Whoever comes next may claim what is mine: one entry, or all."""
        with self._changing() as entries:
            for index, entry in enumerate(entries):
                if entry.owner == self._me and id in (None, entry.id):
                    entries[index] = msgspec.structs.replace(entry, owner="")

    def claim(self, environment: str, target: str) -> list[Entry]:
        """Make mine what nobody alive owns in that place."""
        claimed = []
        with self._changing() as entries:
            for index, entry in enumerate(entries):
                here = (entry.environment, entry.target) == (environment, target)
                if here and not _alive(entry.owner):
                    entries[index] = msgspec.structs.replace(entry, owner=self._me)
                    claimed.append(entries[index])
        return claimed

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[Entry]]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._read()
            entries = list(before)
            yield entries
            if entries != before:
                self._replace(entries)

    def _read(self) -> list[Entry]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[Entry])
        except FileNotFoundError:
            return []
        except msgspec.DecodeError:  # keep it for whoever wants to know, and go on without
            self._path.replace(self._path.with_suffix(".damaged"))
            return []

    def _replace(self, entries: list[Entry]) -> None:
        temporary = self._path.with_suffix(f".{secrets.token_hex(4)}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(entries)))
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _alive(owner: str) -> bool:
    pid, _, rest = owner.partition(":")
    return pid.isdigit() and birth(int(pid)) == rest.partition(":")[0] != ""
