"""Reads what Mattermost delivers into messages: posts, edits, answers in threads and files."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from hermes.core.channels import Address, AttachedText, InboundMessage, MediaItem


class MattermostIdentity(NamedTuple):
    """Who we are: the name of the channel, and the id and the name of the bot."""

    channel: str
    user: str
    username: str


class ReceivedPost(NamedTuple):
    """A post, and what only its event says."""

    post: dict[str, Any]
    direct: bool = False
    mentions: tuple[str, ...] = ()
    """Ids of users."""
    sender_name: str = ""


def read_event(event: Mapping[str, Any]) -> ReceivedPost | None:
    """Return None when it is not about a post."""
    data = event.get("data") or {}
    if event.get("event") not in ("posted", "post_edited") or not data.get("post"):
        return None
    mentions = msgspec.json.decode(data["mentions"]) if data.get("mentions") else []
    return ReceivedPost(
        msgspec.json.decode(data["post"]),
        direct=data.get("channel_type") == "D",
        mentions=tuple(map(str, mentions)),
        sender_name=str(data.get("sender_name", "")).removeprefix("@"),
    )


def read_post(
    received: ReceivedPost, identity: MattermostIdentity, *, answers_us: bool
) -> InboundMessage | None:
    """`answers_us`: the first post of its thread is ours. None: it is not from a person, or has
    nothing that can be read."""
    post, props = received.post, received.post.get("props") or {}
    if post["user_id"] == identity.user or post.get("type") or post.get("delete_at"):
        return None
    if props.get("from_bot") or props.get("from_webhook"):
        return None
    files = (post.get("metadata") or {}).get("files") or []
    text, root = str(post.get("message") or ""), str(post.get("root_id") or "")
    if not (text or files):
        return None
    edited_at = int(post.get("edit_at") or 0)
    ours = f"@{identity.username}"
    return InboundMessage(
        key=f"{post['id']}:{edited_at}" if edited_at else str(post["id"]),
        address=Address(identity.channel, str(post["channel_id"]), root),
        sender=str(post["user_id"]),
        sender_name=received.sender_name,
        text=text.removeprefix(ours).strip() if text.startswith(ours) else text,
        attached=tuple(_attached(props)),
        media=tuple(_media(each) for each in files),
        reference=str(post["id"]),
        quoted=root,
        direct=received.direct,
        mentioned=identity.user in received.mentions or answers_us,
        edited=bool(edited_at),
        sent_at=datetime.fromtimestamp((edited_at or int(post["create_at"])) / 1000, UTC),
    )


def _attached(props: Mapping[str, Any]) -> list[AttachedText]:
    """Attachments are what programs put beside the words of a person."""
    found = []
    for each in props.get("attachments") or []:
        if words := each.get("text") or each.get("fallback"):
            found.append(AttachedText("link", str(words), str(each.get("author_name", ""))))
    return found


def _media(file: Mapping[str, Any]) -> MediaItem:
    major = str(file.get("mime_type", "")).partition("/")[0]
    return MediaItem(
        kind="image" if major == "image" else "audio" if major == "audio" else "file",
        reference=str(file["id"]),
        name=str(file.get("name", "")),
        size=int(file.get("size") or 0),
    )
