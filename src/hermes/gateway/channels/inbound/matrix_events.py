"""Reads what Matrix delivers into messages: texts, edits, answers, threads and files.

Ids of rooms and events contain colons, which separate the parts of an address: in addresses they
are written as `|`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from hermes.core.channels import Address, InboundMessage, MediaItem

FILE_TYPES = {"m.image": "image", "m.audio": "audio", "m.file": "file", "m.video": "file"}
TEXT_TYPES = frozenset({"m.text", "m.emote"})
"""`m.notice` is what programs write."""
SPOKEN_FIELDS = ("org.matrix.msc3245.voice", "org.matrix.msc3245.voice.v2", "m.voice")


class MatrixIdentity(NamedTuple):
    """Who we are: the name of the channel, and the id of the account."""

    channel: str
    user: str


def escape_id(id: str) -> str:
    return id.replace(":", "|")


def unescape_id(text: str) -> str:
    return text.replace("|", ":")


def read_event(
    event: Mapping[str, Any],
    chat: str,
    identity: MatrixIdentity,
    *,
    direct: bool,
    answers_us: bool = False,
) -> InboundMessage | None:
    """Return None when it is not a message of a person, or has nothing that can be read."""
    content = event.get("content") or {}
    sender = str(event.get("sender", ""))
    if event.get("type") != "m.room.message" or sender in ("", identity.user):
        return None
    relation = content.get("m.relates_to") or {}
    edited = relation.get("rel_type") == "m.replace"
    shown = (content.get("m.new_content") or {}) if edited else content
    kind = shown.get("msgtype")
    media = _media(shown)
    text = _without_fallback(str(shown.get("body", ""))) if kind in TEXT_TYPES else ""
    if not (text or media):
        return None
    quoted = answered_event(event)
    mentioned = identity.user in (shown.get("m.mentions") or {}).get("user_ids", [])
    thread = relation.get("event_id", "") if relation.get("rel_type") == "m.thread" else ""
    return InboundMessage(
        key=str(event["event_id"]),
        address=Address(identity.channel, escape_id(chat), escape_id(thread)),
        sender=sender,
        text=_without_our_name(text, identity) if mentioned else text,
        media=media,
        reference=str(relation["event_id"] if edited else event["event_id"]),
        quoted=quoted,
        direct=direct,
        mentioned=mentioned or answers_us,
        edited=edited,
        voice=any(field in shown for field in SPOKEN_FIELDS),
        sent_at=datetime.fromtimestamp(int(event.get("origin_server_ts", 0)) / 1000, UTC),
    )


def answered_event(event: Mapping[str, Any]) -> str:
    """The id of the event that it answers. In a thread, the answer to its last event is only a
    fallback for clients without threads, and does not count."""
    relation = (event.get("content") or {}).get("m.relates_to") or {}
    if relation.get("is_falling_back"):
        return ""
    return str((relation.get("m.in_reply_to") or {}).get("event_id", ""))


def _without_fallback(body: str) -> str:
    """Older clients repeat what they answer: lines with `> ` and an empty line."""
    if not body.startswith("> <"):
        return body
    lines = body.splitlines()
    while lines and lines[0].startswith(">"):
        lines.pop(0)
    return "\n".join(lines).strip()


def _without_our_name(text: str, identity: MatrixIdentity) -> str:
    local = identity.user.removeprefix("@").partition(":")[0]
    for name in (identity.user, f"@{local}", local):
        if text.lower().startswith(name.lower()):
            return text[len(name) :].lstrip(":, ").strip()
    return text


def _media(shown: Mapping[str, Any]) -> tuple[MediaItem, ...]:
    kind, url = FILE_TYPES.get(str(shown.get("msgtype"))), str(shown.get("url", ""))
    if kind is None or not url.startswith("mxc://"):
        return ()
    return (
        MediaItem(
            kind="image" if kind == "image" else "audio" if kind == "audio" else "file",
            reference=url,
            name=str(shown.get("filename") or shown.get("body", "")),
            size=int((shown.get("info") or {}).get("size") or 0),
        ),
    )
