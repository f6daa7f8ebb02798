"""Reads what the Cloud API of WhatsApp delivers to a webhook, after a check of its signature.

A chat is the number of a person, in digits. The reference of a message is its wamid.
"""

import hmac
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from hermes.core.channels import Address, AttachedText, InboundMessage, MediaItem

MediaKind = Literal["image", "audio", "file", "sticker"]
MEDIA_KINDS: dict[str, MediaKind] = {
    "image": "image",
    "audio": "audio",
    "video": "file",
    "document": "file",
    "sticker": "sticker",
}


class WhatsAppIdentity(NamedTuple):
    """Who we are: the name of the channel and the id of our number."""

    channel: str
    phone_number_id: str


def challenge_answer(query: Mapping[str, str], verify_token: str) -> str | None:
    """Return what the webhook answers when Meta asks whether it is ours. None: it refuses."""
    given = query.get("hub.verify_token", "")
    same = hmac.compare_digest(given.encode(), verify_token.encode())
    if query.get("hub.mode") != "subscribe" or not verify_token or not same:
        return None
    return query.get("hub.challenge", "")


def read_webhook(body: bytes, identity: WhatsAppIdentity) -> list[InboundMessage]:
    """Statuses and messages to other numbers are left out. Raises `ValueError`: not readable."""
    try:
        return list(_messages(msgspec.json.decode(body), identity))
    except (LookupError, TypeError, AttributeError, msgspec.DecodeError) as error:
        raise ValueError(f"not a webhook body of WhatsApp: {error!r}") from None


def _messages(payload: Any, identity: WhatsAppIdentity) -> Iterator[InboundMessage]:
    for entry in payload["entry"]:
        for change in entry["changes"]:
            value = change["value"]
            number = (value.get("metadata") or {}).get("phone_number_id")
            if change.get("field") != "messages" or number != identity.phone_number_id:
                continue
            names = {
                each["wa_id"]: (each.get("profile") or {}).get("name", "")
                for each in value.get("contacts") or []
            }
            for each in value.get("messages") or []:
                if (message := _message(each, names, identity)) is not None:
                    yield message


def _message(
    received: Mapping[str, Any], names: Mapping[str, str], identity: WhatsAppIdentity
) -> InboundMessage | None:
    kind, sender, id = received["type"], str(received["from"]), str(received["id"])
    context = received.get("context") or {}
    quoted, text = str(context.get("id") or ""), ""
    attached, media, pressed = tuple[AttachedText, ...](), tuple[MediaItem, ...](), ""
    if kind == "text":
        text = str(received["text"]["body"])
    elif kind == "interactive":
        pressed = str((received["interactive"].get("button_reply") or {}).get("id") or "")
    elif kind in MEDIA_KINDS:
        text, media = str(received[kind].get("caption") or ""), (_media(kind, received[kind]),)
    forwarded = bool(context.get("forwarded") or context.get("frequently_forwarded"))
    if text and forwarded:
        text, attached = "", (AttachedText("forward", text),)
    if not (text or attached or media or pressed):
        return None
    return InboundMessage(
        key=id,
        address=Address(identity.channel, sender),
        sender=sender,
        sender_name=names.get(sender, ""),
        text=text,
        attached=attached,
        media=media,
        reference=quoted if pressed else id,
        quoted="" if pressed else quoted,
        pressed=pressed,
        press=f"{sender} {id}" if pressed else "",
        direct=True,
        voice=kind == "audio" and bool(received["audio"].get("voice")),
        forwarded=forwarded,
        sent_at=datetime.fromtimestamp(int(received["timestamp"]), UTC),
    )


def _media(kind: str, file: Mapping[str, Any]) -> MediaItem:
    return MediaItem(
        kind=MEDIA_KINDS[kind], reference=str(file["id"]), name=str(file.get("filename") or "")
    )
