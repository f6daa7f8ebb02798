"""The task of one channel: it is opened, served, and opened again after a failure.

A failure of one channel reaches no other.
"""

import os
import platform
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from hermes.core.bus import Bus
from hermes.core.channels import Channel
from hermes.core.errors import ChannelFailed, SettingsError, StoreError, innermost_error
from hermes.core.events import Event
from hermes.core.events.operations import ChannelClosed, ChannelOpened
from hermes.core.foreign_text import visible_line
from hermes.core.incident import WATCH_RUN
from hermes.gateway.chat_transport import ChatTransport
from hermes.gateway.manifest import ConfiguredChannel
from hermes.gateway.outbox import Outbox

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 300.0
"""Between the end of a connection and the next one; doubled with each failure in a row."""
STABLE_S = 60.0
"""A connection that lasted longer than this counts as a success."""
FAILURES_BEFORE_REPORT = 3
FINAL_WRITE_TIMEOUT_S = 2.0
OUTBOX_FOLDER_NAME = "outbox"

Listen = Callable[[Channel], Awaitable[None]]
"""Receives from the channel until its connection ends."""


class ChannelTask:
    """Serves one configured channel. Without `listen` it only sends."""

    def __init__(
        self,
        configured: ConfiguredChannel,
        outbox: Outbox,
        bus: Bus,
        home: Path,
        *,
        listen: Listen | None = None,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._configured, self._outbox, self._bus, self._home = configured, outbox, bus, home
        self._listen, self._first_pause_s = listen, first_pause_s
        self._failures = 0

    async def run(self) -> None:
        """Receive until cancelled, or until the channel fails in a way that only a person can
        correct."""
        name = self._configured.name
        while True:
            began = anyio.current_time()
            failed = await self._serve()
            if anyio.current_time() - began > STABLE_S:
                self._failures = 0
            pause = min(self._first_pause_s * 2**self._failures, MAX_PAUSE_S)
            self._failures += 1
            ends = failed.permanent
            await self._record(
                ChannelClosed(
                    run=WATCH_RUN,
                    channel=name,
                    by=process_name(),
                    error=visible_line(str(failed), 300),
                    again_in=0.0 if ends else pause,
                )
            )
            if ends or self._failures == FAILURES_BEFORE_REPORT:
                then = "a person must correct this" if ends else "it is opened again and again"
                text = f"why: {visible_line(str(failed), 300)}\nnow: {then}"
                await self._record(self._outbox.failure_report(name, name, text))
            if ends:
                return
            await anyio.sleep(pause)

    async def _serve(self) -> ChannelFailed:
        """Returns why it ended."""
        try:
            async with self._opened() as channel:
                if self._listen is None:
                    await anyio.sleep_forever()
                else:
                    await self._listen(channel)
        except ChannelFailed as error:
            return error
        except SettingsError as error:
            return ChannelFailed(str(error), permanent=True)
        except Exception as error:  # noqa: BLE001 - a channel takes no other one along
            inner = innermost_error(error)
            if isinstance(inner, ChannelFailed):
                return inner
            return ChannelFailed(f"{type(inner).__name__}: {inner}")
        return ChannelFailed("the connection ended")

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Channel, None]:
        configured = self._configured
        manifest = configured.load(self._home)
        async with manifest(configured.settings, configured.secrets) as channel:
            transport = ChatTransport(
                channel,
                manifest.limits,
                home=configured.settings.home_chat,
                folder=self._home / OUTBOX_FOLDER_NAME,
            )
            listens = self._listen is not None
            event = ChannelOpened(
                run=WATCH_RUN, channel=configured.name, by=process_name(), listens=listens
            )
            await self._record(event)
            try:
                async with self._outbox.serving(transport):
                    yield channel
            except anyio.get_cancelled_exc_class():
                closed = ChannelClosed(run=WATCH_RUN, channel=configured.name, by=process_name())
                with anyio.move_on_after(FINAL_WRITE_TIMEOUT_S, shield=True):
                    await self._record(closed)
                raise

    async def _record(self, event: Event) -> None:
        with suppress(StoreError):  # it is shown by `hermes channels`, and nothing depends on it
            await self._bus.publish(event)


def process_name() -> str:
    """This process, for people: `4711@host`."""
    return f"{os.getpid()}@{platform.node()}"
