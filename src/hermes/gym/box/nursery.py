"""Many boxes one after the other, or side by side: their wardens come from one warm process."""

import os
import socket
import tempfile
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from anyio import to_thread

from hermes.core.errors import PlaceFailed
from hermes.environments.confinement import wire
from hermes.gym.box.carrier import Opener
from hermes.gym.box.here import open_here
from hermes.gym.box.opening import PATIENCE, start


class _Nursery:
    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(PATIENCE)
        self._one = threading.Lock()  # wardens are asked for from worker threads
        with theirs, tempfile.TemporaryFile() as complaints:
            self._pid = start("cradle", theirs.fileno(), complaints.fileno())

    def spawn(self, line: int, complaints: int) -> tuple[int, int]:
        try:
            with self._one:
                wire.send(self._line, b"warden", (line, complaints))
                answer, files = wire.receive(self._line)
        except OSError as error:
            raise PlaceFailed(f"the nursery of boxes has ended: {error}") from error
        if answer[:1] != wire.OK or not files:
            why = answer[1:].decode("utf-8", "replace") or "it has ended"
            raise PlaceFailed(f"no box could be begun: {why}")
        return int(answer[1:]), files[0]

    def end(self) -> None:
        self._line.close()
        os.waitpid(self._pid, 0)


@asynccontextmanager
async def nursery() -> AsyncGenerator[Opener, None]:
    """Yields what opens boxes; all of them are to be gone when this is left."""
    held = await to_thread.run_sync(_Nursery)
    try:
        yield partial(open_here, by=held.spawn)
    finally:
        held.end()
