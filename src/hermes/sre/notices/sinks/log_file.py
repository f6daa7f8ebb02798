"""Notices as lines of JSON in a file that is rotated; a full disk never leaves half a line."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import msgspec

from hermes.core.events.watching import NoticeQueued
from hermes.sre.notices.sink import Undelivered
from hermes.sre.notices.sinks.shape import shape

LARGEST = 5 * 2**20
KEPT = 3


class LogSink:
    """`NAME.1` is the youngest of the older files."""

    def __init__(self, path: Path, *, name: str = "log", largest: int = LARGEST) -> None:
        self.name, self._path, self._largest = name, path, largest

    async def send(self, notice: NoticeQueued, repeated: bool) -> None:
        line = msgspec.json.encode(shape(notice, repeated)) + b"\n"
        try:
            await anyio.to_thread.run_sync(partial(self._append, line))
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise Undelivered(f"{self._path.name} cannot be written: {why}") from error

    def _append(self, line: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._rotate(len(line))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError(28, "no space left for a whole line")
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)

    def _rotate(self, more: int) -> None:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        if size + more <= self._largest:
            return
        for number in range(KEPT - 1, 0, -1):
            older = self._older(number)
            if older.exists():
                older.replace(self._older(number + 1))
        self._path.replace(self._older(1))

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
