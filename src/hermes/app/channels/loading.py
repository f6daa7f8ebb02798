"""Chat channels in a process: which are configured, what their home chats get, and their tasks."""

from collections.abc import Callable, Mapping
from typing import get_args

from anyio.abc import TaskGroup

from hermes.app.application import Application
from hermes.core.events.operations import NotificationKind
from hermes.core.notifications import SinkFilter
from hermes.gateway.channel_task import ChannelTask, Listen
from hermes.gateway.manifest import ConfiguredChannel, configured_channels
from hermes.gateway.outbox import Outbox
from hermes.gateway.questions import QuestionNotifier
from hermes.settings.load import LoadedSettings

QUESTION_KIND: NotificationKind = "approval-needed"
CONVERSATION_KINDS = frozenset({"reply", "question", "result"})


def usable_channels(
    loaded: LoadedSettings, report: Callable[[str], object] | None = None
) -> dict[str, ConfiguredChannel]:
    """The channels that can be opened; what the others still need is passed to `report`."""
    found = configured_channels(loaded.settings.channels, loaded.secrets.get)
    for each in found.values():
        if each.missing and report is not None:
            report(f"{each.name} is not used: {', '.join(each.missing)} is missing")
    return {name: each for name, each in found.items() if not each.missing}


def home_chat_filters(channels: Mapping[str, ConfiguredChannel]) -> list[SinkFilter]:
    """Return which notifications of incidents the home chats get. `questions` asks for
    approvals."""
    kinds = [each for each in get_args(NotificationKind) if each not in CONVERSATION_KINDS]
    return [
        SinkFilter(
            sink=name,
            severity=each.settings.severity,
            about=tuple(kind for kind in (each.settings.about or kinds) if kind != QUESTION_KIND),
        )
        for name, each in channels.items()
        if each.settings.home_chat
    ]


async def start_channels(
    group: TaskGroup,
    application: Application,
    outbox: Outbox,
    channels: Mapping[str, ConfiguredChannel],
    *,
    listen: Listen | None = None,
) -> None:
    """Start a task for each channel, and one that asks for approvals there. Without `listen` the
    channels only send."""
    homes = [
        name
        for name, each in channels.items()
        if each.settings.home_chat
        and (not each.settings.about or QUESTION_KIND in each.settings.about)
    ]
    await group.start(QuestionNotifier(application.bus, homes).run)
    home = application.loaded.home
    for each in channels.values():
        task = ChannelTask(each, outbox, application.bus, home, listen=listen)
        group.start_soon(task.run)
