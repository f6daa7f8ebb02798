"""Reads what Slack delivers into messages: events of messages, files, shares and presses.

The key of a message is its channel and its timestamp, not the id of the event: Slack reports a
mention twice, as `message` and as `app_mention`.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from hermes.core.channels import Address, AttachedText, InboundMessage, MediaItem

PERSONS_SUBTYPES = frozenset({"", "file_share", "thread_broadcast", "me_message"})
"""Other subtypes are about the channel, or written by programs."""
_REFERENCE = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


class SlackIdentity(NamedTuple):
    """Who we are: the name of the channel, and the id of the bot as a user."""

    channel: str
    user: str


def read_payload(
    kind: str, payload: Mapping[str, Any], identity: SlackIdentity
) -> InboundMessage | None:
    """Return None when it is not from a person, or has nothing that can be read."""
    if kind == "interactive":
        return _read_press(payload, identity)
    event = payload.get("event", {})
    if kind != "events_api" or event.get("type") not in ("message", "app_mention"):
        return None
    if event.get("subtype") == "message_changed":
        return _read_edit(event, identity)
    return _read_message(event, event, identity)


def _read_edit(event: Mapping[str, Any], identity: SlackIdentity) -> InboundMessage | None:
    """A link that got a preview changes a message as well, without an edit by a person."""
    message, before = event.get("message", {}), event.get("previous_message", {})
    edited = message.get("edited", {}).get("ts", "")
    if not edited or edited == before.get("edited", {}).get("ts"):
        return None
    return _read_message(event, message, identity, edited=edited)


def _read_message(
    event: Mapping[str, Any], message: Mapping[str, Any], identity: SlackIdentity, edited: str = ""
) -> InboundMessage | None:
    sender, raw = message.get("user", ""), message.get("text", "")
    if not sender or sender == identity.user or message.get("bot_id"):
        return None
    if message.get("subtype", "") not in PERSONS_SUBTYPES:
        return None
    files = message.get("files", [])
    attached = tuple(_attached(message))
    if not (raw or files or attached):
        return None
    chat, ts = event.get("channel", ""), message.get("ts", "")
    thread = message.get("thread_ts", "")
    ours = f"<@{identity.user}>"
    return InboundMessage(
        key=":".join(filter(None, (chat, ts, edited))),
        address=Address(identity.channel, chat, thread),
        sender=sender,
        text=plain_text(raw.strip().removeprefix(ours).strip(), identity),
        attached=attached,
        media=tuple(_media(each) for each in files if each.get("id")),
        reference=ts,
        quoted=thread if thread != ts else "",
        direct=event.get("channel_type") == "im",
        mentioned=ours in raw or message.get("parent_user_id") == identity.user,
        edited=bool(edited),
        voice=any(each.get("subtype") == "slack_audio" for each in files),
        sent_at=_time(edited or ts),
    )


def _read_press(payload: Mapping[str, Any], identity: SlackIdentity) -> InboundMessage | None:
    actions = payload.get("actions") or [{}]
    shown, data = payload.get("message", {}), actions[0].get("value", "")
    user = payload.get("user", {}).get("id", "")
    chat = payload.get("channel", {}).get("id", "")
    if payload.get("type") != "block_actions" or not (data and user and chat):
        return None
    thread = shown.get("thread_ts", "")
    return InboundMessage(
        key=f"press:{chat}:{user}:{actions[0].get('action_ts', '')}",
        address=Address(identity.channel, chat, thread),
        sender=user,
        sender_name=payload.get("user", {}).get("name", ""),
        reference=shown.get("ts", ""),
        pressed=data,
        press=f"{chat}:{user}:{thread}",
        direct=chat.startswith("D"),
        mentioned=True,
    )


def plain_text(raw: str, identity: SlackIdentity) -> str:
    """Text without Slack's references and escapes."""

    def replace(found: re.Match[str]) -> str:
        mark, target, label = found.groups()
        if mark == "@" and target == identity.user:
            return "@me"
        if mark:
            return f"{'#' if mark == '#' else '@'}{label or target}"
        return target if label in (None, target) else f"{label} ({target})"

    text = _REFERENCE.sub(replace, raw)
    for escaped, char in _ENTITIES:
        text = text.replace(escaped, char)
    return text


def _attached(message: Mapping[str, Any]) -> list[AttachedText]:
    """Shared messages and previews of links."""
    found = []
    for each in message.get("attachments", []):
        words = each.get("text") or each.get("fallback") or ""
        author = each.get("author_name", "")
        if words and (each.get("is_share") or each.get("is_msg_unfurl")):
            found.append(AttachedText("forward", words, author))
        elif words:
            found.append(AttachedText("link", words, author))
    return found


def _media(file: Mapping[str, Any]) -> MediaItem:
    major = str(file.get("mimetype", "")).partition("/")[0]
    return MediaItem(
        kind="image" if major == "image" else "audio" if major == "audio" else "file",
        reference=str(file["id"]),
        name=str(file.get("name", "")),
        size=int(file.get("size", 0)),
    )


def _time(ts: str) -> datetime | None:
    try:
        return datetime.fromtimestamp(float(ts), UTC)
    except ValueError:
        return None
