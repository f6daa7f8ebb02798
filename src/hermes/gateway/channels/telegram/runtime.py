"""The Telegram channel: `telegram.Bot`, polled by our own loop.

The poll moves its offset on only when the next message is asked for, so what was not recorded is
delivered again. The outgoing side has no key against repetition: a lost answer is reported as
`may_have_arrived`.
"""

import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Self

import anyio
import httpx
from msgspec.structs import replace
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    ReplyParameters,
    Update,
)
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)
from telegram.request import HTTPXRequest
from telegram.warnings import PTBDeprecationWarning

from hermes.core.channels import (
    Address,
    Button,
    InboundMessage,
    MediaItem,
    OutgoingMessage,
    SpanStyle,
)
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.hidden_secrets import hide_secrets, secrets_hidden_in_logs
from hermes.gateway.channels.inbound.telegram_updates import TelegramIdentity, read_update
from hermes.gateway.markdown import text_length
from hermes.gateway.settings import TelegramSettings

BASE_URL = "https://api.telegram.org"
POLL_TIMEOUT_S = 50
READ_TIMEOUT_S = 20.0
UPDATE_KINDS = ("message", "edited_message", "callback_query")
LOGGERS = ("httpx", "telegram.Bot", "telegram.request.BaseRequest", "telegram.request.HTTPXRequest")
MAX_TOPIC_CHARS = 128
MAX_PRESS_ANSWER_CHARS = 200
MAX_PHOTO_BYTES = 10 * 2**20
PHOTO_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp"})
AUDIO_SUFFIXES = frozenset({".mp3", ".m4a"})
SPOKEN_SUFFIXES = frozenset({".ogg", ".oga", ".opus"})
ENTITY_TYPES: dict[SpanStyle, str] = {
    "bold": MessageEntity.BOLD,
    "italic": MessageEntity.ITALIC,
    "strike": MessageEntity.STRIKETHROUGH,
    "code": MessageEntity.CODE,
    "pre": MessageEntity.PRE,
    "link": MessageEntity.TEXT_LINK,
    "quote": MessageEntity.BLOCKQUOTE,
}
NO_TOPICS = ("not a forum", "not enough rights", "forums are disabled", "topics are disabled")
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def open_channel(settings: TelegramSettings, secrets: Mapping[str, str]) -> "TelegramChannel":
    return TelegramChannel(
        secrets["TELEGRAM_BOT_TOKEN"],
        home=settings.home_chat,
        base_url=settings.base_url or BASE_URL,
    )


class TelegramChannel:
    """Sends and receives as one bot. `home` is the chat for messages without one."""

    typing_interval_s = 4.0

    def __init__(
        self,
        token: str,
        *,
        home: str = "",
        name: str = "telegram",
        base_url: str = BASE_URL,
        poll_timeout_s: int = POLL_TIMEOUT_S,
    ) -> None:
        self.name = name
        self._token, self._home, self._base_url = token, home, base_url.rstrip("/")
        self._poll_timeout_s = poll_timeout_s
        self._stack = ExitStack()

    async def __aenter__(self) -> Self:
        # The library's own error warns of its attribute whenever Telegram limits the rate.
        warnings.filterwarnings("ignore", ".*`retry_after`", PTBDeprecationWarning)
        with ExitStack() as stack:
            stack.enter_context(secrets_hidden_in_logs([self._token], LOGGERS))
            self._bot = Bot(
                self._token,
                base_url=f"{self._base_url}/bot",
                base_file_url=f"{self._base_url}/file/bot",
                request=HTTPXRequest(read_timeout=READ_TIMEOUT_S),
                get_updates_request=HTTPXRequest(connection_pool_size=1),
            )
            try:
                await self._bot.initialize()
            except TelegramError as error:
                await self._bot.shutdown()
                raise self._channel_failed(error) from None
            self._stack = stack.pop_all()
        user = self._bot.bot
        self._identity = TelegramIdentity(self.name, user.id, user.username or "")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._bot.shutdown()
        self._stack.close()

    async def listen(self) -> AsyncIterator[InboundMessage]:
        offset: int | None = None
        while True:
            for update in await self._poll(offset):
                message = read_update(update, self._identity)
                if message is not None:
                    yield message
                offset = update.update_id + 1

    async def _poll(self, offset: int | None) -> tuple[Update, ...]:
        try:
            return await self._bot.get_updates(
                offset=offset,
                timeout=self._poll_timeout_s,
                allowed_updates=UPDATE_KINDS,
                read_timeout=self._poll_timeout_s + READ_TIMEOUT_S,
            )
        except TelegramError as error:
            raise self._channel_failed(error) from None

    async def send(self, message: OutgoingMessage) -> str:
        with self._delivery_errors():
            try:
                return await self._send(message)
            except ChatMigrated as error:
                moved = replace(message.to, chat=str(error.new_chat_id))
                return await self._send(replace(message, to=moved))

    async def _send(self, message: OutgoingMessage) -> str:
        reference = ""
        if message.text:
            reference = str((await self._send_text(message)).message_id)
        for path in message.files:
            try:
                sent = await self._send_file(Path(path), message)
            except TelegramError as error:
                if not reference:
                    raise
                text = f"the text was sent, the file {Path(path).name} was not: {error.message}"
                raise DeliveryError(self._hide(text), may_have_arrived=True) from None
            reference = reference or str(sent.message_id)
        return reference

    async def _send_text(self, message: OutgoingMessage) -> Message:
        return await self._bot.send_message(
            self._chat(message.to),
            message.text,
            entities=_entities(message),
            reply_parameters=_reply(message),
            message_thread_id=_thread(message.to),
            reply_markup=_keyboard(message.buttons),
            link_preview_options=LinkPreviewOptions(is_disabled=True),
        )

    async def _send_file(self, path: Path, message: OutgoingMessage) -> Message:
        chat, thread = self._chat(message.to), _thread(message.to)
        try:
            data = await anyio.Path(path).read_bytes()
        except OSError as error:
            text = f"the file {path.name} cannot be read: {error.strerror}"
            raise DeliveryError(text, permanent=True) from error
        suffix = path.suffix.lower()
        if suffix in PHOTO_SUFFIXES and len(data) <= MAX_PHOTO_BYTES:
            return await self._bot.send_photo(
                chat, data, filename=path.name, message_thread_id=thread
            )
        if suffix in SPOKEN_SUFFIXES:
            return await self._bot.send_voice(
                chat, data, filename=path.name, message_thread_id=thread
            )
        if suffix in AUDIO_SUFFIXES:
            return await self._bot.send_audio(
                chat, data, filename=path.name, message_thread_id=thread
            )
        return await self._bot.send_document(
            chat, data, filename=path.name, message_thread_id=thread
        )

    async def edit(self, reference: str, message: OutgoingMessage) -> None:
        with self._delivery_errors():
            try:
                await self._bot.edit_message_text(
                    message.text,
                    self._chat(message.to),
                    int(reference),
                    entities=_entities(message),
                    reply_markup=_keyboard(message.buttons),
                    link_preview_options=LinkPreviewOptions(is_disabled=True),
                )
            except BadRequest as error:
                if "not modified" not in error.message.lower():
                    raise

    async def delete(self, to: Address, reference: str) -> None:
        with self._delivery_errors():
            try:
                await self._bot.delete_message(self._chat(to), int(reference))
            except BadRequest as error:
                if "not found" not in error.message.lower():
                    raise

    async def show_typing(self, to: Address) -> None:
        with self._delivery_errors():
            await self._bot.send_chat_action(
                self._chat(to), "typing", message_thread_id=_thread(to)
            )

    async def open_thread(self, to: Address, title: str, reference: str) -> Address:
        """A forum topic; a chat without topics, or without the right to open one, is kept."""
        with self._delivery_errors():
            try:
                topic = await self._bot.create_forum_topic(self._chat(to), title[:MAX_TOPIC_CHARS])
            except BadRequest as error:
                if any(reason in error.message.lower() for reason in NO_TOPICS):
                    return to
                raise
        return replace(to, chat=str(self._chat(to)), thread=str(topic.message_thread_id))

    async def answer_press(self, press: str, text: str) -> None:
        with self._delivery_errors():
            await self._bot.answer_callback_query(
                press, text[:MAX_PRESS_ANSWER_CHARS] or None, show_alert=bool(text)
            )

    async def fetch(self, media: MediaItem, max_bytes: int) -> bytes:
        with self._delivery_errors():
            file = await self._bot.get_file(media.reference)
            if (file.file_size or 0) > max_bytes:
                raise _too_large(media, max_bytes)
            data = bytes(await file.download_as_bytearray())
        if len(data) > max_bytes:
            raise _too_large(media, max_bytes)
        return data

    def _chat(self, to: Address) -> int | str:
        chat = to.chat or self._home
        if not chat:
            text = "no chat is named and the channel has no home chat: set its `home`"
            raise DeliveryError(text, permanent=True)
        with suppress(ValueError):
            return int(chat)
        return chat

    def _hide(self, text: str) -> str:
        return hide_secrets(text, [self._token])

    def _channel_failed(self, error: TelegramError) -> ChannelFailed:
        match error:
            case InvalidToken():
                text = "Telegram refused the bot token: set the one that @BotFather shows"
            case Conflict() if "webhook" in error.message.lower():
                text = (
                    "this bot has a webhook, so Telegram refuses to be polled: remove it with "
                    "deleteWebhook, or use a bot of its own"
                )
            case Conflict():
                text = (
                    "another program polls this Telegram bot: stop it, or give Hermes a bot of "
                    f"its own ({error.message})"
                )
            case _:
                return ChannelFailed(self._hide(f"Telegram: {error.message}"))
        return ChannelFailed(self._hide(text), permanent=True)

    @contextmanager
    def _delivery_errors(self) -> Iterator[None]:
        """Client errors hold the token, also in their causes: they are not chained."""
        try:
            yield
        except RetryAfter as error:
            wait = error.retry_after
            wait_s = wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
            text = f"Telegram allows the next message in {wait_s:.0f} s"
            raise DeliveryError(text, retry_after_s=wait_s) from None
        except InvalidToken:
            text = "Telegram refused the bot token: set the one that @BotFather shows"
            raise DeliveryError(text, permanent=True) from None
        except (Forbidden, BadRequest, ChatMigrated) as error:
            text = self._hide(f"Telegram: {error.message}")
            raise DeliveryError(text, permanent=True) from None
        except TelegramError as error:
            sent = not (isinstance(error, NetworkError) and isinstance(error.__cause__, NEVER_SENT))
            text = self._hide(f"Telegram: {error.message}")
            raise DeliveryError(text, may_have_arrived=sent) from None


def _thread(to: Address) -> int | None:
    return int(to.thread) if to.thread else None


def _reply(message: OutgoingMessage) -> ReplyParameters | None:
    if not message.reply_to:
        return None
    return ReplyParameters(int(message.reply_to), allow_sending_without_reply=True)


def _entities(message: OutgoingMessage) -> list[MessageEntity]:
    """Telegram counts in UTF-16, and takes entities instead of markup: nothing is escaped."""
    found = []
    for span in message.spans:
        start = text_length(message.text[: span.start], "utf16")
        length = text_length(message.text[span.start : span.end], "utf16")
        is_link, is_block = span.style == "link", span.style == "pre"
        found.append(
            MessageEntity(
                ENTITY_TYPES[span.style],
                start,
                length,
                url=span.value if is_link else None,
                language=(span.value or None) if is_block else None,
            )
        )
    return found


def _keyboard(rows: tuple[tuple[Button, ...], ...]) -> InlineKeyboardMarkup | None:
    if not rows:
        return None
    return InlineKeyboardMarkup(
        [[InlineKeyboardButton(one.label, callback_data=one.data) for one in row] for row in rows]
    )


def _too_large(media: MediaItem, max_bytes: int) -> DeliveryError:
    text = f"{media.name or media.kind} is larger than {max_bytes:,} bytes"
    return DeliveryError(text, permanent=True)
