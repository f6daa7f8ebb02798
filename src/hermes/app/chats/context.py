"""What all sessions of a gateway share."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermes.app.application import Application
from hermes.app.chats.media import ChatMedia
from hermes.app.chats.sessions import ChatSessions, TurnLimits
from hermes.app.chats.voice import ChatVoice
from hermes.core.channels import Channel
from hermes.core.events import Event
from hermes.gateway.settings import TalkSettings

IDLE_CLOSE_S = 600.0
"""Seconds without a message after which a session gives back its environment and its run."""
MAX_OPEN_SESSIONS = 32
"""More are open only while all of them work: an open session holds memory and descriptors."""


@dataclass
class ChatContext:
    application: Application
    sessions: ChatSessions
    settings: TalkSettings
    folder: Path
    """Where sessions begin to work."""
    limits: TurnLimits
    media: ChatMedia
    voice: ChatVoice
    channels: dict[str, Channel] = field(default_factory=dict)
    """The channels that are connected now."""
    restricted: Mapping[str, Application] = field(default_factory=dict)
    """By channel: the application with the tools that chats there may use."""
    idle_close_s: float = IDLE_CLOSE_S
    max_open: int = MAX_OPEN_SESSIONS
    draw: random.Random = field(default_factory=random.Random)

    async def publish(self, *events: Event) -> None:
        """Record events, and apply them to the state of the sessions."""
        for _, event in await self.application.bus.record(*events):
            self.sessions.apply(event)
