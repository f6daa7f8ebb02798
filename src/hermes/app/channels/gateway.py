"""The gateway: conversations with people through the chat channels that are configured.

It runs alone (`hermes gateway run`) or as a part of another process. Nothing of a channel is
imported before it is configured.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from hermes.app.application import Application, open_application
from hermes.app.channels.loading import start_channels, usable_channels
from hermes.app.chats.context import ChatContext
from hermes.app.chats.media import ChatMedia
from hermes.app.chats.service import ChatService
from hermes.app.chats.sessions import ChatSessions, TurnLimits
from hermes.app.chats.unheard import UnheardMessages
from hermes.app.chats.voice import ChatVoice
from hermes.app.people import PAIRING_FOLDER
from hermes.app.run_locks import RunLocked, lock_run
from hermes.app.tools.tooling import DELEGATE_TOOL
from hermes.core.channels import Channel, InboundMessage, ReceivesWebhooks
from hermes.core.errors import SettingsError
from hermes.core.events.operations import GatewayStarted
from hermes.gateway.channel_task import process_name
from hermes.gateway.channels.inbound.delivery_folder import delivery_folder
from hermes.gateway.manifest import ConfiguredChannel
from hermes.gateway.outbox import Outbox
from hermes.gateway.pairing import PairingCodes
from hermes.gateway.settings import ChannelSettings
from hermes.gateway.transports import SinkTransport
from hermes.settings.load import LoadedSettings

Report = Callable[[str], object]
GATEWAY_RUN = "gateway"
CHANNEL_LOCK_PREFIX = "channel-"
FINAL_DELIVERY_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class GatewayParts:
    """The parts of a process that serve its chats."""

    outbox: Outbox
    chats: ChatService
    context: ChatContext


def chat_folder(loaded: LoadedSettings) -> Path:
    """The folder in which sessions of chats begin."""
    chosen = loaded.settings.channels.talk.cwd
    return Path(chosen).expanduser() if chosen else Path.home()


def chat_toolsets(loaded: LoadedSettings) -> dict[str, tuple[str, ...]]:
    """Return the toolsets of chats by channel; those of all other channels have an empty key."""
    channels = loaded.settings.channels
    sections = {name: getattr(channels, name) for name in channels.__struct_fields__}
    own = {
        name: section.toolsets
        for name, section in sections.items()
        if isinstance(section, ChannelSettings) and section.toolsets
    }
    # People ask chats for reminders, and speak.
    return {"": (*loaded.settings.tools.toolsets, "schedule", "speech"), **own}


def _restrict_channels(application: Application) -> dict[str, Application]:
    """By channel, where any channel has toolsets of its own, the application with its tools alone.
    Raises `SettingsError` for a toolset that does not exist."""
    toolsets = chat_toolsets(application.loaded)
    if len(toolsets) == 1:
        return {}
    found = {}
    for name in application.loaded.settings.channels.__struct_fields__:
        try:
            found[name] = _with_toolsets(application, toolsets.get(name, toolsets[""]))
        except SettingsError as error:
            raise SettingsError(f"channels.{name}.toolsets: {error}") from error
    return found


def _with_toolsets(application: Application, toolsets: Sequence[str]) -> Application:
    names = application.tooling.catalogue.names_in(toolsets)
    dependencies = application.agent_dependencies
    settings = dependencies.settings
    if DELEGATE_TOOL not in names:
        settings = replace(settings, max_depth=0)
    executor = dependencies.executor.with_only(names)
    dependencies = dataclasses.replace(dependencies, executor=executor, settings=settings)
    return dataclasses.replace(application, agent_dependencies=dependencies)


def open_gateway_parts(application: Application, outbox: Outbox | None = None) -> GatewayParts:
    """`outbox` is that of the process, if it has one already."""
    loaded = application.loaded
    talk = loaded.settings.channels.talk
    voice = ChatVoice(application)
    context = ChatContext(
        application=application,
        sessions=ChatSessions(talk),
        settings=talk,
        folder=chat_folder(loaded),
        limits=TurnLimits(talk.max_turns_per_person, talk.max_turns),
        media=ChatMedia(loaded.home, talk, voice.transcribe),
        voice=voice,
        restricted=_restrict_channels(application),
    )
    if outbox is None:
        webhooks: list[SinkTransport] = []
        if loaded.settings.hooks.webhooks:
            from hermes.app.hooks.webhooks import open_event_webhooks

            webhooks = open_event_webhooks(loaded)
        outbox = Outbox(application.bus, webhooks, loaded.settings.sre.notices)
    codes = PairingCodes(loaded.home / PAIRING_FOLDER)

    async def offer_pairing(message: InboundMessage) -> str:
        offer = partial(
            codes.offer, message.address.channel, message.sender, shown=message.sender_name
        )
        return (await to_thread.run_sync(offer)).text

    unheard = UnheardMessages(context, offer_pairing)
    chats = ChatService(context, unheard, outbox)
    return GatewayParts(outbox, chats, context)


async def serve_channel(parts: GatewayParts, channel: Channel, settings: ChannelSettings) -> None:
    """Receive from a connected channel until its connection ends."""
    parts.context.channels[channel.name] = channel
    if isinstance(channel, ReceivesWebhooks):
        home = parts.context.application.loaded.home
        channel.receive_from(delivery_folder(home, channel.name))
    try:
        await parts.chats.listen(channel, settings)
    finally:
        if parts.context.channels.get(channel.name) is channel:
            del parts.context.channels[channel.name]


async def keep_gateway(loaded: LoadedSettings, model: str, report: Report) -> None:
    """Serve the configured channels until it is cancelled.

    Where none is configured, or the settings are wrong, the reason is reported and it returns.
    """
    try:
        channels = usable_channels(loaded, report)
        if not channels:
            report("no chat channel is configured: hermes channels list shows what is needed")
            return
        await _run_gateway(_with_waiting(loaded), model, channels, report)
    except SettingsError as error:
        report(f"the gateway does not run: {error}")


def _with_waiting(loaded: LoadedSettings) -> LoadedSettings:
    """People are reached through the chats, so a question waits for its answer."""
    return loaded.with_sections(policy=replace(loaded.settings.policy, wait=True))


async def _run_gateway(
    loaded: LoadedSettings, model: str, channels: dict[str, ConfiguredChannel], report: Report
) -> None:
    folder = chat_folder(loaded)
    if not folder.is_dir():
        raise SettingsError(
            f"the folder of chats {folder} is not there: make it, or set MESSAGING_CWD"
        )
    async with open_application(
        loaded,
        origin="chat",
        model=model,
        directory=folder,
        toolsets=tuple(dict.fromkeys(chain.from_iterable(chat_toolsets(loaded).values()))),
    ) as application:
        claimed = await claim_channels(application, channels, report)
        if claimed:
            await _serve_until_cancelled(open_gateway_parts(application), claimed, report)


async def _serve_until_cancelled(
    parts: GatewayParts, channels: dict[str, ConfiguredChannel], report: Report
) -> None:
    """When it is cancelled, running turns have some time to end and to be delivered."""
    async with anyio.create_task_group() as group:
        scope = await group.start(_serve, parts, channels)
        group.start_soon(parts.context.application.keep_hooks)
        group.start_soon(parts.context.application.keep_traces, report)
        started = GatewayStarted(
            run=GATEWAY_RUN, channels=tuple(sorted(channels)), by=process_name()
        )
        await parts.context.application.bus.publish(started)
        report(f"listening: {', '.join(sorted(channels))}")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await parts.chats.finish()
                with anyio.move_on_after(FINAL_DELIVERY_TIMEOUT_S):
                    await parts.outbox.wait_until_delivered()
            scope.cancel()


async def _serve(
    parts: GatewayParts,
    channels: dict[str, ConfiguredChannel],
    *,
    task_status: TaskStatus[anyio.CancelScope],
) -> None:
    with anyio.CancelScope(shield=True) as scope:
        async with anyio.create_task_group() as group:
            await group.start(parts.outbox.run)
            await group.start(parts.chats.run)
            await start_chat_channels(group, parts, channels)
            task_status.started(scope)


async def start_chat_channels(
    group: TaskGroup, parts: GatewayParts, channels: dict[str, ConfiguredChannel]
) -> None:
    async def listen(channel: Channel) -> None:
        await serve_channel(parts, channel, channels[channel.name].settings)

    await start_channels(group, parts.context.application, parts.outbox, channels, listen=listen)


async def claim_channels(
    application: Application, channels: dict[str, ConfiguredChannel], report: Report
) -> dict[str, ConfiguredChannel]:
    """Claim the channels that no other process receives from: two processes would take each other's
    messages."""
    claimed = {}
    for name, each in channels.items():
        try:
            lock = f"{CHANNEL_LOCK_PREFIX}{name}"
            await lock_run(lock, application.run_locks, application.journal)
        except RunLocked as error:
            report(f"{name} is not received here: {error}")
        else:
            claimed[name] = each
    return claimed
