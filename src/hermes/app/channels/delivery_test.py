"""Sends a test message through one channel, without the outbox."""

import time

from msgspec.structs import replace

from hermes.core.channels import Address
from hermes.core.errors import SettingsError
from hermes.core.events.operations import NotificationQueued
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.gateway.manifest import ConfiguredChannel, configured_channels
from hermes.gateway.sinks import open_sinks
from hermes.gateway.transports import SinkTransport, Transport, TransportRequest
from hermes.settings.load import LoadedSettings

TEST_TITLE = "👋 Test message of Hermes"
TEST_TEXT = "If you can read this, notifications arrive here."
TEST_TIMEOUT_S = 30.0


class TestedChannel(Value, frozen=True):
    """The answer of a channel to a test message."""

    __test__ = False

    to: Address
    reference: str = ""
    seconds: float = 0.0


async def send_test_message(loaded: LoadedSettings, to: Address) -> TestedChannel:
    """Raises `SettingsError` for a channel that is not configured, `ChannelFailed` and
    `DeliveryError` for one that does not work."""
    configured = configured_channels(loaded.settings.channels, loaded.secrets.get).get(to.channel)
    if configured is None:
        return await _deliver(_find_sink(loaded, to.channel), to)
    if configured.missing:
        missing = ", ".join(configured.missing)
        raise SettingsError(f"{to.channel} is not configured: {missing} is missing")
    return await _send_in_chat(loaded, configured, to)


async def _send_in_chat(
    loaded: LoadedSettings, configured: ConfiguredChannel, to: Address
) -> TestedChannel:
    from hermes.gateway.channel_task import OUTBOX_FOLDER_NAME
    from hermes.gateway.chat_transport import ChatTransport

    manifest, home = configured.load(loaded.home), configured.settings.home_chat
    async with manifest(configured.settings, configured.secrets) as channel:
        folder = loaded.home / OUTBOX_FOLDER_NAME
        transport = ChatTransport(channel, manifest.limits, home=home, folder=folder)
        return await _deliver(transport, replace(to, chat=to.chat or home))


async def _deliver(transport: Transport, to: Address) -> TestedChannel:
    notice = NotificationQueued(
        run="test",
        notice=new_id("test"),
        about="health",
        title=TEST_TITLE,
        text=TEST_TEXT,
        to=str(to),
    )
    began = time.monotonic()
    receipt = await transport.deliver(TransportRequest(notice, str(to)), TEST_TIMEOUT_S)
    return TestedChannel(to, receipt.reference, time.monotonic() - began)


def _find_sink(loaded: LoadedSettings, name: str) -> SinkTransport:
    sinks = open_sinks(
        loaded.settings.sre.notices, home=loaded.home, secret=loaded.secrets.get, write=None
    )
    for sink, _ in sinks:
        if sink.name == name:
            return SinkTransport(sink)
    names = ", ".join(sink.name for sink, _ in sinks)
    raise SettingsError(
        f"{name} is not configured; sinks: {names or 'none'}; `hermes channels` shows what each "
        "chat needs"
    )
