"""Answers to messages that are not heard: of unknown people, and of those who write too fast.

Neither such a message nor a pairing code is recorded.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from hermes.app.chats.context import ChatContext
from hermes.core.channels import AnswersPresses, InboundMessage, OutgoingMessage
from hermes.core.errors import HermesError
from hermes.core.run_ids import new_id
from hermes.gateway.inbox import InboxDecision

FLOOD_TEXT = "That was too fast: {count} messages a minute are answered. The last one was not."
UNKNOWN_PRESS_TEXT = "I do not know you, so your press does not count."
OfferPairing = Callable[[InboundMessage], Awaitable[str]]
"""How an unknown person can be let in, as a text for them."""


class UnheardMessages:
    def __init__(self, context: ChatContext, offer_pairing: OfferPairing) -> None:
        self._context = context
        self._offer_pairing = offer_pairing

    async def answer(self, message: InboundMessage, decision: InboxDecision) -> None:
        channel = self._context.channels.get(message.address.channel)
        if not decision.tell or channel is None:
            return
        flood = FLOOD_TEXT.format(count=self._context.settings.max_messages_per_minute)
        too_fast = decision.verdict == "flood"
        with suppress(HermesError):
            if message.press and isinstance(channel, AnswersPresses):
                # Only the person who pressed: without an answer their client goes on waiting.
                text = flood if too_fast else UNKNOWN_PRESS_TEXT
                await channel.answer_press(message.press, text)
            elif text := flood if too_fast else await self._offer_pairing(message):
                await channel.send(
                    OutgoingMessage(key=new_id("note"), to=message.address, text=text)
                )
