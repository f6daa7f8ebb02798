"""Voice messages of chats: what was understood is shown before it counts, and answers are spoken
where a chat asks for it.

Engines are loaded with the first recording.
"""

from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from hermes.app.application import Application
from hermes.app.chats.replies import mark_handled, queue_text
from hermes.core.errors import HermesError
from hermes.core.events import Event
from hermes.core.events.chats import ChatOutcome, ChatReceived, message_key
from hermes.core.events.operations import NotificationSent
from hermes.gateway.answers import read_answer
from hermes.gateway.markdown import parse_markdown

if TYPE_CHECKING:
    from hermes.app.tools.speech import ApplicationSpeech
    from hermes.core.speech import SpokenText

SHOWN_TIMEOUT_S = 60.0
"""Seconds within which the transcript must have reached the chat."""
MAX_SPOKEN_CHARS = 1_500
HEARD_TEXT = "🎙 I heard: {text}"
NOT_SHOWN_TEXT = (
    "What I heard in your voice message could not be shown to you in time, so nothing was done "
    "with it; send it again."
)
NOT_HEARD_TEXT = "I could not turn your voice message into text, so nothing was done with it: {why}"


class ChatVoice:
    def __init__(self, application: Application) -> None:
        self._application = application
        self._opened: ApplicationSpeech | None = None

    async def transcribe(self, data: bytes) -> "SpokenText":
        """Raises `HermesError`."""
        return await self._speech().transcribe(data)

    async def show_heard(self, event: ChatReceived, to: str, heard: str) -> list[Event] | None:
        """Shows the person what was understood. None: it is shown, so it counts.

        Otherwise the events that say why it does not.
        """
        shown = queue_text(
            event.run, to, HEARD_TEXT.format(text=heard), reply_to=event.message.reference
        )
        refusal = read_answer(replace(event.message, text=heard, pressed=""), "")
        if refusal is not None:
            return [shown, *_refuse(event, to, f"Not counted: {refusal.problem}.", "press")]
        bus = self._application.bus
        ((number, _),) = await bus.record(shown)
        with anyio.move_on_after(SHOWN_TIMEOUT_S):
            async for recorded in bus.follow(after=number, kinds=("notice.sent",)):
                sent = recorded.event
                if isinstance(sent, NotificationSent) and sent.notice == shown.notice:
                    return None
        return _refuse(event, to, NOT_SHOWN_TEXT, "refused")

    def refuse_unheard(self, event: ChatReceived, to: str, why: str) -> list[Event]:
        return _refuse(event, to, NOT_HEARD_TEXT.format(why=why), "refused")

    async def speak_answer(self, text: str) -> tuple[str, str]:
        """The file of the spoken answer, or a line that says why there is none."""
        words = parse_markdown(text).text[:MAX_SPOKEN_CHARS].strip()
        if not words:
            return "", ""
        try:
            return str(await self._speech().speak(words)), ""
        except HermesError as error:
            return "", f"(no voice message: {error})"

    def _speech(self) -> "ApplicationSpeech":
        from hermes.app.tools.speech import ApplicationSpeech

        if self._opened is None:
            self._opened = ApplicationSpeech(self._application.loaded)
        return self._opened


def _refuse(event: ChatReceived, to: str, text: str, outcome: ChatOutcome) -> list[Event]:
    return [
        queue_text(event.run, to, text, reply_to=event.message.reference),
        mark_handled(event.run, (message_key(event.message),), outcome),
    ]
