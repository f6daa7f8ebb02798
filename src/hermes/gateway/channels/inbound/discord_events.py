"""Reads what Discord delivers into messages: messages, replies, forwards and presses."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from hermes.core.channels import Address, AttachedText, InboundMessage, MediaItem

PERSONS_TYPES = frozenset({0, 19})
"""A message and a reply; others are about the channel, or commands."""
FORWARD = 1
SPOKEN_FLAG = 1 << 13
COMPONENT_PRESS = 3
STICKER_URL = "https://cdn.discordapp.com/stickers/{id}.png"
_MENTION = re.compile(r"<@!?(\d+)>")


class DiscordIdentity(NamedTuple):
    """Who we are: the name of the channel, and the id of the bot."""

    channel: str
    user: str


def read_message(
    data: Mapping[str, Any], address: Address, identity: DiscordIdentity, *, edited: bool = False
) -> InboundMessage | None:
    """Return None when it is not from a person, or has nothing that can be read."""
    author = data.get("author", {})
    if not author.get("id") or author.get("bot") or data.get("webhook_id"):
        return None
    if data.get("type", 0) not in PERSONS_TYPES or (edited and not data.get("edited_timestamp")):
        return None
    attached, media = tuple(_attached(data)), tuple(_media(data))
    content = str(data.get("content", ""))
    if not (content or attached or media):
        return None
    edited_at = str(data.get("edited_timestamp") or "") if edited else ""
    reference = data.get("message_reference") or {}
    return InboundMessage(
        key=":".join(filter(None, (str(data["id"]), edited_at))),
        address=address,
        sender=str(author["id"]),
        sender_name=str(author.get("global_name") or author.get("username", "")),
        text=_plain_text(content, data, identity),
        attached=attached,
        media=media,
        reference=str(data["id"]),
        quoted="" if reference.get("type") == FORWARD else str(reference.get("message_id", "")),
        direct="guild_id" not in data,
        mentioned=_is_mentioned(data, identity),
        edited=edited,
        voice=bool(int(data.get("flags", 0)) & SPOKEN_FLAG),
        sent_at=_time(edited_at or str(data.get("timestamp", ""))),
    )


def read_press(
    data: Mapping[str, Any], address: Address, identity: DiscordIdentity
) -> InboundMessage | None:
    pressed = data.get("data", {}).get("custom_id", "")
    user = data.get("member", {}).get("user") or data.get("user") or {}
    if data.get("type") != COMPONENT_PRESS or not (pressed and user.get("id")):
        return None
    return InboundMessage(
        key=str(data["id"]),
        address=address,
        sender=str(user["id"]),
        sender_name=str(user.get("global_name") or user.get("username", "")),
        reference=str(data.get("message", {}).get("id", "")),
        pressed=pressed,
        press=str(data["id"]),
        direct="guild_id" not in data,
        mentioned=True,
    )


def _is_mentioned(data: Mapping[str, Any], identity: DiscordIdentity) -> bool:
    answered = data.get("referenced_message") or {}
    return answered.get("author", {}).get("id") == identity.user or any(
        each.get("id") == identity.user for each in data.get("mentions", [])
    )


def _plain_text(content: str, data: Mapping[str, Any], identity: DiscordIdentity) -> str:
    """Mentions with their names, without ours at the beginning."""
    names = {each.get("id"): each.get("username", "") for each in data.get("mentions", [])}
    first = _MENTION.match(content.strip())
    if first is not None and first[1] == identity.user:
        content = content.strip()[first.end() :].strip()
    return _MENTION.sub(lambda found: f"@{names.get(found[1]) or found[1]}", content)


def _attached(data: Mapping[str, Any]) -> list[AttachedText]:
    found = []
    for each in data.get("message_snapshots", []):
        if words := each.get("message", {}).get("content"):
            found.append(AttachedText("forward", words))
    answered = data.get("referenced_message") or {}
    if words := answered.get("content"):
        found.append(AttachedText("quote", words, answered.get("author", {}).get("username", "")))
    for each in data.get("embeds", []):
        if words := each.get("description"):
            found.append(AttachedText("link", words, each.get("author", {}).get("name", "")))
    return found


def _media(data: Mapping[str, Any]) -> list[MediaItem]:
    found = []
    for each in data.get("attachments", []):
        major = str(each.get("content_type", "")).partition("/")[0]
        found.append(
            MediaItem(
                kind="image" if major == "image" else "audio" if major == "audio" else "file",
                reference=str(each["url"]),
                name=str(each.get("filename", "")),
                size=int(each.get("size", 0)),
            )
        )
    for each in data.get("sticker_items", []):
        url = STICKER_URL.format(id=each["id"])
        description = f"{each.get('name', '')} {each['id']}"
        found.append(MediaItem(kind="sticker", reference=url, description=description))
    return found


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
