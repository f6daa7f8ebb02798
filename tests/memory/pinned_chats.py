"""The stored form of the events of chats."""

from datetime import UTC, datetime

from hermes.core.channels import Address, InboundMessage, MediaItem
from hermes.core.events import Event
from hermes.core.events.chats import (
    ChatHandled,
    ChatReceived,
    ChatSessionEnded,
    ChatVoiceChosen,
)
from hermes.core.messages import AttachedText

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

PINNED_CHATS: list[tuple[Event, str]] = [
    (
        ChatReceived(
            run="r",
            at=AT,
            message=InboundMessage(
                key="77",
                address=Address("telegram", "-100", "42"),
                sender="123",
                sender_name="Ann",
                text="t",
                attached=(AttachedText("quote", "q", "bob"),),
                media=(MediaItem(kind="image", reference="f", name="n", size=1),),
                reference="5",
                quoted="4",
                mentioned=True,
            ),
            session="telegram:-100:42",
            to="telegram:-100:42",
            person="ann",
            incident="i",
        ),
        '{"kind":"chat.received",HEAD,"message":{"key":"77","address":{"channel":"telegram",'
        '"chat":"-100","thread":"42"},"sender":"123","sender_name":"Ann","text":"t",'
        '"attached":[{"source":"quote","text":"q","author":"bob"}],"media":[{"kind":"image",'
        '"reference":"f","name":"n","size":1}],"reference":"5","quoted":"4","mentioned":true},'
        '"session":"telegram:-100:42","to":"telegram:-100:42","person":"ann","incident":"i"}',
    ),
    (
        ChatHandled(run="r", at=AT, keys=("telegram:77",), outcome="command", turn=2, notice="n"),
        '{"kind":"chat.handled",HEAD,"keys":["telegram:77"],"outcome":"command","turn":2,'
        '"notice":"n"}',
    ),
    (
        ChatSessionEnded(run="r", at=AT, session="telegram:1", reason="idle", by="ann"),
        '{"kind":"chat.ended",HEAD,"session":"telegram:1","reason":"idle","by":"ann"}',
    ),
    (
        ChatVoiceChosen(run="r", at=AT, session="telegram:1", on=True, by="ann"),
        '{"kind":"chat.voice",HEAD,"session":"telegram:1","on":true,"by":"ann"}',
    ),
]
