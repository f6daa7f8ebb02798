"""Turns files of a message into words for the conversation: where each is kept, and what it is."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from hermes.core.channels import Channel, FetchesMedia, MediaItem
from hermes.core.errors import HermesError
from hermes.core.events.chats import ChatReceived
from hermes.core.foreign_text import visible_line
from hermes.core.messages import AttachedText, Picture
from hermes.gateway.media import MediaCache, StickerCache
from hermes.gateway.settings import TalkSettings

MAX_INLINE_BYTES = 16_384
"""A text file up to this size is attached as words."""
_TEXT_SUFFIXES = frozenset(
    {".txt", ".log", ".md", ".json", ".yaml", ".yml", ".toml", ".conf", ".cfg", ".ini", ".csv"}
)
NO_TRANSCRIPT_NOTE = "a voice message: nothing here turns speech into text, so ask for text"


KeepPicture = Callable[[bytes, str], Awaitable[Picture]]
"""Keeps a picture, given as bytes and a description. Raises `ToolError` in plain words."""


@dataclass(frozen=True)
class MessageParts:
    """What a conversation gets of a received message."""

    text: str
    attached: tuple[AttachedText, ...] = ()
    pictures: tuple[Picture, ...] = ()


class ChatMedia:
    def __init__(self, home: Path, settings: TalkSettings) -> None:
        self._settings = settings
        self._cache = MediaCache(
            home, max_bytes=settings.media_cache_bytes, max_age_days=settings.media_days
        )
        self._stickers = StickerCache(home)

    async def prepare(
        self, event: ChatReceived, channel: Channel | None, keep: KeepPicture
    ) -> "MessageParts":
        """The text of the person with a line for each file, the words of others, and pictures."""
        message, pictures = event.message, list[Picture]()
        lines, attached = [message.text] if message.text else [], list(message.attached)
        for media in message.media:
            line, more, path = await self._describe(media, channel, spoken=message.voice)
            if media.kind == "image" and path is not None:
                line += await _add_picture(path, keep, pictures)
            lines.append(f"[{line}]")
            attached += more
        return MessageParts("\n".join(lines), tuple(attached), tuple(pictures))

    async def _describe(
        self, media: MediaItem, channel: Channel | None, *, spoken: bool
    ) -> tuple[str, list[AttachedText], Path | None]:
        if media.kind == "sticker":
            described = await to_thread.run_sync(self._stickers.describe, media)
            return f"sticker: {visible_line(described, 100)}", [], None
        name = visible_line(media.name, 60)
        try:
            path, data = await self._fetch(media, channel)
        except (HermesError, OSError) as error:
            return f"{media.kind} that could not be received: {error}", [], None
        if media.kind == "audio" and spoken:
            return f"{NO_TRANSCRIPT_NOTE}; kept as {path}", [], path
        more = _text_parts(name, path, data)
        shown = "its text is below" if more else f"{len(data)} bytes"
        return f"{media.kind} kept as {path}, {shown}", more, path

    async def _fetch(self, media: MediaItem, channel: Channel | None) -> tuple[Path, bytes]:
        if not isinstance(channel, FetchesMedia):
            raise HermesError("this channel cannot fetch files now")
        if media.size > self._settings.max_media_bytes:
            limit = self._settings.max_media_bytes // 2**20
            raise HermesError(f"it is larger than {limit} MB")
        data = await channel.fetch(media, self._settings.max_media_bytes)
        path = await to_thread.run_sync(self._cache.save, media, data, time.time())
        return path, data


async def _add_picture(path: Path, keep: KeepPicture, pictures: list[Picture]) -> str:
    """Adds the picture; returns what the line about its file has to add."""
    try:
        data = await to_thread.run_sync(path.read_bytes)
        pictures.append(await keep(data, "a photo that was sent"))
    except (HermesError, OSError) as error:
        return f"; it cannot be shown: {error}"
    return ""


def _text_parts(name: str, path: Path, data: bytes) -> list[AttachedText]:
    """The name of a file is words of others as well."""
    if path.suffix not in _TEXT_SUFFIXES or len(data) > MAX_INLINE_BYTES:
        return [AttachedText("file", f"its name is {name}")] if name else []
    text = data.decode("utf-8", "replace")
    return [AttachedText("file", f"{name}:\n{text}" if name else text)]
