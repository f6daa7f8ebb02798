"""Files of chats: what a conversation learns of those received, and which may be sent."""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from hermes.core.actions import Action
from hermes.core.channels import Channel, FetchesMedia, InboundMessage, MediaItem
from hermes.core.errors import HermesError
from hermes.core.events.chats import ChatReceived
from hermes.core.foreign_text import visible_line
from hermes.core.messages import AttachedText, Picture, Risk, ToolCall
from hermes.gateway.media import MediaCache, StickerCache, is_made_recording
from hermes.gateway.settings import TalkSettings

if TYPE_CHECKING:
    from hermes.app.application import Application
    from hermes.core.speech import SpokenText

MAX_INLINE_BYTES = 16_384
"""A text file up to this size is attached as words."""
_TEXT_SUFFIXES = frozenset(
    {".txt", ".log", ".md", ".json", ".yaml", ".yml", ".toml", ".conf", ".cfg", ".ini", ".csv"}
)
_MEDIA_LINE = re.compile(r"^[ \t]*MEDIA:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)

KeepPicture = Callable[[bytes, str], Awaitable[Picture]]
"""Keeps a picture, given as bytes and a description. Raises `ToolError` in plain words."""
Transcribe = Callable[[bytes], Awaitable["SpokenText"]]
"""Turns a recording into text. Raises `HermesError` in plain words."""


@dataclass(frozen=True)
class MessageParts:
    """The parts of a received message that a conversation gets."""

    text: str
    attached: tuple[AttachedText, ...] = ()
    pictures: tuple[Picture, ...] = ()
    heard: str = ""
    """What the sender said in a voice message; it is part of the text."""
    unheard: str = ""
    """Why a voice message has no words."""


class ChatMedia:
    def __init__(
        self, home: Path, settings: TalkSettings, transcribe: Transcribe | None = None
    ) -> None:
        self._settings, self._transcribe = settings, transcribe
        self._cache = MediaCache(
            home, max_bytes=settings.media_cache_bytes, max_age_days=settings.media_days
        )
        self._stickers = StickerCache(home)

    async def prepare(
        self, event: ChatReceived, channel: Channel | None, keep: KeepPicture
    ) -> "MessageParts":
        """The text of the person with a line for each file, the words of others, and pictures."""
        message, pictures = event.message, list[Picture]()
        if message.voice:
            return await self._prepare_voice(message, channel)
        lines, attached = [message.text] if message.text else [], list(message.attached)
        for media in message.media:
            line, more, path = await self._describe(media, channel)
            if media.kind == "image" and path is not None:
                line += await _add_picture(path, keep, pictures)
            lines.append(f"[{line}]")
            attached += more
        return MessageParts("\n".join(lines), tuple(attached), tuple(pictures))

    async def _prepare_voice(
        self, message: InboundMessage, channel: Channel | None
    ) -> "MessageParts":
        """Words of the sender, or of another person where the message was forwarded."""
        path: Path | None = None
        try:
            if not message.media or self._transcribe is None:
                raise HermesError("there is nothing to listen to")
            path, data = await self._fetch(message.media[0], channel)
            spoken = await self._transcribe(data)
            if not spoken.text:
                raise HermesError("no words were recognized in it")
        except (HermesError, OSError) as error:
            kept = f" (kept as {path})" if path else ""
            return MessageParts(message.text, message.attached, unheard=f"{error}{kept}")
        note = f"[said in a voice message, as {spoken.engine} understood it; kept as {path}]"
        if message.forwarded:
            words = AttachedText("transcript", spoken.text)
            return MessageParts(note, (*message.attached, words), heard=spoken.text)
        lines = [message.text, spoken.text, note]
        return MessageParts("\n".join(filter(None, lines)), message.attached, heard=spoken.text)

    async def _describe(
        self, media: MediaItem, channel: Channel | None
    ) -> tuple[str, list[AttachedText], Path | None]:
        if media.kind == "sticker":
            described = await to_thread.run_sync(self._stickers.describe, media)
            return f"sticker: {visible_line(described, 100)}", [], None
        name = visible_line(media.name, 60)
        try:
            path, data = await self._fetch(media, channel)
        except (HermesError, OSError) as error:
            return f"{media.kind} that could not be received: {error}", [], None
        more = _text_parts(name, path, data)
        shown = "its text is below" if _is_short_text(path, data) else f"{len(data)} bytes"
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


def _is_short_text(path: Path, data: bytes) -> bool:
    return path.suffix in _TEXT_SUFFIXES and len(data) <= MAX_INLINE_BYTES


def _text_parts(name: str, path: Path, data: bytes) -> list[AttachedText]:
    """The name of a file is words of others as well."""
    if not _is_short_text(path, data):
        return [AttachedText("file", f"its name is {name}")] if name else []
    text = data.decode("utf-8", "replace")
    return [AttachedText("file", f"{name}:\n{text}" if name else text)]


def split_sendable_media(
    text: str, application: "Application", folder: Path, run: str
) -> tuple[str, tuple[str, ...]]:
    """The text of an answer without `MEDIA:` lines, and the files that may go to its chat."""
    home = application.loaded.home
    kept = (home / name for name in ("artifacts", "audio_cache", "image_cache"))
    return split_media(text, (folder, *kept), lambda path: _may_send(path, application, run))


def _may_send(path: Path, application: "Application", run: str) -> bool:
    """Return whether a file may be sent to a chat: not what the policy would ask about, unless it
    was made to be sent."""
    home = application.loaded.home
    if path.is_relative_to((home / "audio_cache").resolve()):
        return is_made_recording(path, home)
    environment = application.agent_dependencies.environment
    action = Action(
        call=ToolCall("media", "read_file", {"path": str(path)}),
        risk=Risk.READ,
        run=run,
        origin="chat",
        environment=environment.name,
        target=environment.target,
        isolated=environment.isolated,
    )
    return application.policy.decide(action).verdict == "allow"


def split_media(
    text: str, folders: Sequence[Path], may_read: Callable[[Path], bool]
) -> tuple[str, tuple[str, ...]]:
    """The text without `MEDIA:` lines, and the files of those that may be sent.

    A line whose file is outside of the folders, hidden or forbidden is replaced by a note.
    """
    files: list[str] = []

    def replace_line(match: re.Match[str]) -> str:
        path = _sendable_file(match[1], folders)
        if path is None or not may_read(path):
            return f"(not sent: {match[1]})"
        files.append(str(path))
        return ""

    return _MEDIA_LINE.sub(replace_line, text).strip(), tuple(files)


def _sendable_file(name: str, folders: Sequence[Path]) -> Path | None:
    try:
        path = Path(name).expanduser().resolve(strict=True)
        for folder in map(Path.resolve, folders):
            if path.is_relative_to(folder) and path.is_file():
                below = path.relative_to(folder).parts
                return None if any(part.startswith(".") for part in below) else path
    except (OSError, ValueError, RuntimeError):
        pass
    return None
