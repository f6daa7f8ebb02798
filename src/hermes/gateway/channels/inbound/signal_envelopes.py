"""Reads what signal-cli delivers into messages: texts, edits, quotes and files.

A chat is the uuid of a person, or `group.` and the id of a group. The reference of a message is
its timestamp, and for messages of others a full stop and the uuid of the author.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from hermes.core.channels import Address, AttachedText, InboundMessage, MediaItem

GROUP_PREFIX = "group."


class SignalIdentity(NamedTuple):
    """Who we are: the name of the channel, the number of the account, its uuid where known."""

    channel: str
    number: str
    uuid: str

    def is_us(self, person: Mapping[str, Any], prefix: str = "") -> bool:
        """`prefix`: `author` for the fields of a quote."""
        uuid = person.get(f"{prefix}Uuid" if prefix else "uuid")
        number = person.get(f"{prefix}Number" if prefix else "number")
        return bool(uuid and uuid == self.uuid) or bool(number and number == self.number)


def read_envelope(envelope: Mapping[str, Any], identity: SignalIdentity) -> InboundMessage | None:
    """Return None for a receipt, a reaction, something of our own, or nothing that can be read."""
    edit = envelope.get("editMessage") or {}
    data = edit.get("dataMessage") or envelope.get("dataMessage") or {}
    sender = envelope.get("sourceUuid") or ""
    if not data or not sender or sender == identity.uuid:
        return None
    media = tuple(_media(data, sender))
    text, mentioned = _plain_text(data, identity)
    if not (text or media):
        return None
    quote = data.get("quote") or {}
    own_quote = bool(quote) and identity.is_us(quote, "author")
    written_at = int(edit.get("targetSentTimestamp") or data["timestamp"])
    group = (data.get("groupInfo") or {}).get("groupId", "")
    return InboundMessage(
        key=f"{sender}:{data['timestamp']}",
        address=Address(identity.channel, f"{GROUP_PREFIX}{group}" if group else sender),
        sender=sender,
        sender_name=envelope.get("sourceName") or "",
        text=text,
        attached=_attached(quote),
        media=media,
        reference=f"{written_at}.{sender}",
        quoted=_quoted(quote, own=own_quote),
        direct=not group,
        mentioned=mentioned or own_quote,
        edited=bool(edit),
        voice=any(each.kind == "audio" and not each.name for each in media),
        sent_at=datetime.fromtimestamp(int(data["timestamp"]) / 1000, UTC),
    )


def _plain_text(data: Mapping[str, Any], identity: SignalIdentity) -> tuple[str, bool]:
    """The text with names for mentions, and whether one of them is ours."""
    text, ours = str(data.get("message") or ""), False
    encoded = text.encode("utf-16-le")  # Signal counts in UTF-16
    mentions = sorted(data.get("mentions") or [], key=lambda each: int(each["start"]), reverse=True)
    for each in mentions:
        start, end = 2 * int(each["start"]), 2 * (int(each["start"]) + int(each["length"]))
        is_us = identity.is_us(each)
        ours = ours or is_us
        name = "" if is_us and start == 0 else f"@{each.get('name') or each.get('uuid', '')}"
        encoded = encoded[:start] + name.encode("utf-16-le") + encoded[end:]
    text = encoded.decode("utf-16-le", "replace")
    return (text.strip() if mentions else text), ours


def _attached(quote: Mapping[str, Any]) -> tuple[AttachedText, ...]:
    words = quote.get("text")
    return (AttachedText("quote", words, str(quote.get("authorUuid") or "")),) if words else ()


def _quoted(quote: Mapping[str, Any], *, own: bool) -> str:
    if not quote:
        return ""
    return str(quote["id"]) if own else f"{quote['id']}.{quote.get('authorUuid') or ''}"


def _media(data: Mapping[str, Any], sender: str) -> list[MediaItem]:
    group = (data.get("groupInfo") or {}).get("groupId", "")
    chat = f"{GROUP_PREFIX}{group}" if group else sender
    found = []
    for each in data.get("attachments") or []:
        major = str(each.get("contentType", "")).partition("/")[0]
        found.append(
            MediaItem(
                kind="image" if major == "image" else "audio" if major == "audio" else "file",
                reference=f"{each['id']} {chat}",
                name=str(each.get("filename") or ""),
                size=int(each.get("size") or 0),
            )
        )
    if sticker := data.get("sticker"):
        words = f"sticker {sticker.get('packId', '')}:{sticker.get('stickerId', '')}"
        found.append(MediaItem(kind="sticker", reference=words, description=words))
    return found
