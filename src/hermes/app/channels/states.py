"""Reports for `hermes channels` and `hermes status` which channels work, and what waits for
them."""

import os
import platform
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Literal

from hermes.core.channels import Address
from hermes.core.errors import SettingsError
from hermes.core.events.operations import ChannelClosed, ChannelOpened
from hermes.core.messages import Value
from hermes.core.plugins import BUILT_IN, plugin_names
from hermes.core.protocols import Journal
from hermes.gateway.delivery_state import (
    DELIVERY_HISTORY,
    WaitingDestination,
    read_deliveries,
    untried_destinations,
)
from hermes.gateway.manifest import CHANNEL_GROUP, configured_channels
from hermes.gateway.settings import ChannelSettings
from hermes.settings.load import LoadedSettings

MIN_WAIT = timedelta(seconds=60)
"""A message without a try to deliver it for longer than this waits for a process."""
CHANNEL_KINDS = ("channel.opened", "channel.closed")
ChannelStatus = Literal["not configured", "incomplete", "idle", "open", "failed"]


class ChannelState(Value, kw_only=True, frozen=True):
    """The state of one chat channel or sink."""

    name: str
    kind: Literal["chat", "sink"] = "chat"
    status: ChannelStatus = "not configured"
    """`idle`: configured, and no running process serves it."""
    listens: bool = False
    home: str = ""
    """The chat for notifications."""
    detail: str = ""
    """What is missing, why it failed, or which process serves it."""
    since: datetime | None = None
    waiting: int = 0
    """Messages without a try to deliver them in the last minute."""


class ServedChannels:
    """Tells which processes serve which channel, by the events that they wrote."""

    def __init__(self) -> None:
        self._opened: dict[tuple[str, str], ChannelOpened] = {}
        self._closed: dict[str, ChannelClosed] = {}

    def apply(self, event: object) -> None:
        match event:
            case ChannelOpened():
                self._opened[event.channel, event.by] = event
                self._closed.pop(event.channel, None)
            case ChannelClosed():
                self._opened.pop((event.channel, event.by), None)
                self._closed[event.channel] = event
            case _:
                pass

    def state(self, base: ChannelState) -> ChannelState:
        opened = [
            event
            for (channel, by), event in self._opened.items()
            if channel == base.name and _may_run(by)
        ]
        fields = {name: getattr(base, name) for name in base.__struct_fields__}
        if opened:
            listening = [event for event in opened if event.listens]
            shown = (listening or opened)[0]
            fields |= {"status": "open", "listens": bool(listening)}
            fields |= {"detail": f"process {shown.by}", "since": shown.at}
        elif (closed := self._closed.get(base.name)) is not None and closed.error:
            fields |= {"status": "failed", "detail": closed.error, "since": closed.at}
        return ChannelState(**fields)


async def read_channel_states(
    loaded: LoadedSettings, journal: Journal | None, now: datetime
) -> list[ChannelState]:
    """All chat channels, and the sinks. Without a journal: what the settings say."""
    served, waiting = ServedChannels(), list[WaitingDestination]()
    if journal is not None:
        since = now - DELIVERY_HISTORY
        async for recorded in journal.read(kinds=CHANNEL_KINDS, since=since):
            served.apply(recorded.event)
        waiting = list(untried_destinations(await read_deliveries(journal, now), now - MIN_WAIT))
    counts: dict[str, int] = {}
    sinks = _sink_names(loaded)
    for each in waiting:
        known = each.destination in sinks
        channel = each.destination if known else Address.parse(each.destination).channel
        counts[channel] = counts.get(channel, 0) + each.count
    found = [_with_count(served.state(each), counts) for each in _chat_states(loaded)]
    found += [
        _with_count(ChannelState(name=name, kind="sink", status="idle"), counts) for name in sinks
    ]
    return found + [
        ChannelState(name=name, detail="no channel has this name", waiting=count)
        for name, count in sorted(counts.items())
    ]


def _with_count(state: ChannelState, counts: dict[str, int]) -> ChannelState:
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    return ChannelState(**(fields | {"waiting": counts.pop(state.name, 0)}))


def _chat_states(loaded: LoadedSettings) -> list[ChannelState]:
    configured = configured_channels(loaded.settings.channels, loaded.secrets.get)
    names = {*BUILT_IN[CHANNEL_GROUP], *configured}
    with suppress(SettingsError):
        names |= set(plugin_names(CHANNEL_GROUP, loaded.home))
    found = []
    for name in sorted(names):
        section = getattr(loaded.settings.channels, name, None)
        each = configured.get(name)
        if each is None:
            detail = _needs_text(name, section)
            if section is not None and not section.enabled:
                detail = "switched off"
            found.append(ChannelState(name=name, detail=detail))
        elif each.missing:
            detail = f"{', '.join(each.missing)} is missing"
            found.append(ChannelState(name=name, status="incomplete", detail=detail))
        else:
            home = each.settings.home_chat
            detail = "no running process serves it"
            found.append(ChannelState(name=name, status="idle", home=home, detail=detail))
    return found


def _needs_text(name: str, section: ChannelSettings | None) -> str:
    if section is None:
        return ""
    keys = [f"channels.{name}.{key}" for key in section.needed_keys]
    needed = ", ".join([*section.secret_names, *keys])
    return f"needs {needed}" if needed else ""


def _sink_names(loaded: LoadedSettings) -> list[str]:
    notices = loaded.settings.sre.notices
    names = ["log"] if notices.log else []
    names += [each.name or each.kind for each in notices.sinks]
    if loaded.settings.hooks.webhooks:
        from hermes.app.hooks.webhooks import event_webhooks

        names += event_webhooks(loaded)
    return names


def _may_run(process: str) -> bool:
    """Return whether a process `4711@host` may still run; on another host it cannot be known."""
    number, _, host = process.partition("@")
    if host != platform.node() or not number.isdigit():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
