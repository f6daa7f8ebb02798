"""Tells systemd that the watch is ready and alive: a datagram to the socket that it names."""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import anyio

SOCKET_VARIABLE, INTERVAL_VARIABLE = "NOTIFY_SOCKET", "WATCHDOG_USEC"
MAX_SILENCE_S = 30.0
"""A watch whose last tick is older than this is not reported as alive, and systemd restarts it."""


class ManagerNotification:
    """Does nothing where no service manager asked for it."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._address = variables.get(SOCKET_VARIABLE, "")
        interval = variables.get(INTERVAL_VARIABLE, "")
        self._interval_s = int(interval) / 2_000_000 if interval.isdigit() else 0.0

    def send(self, text: str) -> None:
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):  # an abstract socket
            address = "\0" + address[1:]
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.setblocking(False)
            link.sendto(text.encode(), address)

    async def run(self, alive_at: Callable[[], datetime | None]) -> None:
        """Report readiness, then that the watch is alive, at half the interval of the manager."""
        self.send("READY=1")
        if not self._interval_s:
            return
        while True:
            last = alive_at()
            if last and (datetime.now(UTC) - last).total_seconds() < MAX_SILENCE_S:
                self.send("WATCHDOG=1")
            await anyio.sleep(min(self._interval_s, MAX_SILENCE_S / 2))
