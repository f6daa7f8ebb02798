"""A received message as a conversation gets it, and as a hint for the incident of its thread."""

from dataclasses import dataclass

from hermes.app.chats.context import ChatContext
from hermes.app.chats.media import MessageParts
from hermes.core.errors import HermesError
from hermes.core.events import Event
from hermes.core.events.chats import ChatReceived, message_key
from hermes.core.messages import AttachedText, Picture
from hermes.core.protocols import Journal
from hermes.gateway.inbox import speaker_label


@dataclass(frozen=True)
class PreparedMessage:
    key: str
    person: str
    text: str
    attached: tuple[AttachedText, ...] = ()
    pictures: tuple[Picture, ...] = ()


class MessagePreparation:
    """Prepares the messages of one session."""

    def __init__(self, context: ChatContext, run: str, to: str) -> None:
        self._context, self._run, self._to = context, run, to

    async def hear(self, event: ChatReceived) -> MessageParts | None:
        """A voice message in words that the person has seen; None: they got the reason."""
        voice, parts = self._context.voice, await self.read_parts(event)
        if parts.heard:
            refused = await voice.show_heard(event, self._to, parts.heard)
        elif parts.text or parts.attached:
            return parts
        else:
            refused = voice.refuse_unheard(event, self._to, parts.unheard)
        if refused is not None:
            await self._context.publish(*refused)
            return None
        if not event.message.forwarded:
            journal = self._context.application.journal
            await self._context.publish(*await make_hints(journal, event, parts.heard))
        return parts

    async def read_parts(self, event: ChatReceived) -> MessageParts:
        channel = self._context.channels.get(event.message.address.channel)
        return await self._context.media.prepare(event, channel, self._keep_picture)

    async def prepare(self, event: ChatReceived, parts: MessageParts) -> PreparedMessage:
        """Adds who speaks, where several people do, and the state of the incident it is about."""
        text, attached = parts.text, parts.attached
        if not event.message.direct and text:
            text = f"{speaker_label(event.person, event.message.sender_name)}: {text}"
        if event.incident:
            from hermes.app.chats.incident_threads import attach_incident

            journal = self._context.application.journal
            attached = (*attached, *await attach_incident(journal, event.incident, event.person))
        return PreparedMessage(
            message_key(event.message), event.person, text, attached, parts.pictures
        )

    async def _keep_picture(self, data: bytes, alt: str) -> Picture:
        from hermes.tools.picture_storage import store_picture

        artifacts = self._context.application.agent_dependencies.artifacts
        return await store_picture(artifacts, self._run, "photo", data, alt)


async def make_hints(journal: Journal, event: ChatReceived, text: str) -> list[Event]:
    """What a person said in the thread of an incident, kept with it; besides the turn it gets."""
    if not event.incident or not text.strip():
        return []
    from hermes.app.incidents.actions import make_hint

    try:
        return [await make_hint(journal, event.incident, text, person=event.person)]
    except HermesError:
        return []  # the incident is not in this journal any more
