"""One background process as the registry knows it: what it printed last, and how it ended."""

from typing import Literal

import anyio

from hermes.core.protocols import Process, ProcessView
from hermes.environments.output import Rolling, whole
from hermes.environments.processes.checkpoint import Entry
from hermes.environments.processes.watch import Match, Watch

_TAIL = 2000

Reason = Literal["exited", "killed", "lost", "expired"]


class Tracked:
    def __init__(self, entry: Entry, process: Process, watch: Watch, buffer: int) -> None:
        self.entry, self.process, self.watch = entry, process, watch
        self.ended = False
        self.done = anyio.Event()
        self.exit_code: int | None = None
        self.ended_by: Literal["killed", "expired"] | None = None
        self._buffer = Rolling(buffer)
        self._seen = 0

    @property
    def reason(self) -> Reason:
        return self.ended_by or ("lost" if self.exit_code is None else "exited")

    @property
    def view(self) -> ProcessView:
        return ProcessView(
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

    def feed(self, data: bytes) -> list[Match]:
        self._buffer.feed(data)
        return self.watch.feed(data)

    def news(self) -> str:
        """What was printed since this was last asked."""
        piece = self._buffer.since(self._seen)
        data = piece.data if self.ended else whole(piece.data)
        missed, self._seen = piece.start - self._seen, piece.start + len(data)
        note = f"[… {missed:,} bytes left out …]\n" if missed else ""
        return note + data.decode("utf-8", "replace")

    def page(self, offset: int, limit: int) -> str:
        """Some lines of the buffer, and which they are."""
        lines = self._buffer.lines()
        first = max(0, len(lines) + offset) if offset < 0 else min(offset, len(lines))
        shown = lines[first : first + max(1, limit)]
        gone = self._buffer.total - len(self._buffer.since(0).data)
        note = f"[lines {first}–{first + len(shown)} of {len(lines)}"
        note += f"; {gone:,} bytes before them are gone]" if gone else "]"
        return "\n".join([*shown, note])

    def tail(self) -> str:
        return self._buffer.since(self._buffer.total - _TAIL).data.decode("utf-8", "replace")
