"""A channel that fails is opened again, with growing pauses, and takes nobody along."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import anyio
import pytest
from listed_channel import ListedChannel

from hermes.core.bus import Bus
from hermes.core.channels import Channel, InboundMessage
from hermes.core.errors import ChannelFailed
from hermes.core.events.operations import ChannelClosed, ChannelOpened, NotificationQueued
from hermes.gateway.channel_task import ChannelTask
from hermes.gateway.manifest import ConfiguredChannel
from hermes.gateway.outbox import Outbox
from hermes.gateway.settings import TelegramSettings
from hermes.gateway.transports import SinkTransport
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.settings import NoticeSettings

pytestmark = pytest.mark.anyio

PLUGIN = """
from hermes.gateway.manifest import ChannelManifest
from hermes.gateway.settings import TelegramSettings

ENTRY_POINTS = {{"hermes.channels": {{"flaky": ChannelManifest(
    name="flaky", title="Flaky", settings=TelegramSettings, runtime="{module}:open_flaky"
)}}}}
"""


class FlakyChannel(ListedChannel):
    """Its connection ends as `failures` say, one after the other; then it stays."""

    failures: list[Exception] = []
    opened = 0

    async def __aenter__(self) -> Self:
        type(self).opened += 1
        if self.failures and isinstance(self.failures[0], ConnectionError):
            raise self.failures.pop(0)
        return self

    async def listen(self) -> AsyncIterator[InboundMessage]:
        if self.failures:
            raise self.failures.pop(0)
        await anyio.sleep_forever()
        for message in ():
            yield message


def open_flaky(settings: TelegramSettings, secrets: dict[str, str]) -> FlakyChannel:
    return FlakyChannel("flaky")


async def listen(channel: Channel) -> None:
    async for _ in channel.listen():
        pass


@pytest.fixture
def home(tmp_path: Path) -> Path:
    plugins = tmp_path / "plugins"
    plugins.mkdir(mode=0o700)
    tmp_path.chmod(0o700)
    (plugins / "flaky.py").write_text(PLUGIN.format(module=__name__))
    (plugins / "flaky.py").chmod(0o600)
    FlakyChannel.failures, FlakyChannel.opened = [], 0
    return tmp_path


@asynccontextmanager
async def serving(home: Path, journal: InMemoryJournal) -> AsyncIterator[None]:
    bus, kept = Bus(journal), ListedSink()
    outbox = Outbox(bus, [SinkTransport(kept)], NoticeSettings())
    configured = ConfiguredChannel(name="flaky", settings=TelegramSettings(home_channel="1"))
    async with anyio.create_task_group() as group:
        with anyio.fail_after(120):
            await group.start(outbox.run)
            task = ChannelTask(configured, outbox, bus, home, listen=listen, first_pause_s=0.01)
            group.start_soon(task.run)
            yield
        group.cancel_scope.cancel()


class ListedSink:
    name = "kept"

    async def send(self, notice: NotificationQueued, repeated: bool) -> None:
        return


def has(journal: InMemoryJournal, kind: type) -> bool:
    return any(isinstance(event, kind) for event in journal.events)


async def until(journal: InMemoryJournal, holds: Callable[[], bool]) -> None:
    while not holds():
        await journal.changed(await journal.last())


async def test_it_is_opened_again_after_growing_pauses(home: Path) -> None:
    journal = InMemoryJournal()
    FlakyChannel.failures = [
        ConnectionError("refused"),
        ChannelFailed("the socket ended"),
        ZeroDivisionError("a bug"),
    ]
    async with serving(home, journal):
        await until(journal, lambda: FlakyChannel.opened == 4 and not FlakyChannel.failures)
        await until(journal, lambda: isinstance(journal.events[-1], ChannelOpened))
    closed = [event for event in journal.events if isinstance(event, ChannelClosed)]
    assert [event.error for event in closed] == [
        "ConnectionError: refused",
        "the socket ended",
        "ZeroDivisionError: a bug",
        "",
    ]
    assert [event.again_in for event in closed] == [0.01, 0.02, 0.04, 0.0]
    (report,) = [event for event in journal.events if isinstance(event, NotificationQueued)]
    assert report.title == "📪 flaky cannot be reached"
    assert report.sinks == ("kept",)


async def test_what_only_a_person_can_correct_is_reported_and_not_tried_again(home: Path) -> None:
    journal = InMemoryJournal()
    FlakyChannel.failures = [ChannelFailed("the token is wrong", permanent=True)]
    async with serving(home, journal):
        await until(journal, lambda: has(journal, NotificationQueued))
    assert FlakyChannel.opened == 1
    (closed,) = [event for event in journal.events if isinstance(event, ChannelClosed)]
    assert (closed.error, closed.again_in) == ("the token is wrong", 0.0)
