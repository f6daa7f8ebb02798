"""Tracks one background process: its entry on disk, its output, and the matches in it.

The entries are kept on disk, so that a crash of Hermes loses no process. Several processes of
Hermes share the file. Each changes only its own entries; the entries of an owner that has ended can
be claimed once.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

import anyio
import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.core.protocols import BackgroundProcess, ProcessInfo
from hermes.environments.processes.output import RollingOutput, whole_characters
from hermes.environments.processes.process_tree import is_owner_alive, process_birth
from hermes.plumbing.files import FileLock, write_atomically


class ProcessEntry(Value, kw_only=True, frozen=True):
    id: str
    command: str
    environment: str
    target: str
    handle: str
    started_at: datetime
    pid: int | None = None
    run: str = ""
    watch: tuple[str, ...] = ()
    check_interval: float = 0.0
    """Seconds between two reports while it runs; 0: none."""
    owner: str = ""


class ProcessCheckpoint:
    def __init__(self, path: Path) -> None:
        self._path = path
        pid = os.getpid()
        self._me = f"{pid}:{process_birth(pid)}:{secrets.token_hex(4)}"

    def save(self, mine: Sequence[ProcessEntry]) -> None:
        with self._changing() as entries:
            others = [entry for entry in entries if entry.owner != self._me]
            entries[:] = [*others, *(msgspec.structs.replace(e, owner=self._me) for e in mine)]

    def release(self, id: str | None = None) -> None:
        """Lets another process claim one of my entries, or all."""
        with self._changing() as entries:
            for index, entry in enumerate(entries):
                if entry.owner == self._me and id in (None, entry.id):
                    entries[index] = msgspec.structs.replace(entry, owner="")

    def claim(self, environment: str, target: str) -> list[ProcessEntry]:
        """Take over the entries of that environment whose owner has ended."""
        claimed = []
        with self._changing() as entries:
            for index, entry in enumerate(entries):
                here = (entry.environment, entry.target) == (environment, target)
                if here and not is_owner_alive(entry.owner):
                    entries[index] = msgspec.structs.replace(entry, owner=self._me)
                    claimed.append(entries[index])
        return claimed

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[ProcessEntry]]:
        with FileLock(self._path.with_suffix(".lock")):
            before = self._read()
            entries = list(before)
            yield entries
            if entries != before:
                data = msgspec.json.format(msgspec.json.encode(entries))
                write_atomically(self._path, data, sync=False)

    def _read(self) -> list[ProcessEntry]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[ProcessEntry])
        except FileNotFoundError:
            return []
        except msgspec.DecodeError:  # keep the damaged file, and continue without it
            self._path.replace(self._path.with_suffix(".damaged"))
            return []


_MAX_LINE_BYTES = 4096
"""Bytes of an unfinished line that are kept."""
_MAX_SHOWN_CHARS = 500
_MAX_PATTERNS = 16


class OutputMatch(Value, frozen=True):
    pattern: str
    line: str


class OutputWatch:
    """Finds patterns in lines of output; a `*` stands for any characters.

    No regular expressions: a bad one could block Hermes. Each pattern reports at most one match
    per `interval`; the matches in between are counted in the next report.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if len(patterns) > _MAX_PATTERNS or any(not pattern.strip("*") for pattern in patterns):
            raise ToolError(
                f"give up to {_MAX_PATTERNS} words or lines to watch for, none of them empty"
            )
        self._words = {pattern: pattern.split("*") for pattern in patterns}
        self._interval, self._clock = interval, clock
        self._quiet_until = dict.fromkeys(patterns, float("-inf"))
        self._held_back = dict.fromkeys(patterns, 0)
        self._rest = b""

    def feed(self, data: bytes) -> list[OutputMatch]:
        if not self._words:
            return []
        *lines, rest = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-_MAX_LINE_BYTES:]
        return [match for line in lines for match in self._match_line(line)]

    def finish(self) -> list[OutputMatch]:
        rest, self._rest = self._rest, b""
        return self._match_line(rest)

    def _match_line(self, raw: bytes) -> list[OutputMatch]:
        line = raw.decode("utf-8", "replace")
        return [
            OutputMatch(pattern, self._description(pattern, line))
            for pattern, words in self._words.items()
            if _in_order(words, line) and self._may_report(pattern)
        ]

    def _may_report(self, pattern: str) -> bool:
        now = self._clock()
        if now < self._quiet_until[pattern]:
            self._held_back[pattern] += 1
            return False
        self._quiet_until[pattern] = now + self._interval
        return True

    def _description(self, pattern: str, line: str) -> str:
        held, self._held_back[pattern] = self._held_back[pattern], 0
        return line[:_MAX_SHOWN_CHARS] + (f" (and {held:,} more before)" if held else "")


def _in_order(words: Sequence[str], line: str) -> bool:
    position = 0
    for word in words:
        position = line.find(word, position)
        if position < 0:
            return False
        position += len(word)
    return True


_TAIL_CHARS = 2000

EndReason = Literal["exited", "killed", "lost", "expired"]


class TrackedProcess:
    def __init__(
        self, entry: ProcessEntry, process: BackgroundProcess, watch: OutputWatch, buffer: int
    ) -> None:
        self.entry, self.process, self.watch = entry, process, watch
        self.ended = False
        self.done = anyio.Event()
        self.publishing = anyio.Lock()
        """Held while a report is published: none follows the end."""
        self.exit_code: int | None = None
        self.ended_by: Literal["killed", "expired"] | None = None
        self._buffer = RollingOutput(buffer)
        self._seen = self._reported = 0

    @property
    def reason(self) -> EndReason:
        return self.ended_by or ("lost" if self.exit_code is None else "exited")

    @property
    def view(self) -> ProcessInfo:
        return ProcessInfo(
            id=self.entry.id,
            command=self.entry.command,
            environment=self.entry.environment,
            status=self.reason if self.ended else "running",
            started_at=self.entry.started_at,
            pid=self.entry.pid,
            exit_code=self.exit_code,
            output_bytes=self._buffer.total,
            run=self.entry.run,
        )

    def feed(self, data: bytes) -> list[OutputMatch]:
        self._buffer.feed(data)
        return self.watch.feed(data)

    def new_output(self) -> str:
        """The output since the last call."""
        piece = self._buffer.since(self._seen)
        data = piece.data if self.ended else whole_characters(piece.data)
        missed, self._seen = piece.start - self._seen, piece.start + len(data)
        note = f"[… {missed:,} bytes left out …]\n" if missed else ""
        return note + data.decode("utf-8", "replace")

    def unreported(self) -> str:
        """The end of the output since the last report."""
        begin = max(self._reported, self._buffer.total - _TAIL_CHARS)
        self._reported = self._buffer.total
        return self._buffer.since(begin).data.decode("utf-8", "replace")

    def page(self, offset: int, limit: int) -> str:
        """Some lines of the buffer, with their numbers."""
        lines = self._buffer.lines()
        first = max(0, len(lines) + offset) if offset < 0 else min(offset, len(lines))
        shown = lines[first : first + max(1, limit)]
        gone = self._buffer.total - len(self._buffer.since(0).data)
        note = f"[lines {first}–{first + len(shown)} of {len(lines)}"
        note += f"; {gone:,} bytes before them are gone]" if gone else "]"
        return "\n".join([*shown, note])

    def tail(self) -> str:
        return self._buffer.since(self._buffer.total - _TAIL_CHARS).data.decode("utf-8", "replace")
