"""Reads what Telegram delivers into messages: texts, files, quotes, forwards and presses."""

from typing import NamedTuple

from telegram import (
    Message,
    MessageEntity,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    Update,
)
from telegram.constants import ChatType

from hermes.core.channels import Address, AttachedText, InboundMessage, MediaItem


class TelegramIdentity(NamedTuple):
    """Who we are: the name of the channel, and the id and the user name of the bot."""

    channel: str
    id: int
    username: str


def read_update(update: Update, identity: TelegramIdentity) -> InboundMessage | None:
    """Return None when it is not from a person, or has nothing that can be read."""
    if update.callback_query is not None:
        return _read_press(update, identity)
    message = update.message or update.edited_message
    if message is None:
        return None
    sender = _sender(message)
    media = tuple(_media(message))
    text = message.text or message.caption or ""
    if sender is None or sender == str(identity.id) or not (text or media):
        return None
    quoted = _quoted_message(message)
    forwarded = message.forward_origin is not None
    return InboundMessage(
        key=str(update.update_id),
        address=_address(message, identity),
        sender=sender,
        sender_name=message.from_user.full_name if message.from_user else "",
        text="" if forwarded else _without_our_name(text, identity),
        attached=tuple(_attached(message, quoted, text)),
        media=media,
        reference=str(message.message_id),
        quoted=str(quoted.message_id) if quoted else "",
        direct=message.chat.type == ChatType.PRIVATE,
        mentioned=_is_mentioned(message, quoted, identity),
        edited=update.edited_message is not None,
        voice=message.voice is not None or message.video_note is not None,
        forwarded=forwarded,
        sent_at=message.edit_date or message.date,
    )


def _read_press(update: Update, identity: TelegramIdentity) -> InboundMessage | None:
    query = update.callback_query
    if query is None or query.message is None or not query.data:
        return None
    shown = query.message
    thread = shown.message_thread_id if isinstance(shown, Message) else None
    return InboundMessage(
        key=str(update.update_id),
        address=Address(identity.channel, str(shown.chat.id), str(thread or "")),
        sender=str(query.from_user.id),
        sender_name=query.from_user.full_name,
        reference=str(shown.message_id),
        pressed=query.data,
        press=query.id,
        direct=shown.chat.type == ChatType.PRIVATE,
        mentioned=True,
    )


def _sender(message: Message) -> str | None:
    """An anonymous administrator or a channel is the chat in whose name it writes: no person."""
    if message.sender_chat is not None:
        return str(message.sender_chat.id)
    return str(message.from_user.id) if message.from_user is not None else None


def _address(message: Message, identity: TelegramIdentity) -> Address:
    topic = message.message_thread_id if message.is_topic_message else None
    return Address(identity.channel, str(message.chat.id), str(topic or ""))


def _quoted_message(message: Message) -> Message | None:
    """In a topic every message answers the one that opened it; that is no quote."""
    quoted = message.reply_to_message
    if quoted is not None and quoted.forum_topic_created is not None:
        return None
    return quoted


def _attached(message: Message, quoted: Message | None, text: str) -> list[AttachedText]:
    found = []
    if message.forward_origin is not None and text:
        found.append(AttachedText("forward", text, _origin_name(message)))
    if message.quote is not None:
        found.append(AttachedText("quote", message.quote.text, _author(quoted)))
    elif quoted is not None and (words := quoted.text or quoted.caption):
        found.append(AttachedText("quote", words, _author(quoted)))
    return found


def _author(message: Message | None) -> str:
    return message.from_user.full_name if message and message.from_user else ""


def _origin_name(message: Message) -> str:
    match message.forward_origin:
        case MessageOriginUser(sender_user=user):
            return user.full_name
        case MessageOriginHiddenUser(sender_user_name=name):
            return name
        case MessageOriginChat(sender_chat=chat) | MessageOriginChannel(chat=chat):
            return chat.title or ""
        case _:
            return ""


def _is_mentioned(message: Message, quoted: Message | None, identity: TelegramIdentity) -> bool:
    if quoted is not None and quoted.from_user is not None and quoted.from_user.id == identity.id:
        return True
    entities = message.parse_entities() or message.parse_caption_entities()
    return any(_names_us(entity, text, identity) for entity, text in entities.items())


def _names_us(entity: MessageEntity, text: str, identity: TelegramIdentity) -> bool:
    name = f"@{identity.username}".lower()
    match entity.type:
        case MessageEntity.TEXT_MENTION:
            return entity.user is not None and entity.user.id == identity.id
        case MessageEntity.MENTION:
            return text.lower() == name
        case MessageEntity.BOT_COMMAND:
            return text.lower().endswith(name)
        case _:
            return False


def _without_our_name(text: str, identity: TelegramIdentity) -> str:
    """`@hermes_bot look` is `look`, and `/status@hermes_bot` is `/status`."""
    name = f"@{identity.username}".lower()
    first, space, rest = text.strip().partition(" ")
    if first.lower() == name:
        return rest.strip()
    if first.startswith("/") and first.lower().endswith(name):
        return first[: -len(name)] + space + rest
    return text


def _media(message: Message) -> list[MediaItem]:
    found = []
    if message.photo:
        best = message.photo[-1]
        found.append(MediaItem(kind="image", reference=best.file_id, size=best.file_size or 0))
    if (sticker := message.sticker) is not None:
        words = " ".join(filter(None, (sticker.emoji, sticker.set_name, sticker.file_unique_id)))
        found.append(
            MediaItem(
                kind="sticker",
                reference=sticker.file_id,
                size=sticker.file_size or 0,
                description=words,
            )
        )
    if (spoken := message.voice or message.video_note) is not None:
        found.append(
            MediaItem(
                kind="audio" if message.voice else "file",
                reference=spoken.file_id,
                size=spoken.file_size or 0,
            )
        )
    for kind, file in (("audio", message.audio), ("file", message.video or message.document)):
        if file is not None:
            found.append(
                MediaItem(
                    kind="audio" if kind == "audio" else "file",
                    reference=file.file_id,
                    name=file.file_name or "",
                    size=file.file_size or 0,
                )
            )
    return found
