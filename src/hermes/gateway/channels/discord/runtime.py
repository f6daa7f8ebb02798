"""The Discord channel: discord.py without caches, and raw calls of its rate-limited client.

Discord repeats nothing that was missed: after a new session the history of each known chat is read
from the last message that was acknowledged. A nonce that is the same for every attempt keeps a
message from being sent twice.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import anyio
from msgspec.structs import replace

from hermes.core.channels import Address, Button, InboundMessage, MediaItem, OutgoingMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.hidden_secrets import hide_secrets, secrets_hidden_in_logs
from hermes.gateway.channels.inbound.discord_events import (
    DiscordIdentity,
    read_message,
    read_press,
)
from hermes.gateway.channels.inbound.discord_gateway import (
    TOKEN_ADVICE,
    DiscordEvent,
    DiscordReceiver,
    Route,
    discord,
    receiving,
)
from hermes.gateway.markdown import StyledText, render_text
from hermes.gateway.settings import DiscordSettings

LOGGERS = ("discord.client", "discord.gateway", "discord.http", "discord.state")
FILE_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
TOTAL_TIMEOUT_S = 60.0
MAX_RATE_LIMIT_WAIT_S = 30.0
"""For shorter limits the library waits."""
MAX_ROW_BUTTONS, MAX_LABEL_CHARS = 5, 80
MAX_THREAD_NAME_CHARS, THREAD_MINUTES = 100, 1_440
MAX_REMEMBERED = 1_000
"""Chats, and presses that may still be answered."""
HISTORY_PAGE, MAX_HISTORY_PAGES = 100, 10
NONCE_CHARS = 24
SUPPRESS_EMBEDS, EPHEMERAL = 1 << 2, 1 << 6
REPLY_PRIVATELY, DEFER_UPDATE = 4, 6
LOST_ANSWERS = (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, json.JSONDecodeError)
THREAD_TYPES = frozenset({10, 11, 12})
UNKNOWN_MESSAGE, THREAD_EXISTS = 10_008, 160_004
NO_THREADS = frozenset({50_024, 50_001, 50_013})
"""Not in this kind of channel; no access; no permission."""


def open_channel(settings: DiscordSettings, secrets: Mapping[str, str]) -> "DiscordChannel":
    return DiscordChannel(
        secrets["DISCORD_BOT_TOKEN"], home=settings.home_chat, base_url=settings.base_url
    )


class DiscordChannel:
    """Sends and receives as one bot. `home` is the channel for messages without one."""

    typing_interval_s = 8.0

    def __init__(
        self, token: str, *, home: str = "", name: str = "discord", base_url: str = ""
    ) -> None:
        self.name = name
        self._token, self._home, self._base_url = token.strip(), home, base_url.rstrip("/")
        self._last: dict[str, int] = {}
        """By id of a channel or thread: the last message that was acknowledged."""
        self._addresses: OrderedDict[str, Address] = OrderedDict()
        self._presses: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """By id: the token of a press, and whether Discord has an answer already."""

    async def __aenter__(self) -> Self:
        if self._base_url:
            Route.BASE = self._base_url  # the library has no other place for it
        async with AsyncExitStack() as stack:
            stack.enter_context(secrets_hidden_in_logs([self._token], LOGGERS))
            discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False
            self._client = discord.Client(
                intents=discord.Intents.none(), max_ratelimit_timeout=MAX_RATE_LIMIT_WAIT_S
            )
            stack.push_async_callback(self._client.close)
            with self._channel_errors():
                await self._client.login(self._token)
            user = self._client.user
            self._identity = DiscordIdentity(self.name, str(user.id if user else ""))
            self._files = await stack.enter_async_context(
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TOTAL_TIMEOUT_S))
            )
            self._tasks = await stack.enter_async_context(anyio.create_task_group())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    def resume(self, last: Mapping[Address, str]) -> None:
        """Messages after these are delivered when `listen` begins."""
        for address, reference in last.items():
            self._last[address.thread or address.chat] = int(reference)

    async def listen(self) -> AsyncIterator[InboundMessage]:
        async with (
            receiving(self._token, self._tasks) as receiver,
            aclosing(self._deliveries(receiver)) as deliveries,
        ):
            async for message in deliveries:
                yield message
                await self._acknowledge(message)

    async def _deliveries(self, receiver: DiscordReceiver) -> AsyncGenerator[InboundMessage, None]:
        async for event in receiver.events():
            if event.kind == "READY":
                async with aclosing(self._missed()) as missed:
                    async for message in missed:
                        yield message
            elif (found := await self._read(event)) is not None:
                yield found

    async def _read(self, event: DiscordEvent) -> InboundMessage | None:
        data = event.data
        address = await self._address(data)
        if event.kind == "INTERACTION_CREATE":
            message = read_press(data, address, self._identity)
            if message is not None:
                self._presses[message.press] = (str(data["token"]), False)
                if len(self._presses) > MAX_REMEMBERED:
                    self._presses.popitem(last=False)
            return message
        edited = event.kind == "MESSAGE_UPDATE"
        return read_message(data, address, self._identity, edited=edited)

    async def _missed(self) -> AsyncGenerator[InboundMessage, None]:
        for channel in list(self._last):
            for _ in range(MAX_HISTORY_PAGES):
                after = self._last[channel]
                path = f"/channels/{channel}/messages?limit={HISTORY_PAGE}&after={after}"
                try:
                    page = await self._call("GET", path)
                except DeliveryError as error:
                    if not error.permanent:
                        raise ChannelFailed(str(error)) from None
                    del self._last[channel]  # the chat is gone, or no longer open to us
                    break
                for data in sorted(page, key=lambda each: int(each["id"])):
                    address = await self._address(data)
                    if (message := read_message(data, address, self._identity)) is not None:
                        yield message
                    self._last[channel] = max(self._last[channel], int(data["id"]))
                if len(page) < HISTORY_PAGE:
                    break

    async def _acknowledge(self, message: InboundMessage) -> None:
        if message.press:
            token, answered = self._presses.get(message.press, ("", True))
            if not answered:
                with suppress(DeliveryError):  # too late: the person sees that, and presses again
                    await self._respond(message.press, token, {"type": DEFER_UPDATE})
            return
        channel = message.address.thread or message.address.chat
        self._last[channel] = max(self._last.get(channel, 0), int(message.reference))

    async def _address(self, data: Mapping[str, Any]) -> Address:
        """Events do not say to which channel a thread belongs: it is asked for once."""
        channel = str(data["channel_id"])
        if "guild_id" not in data and channel not in self._addresses:
            self._remember(Address(self.name, channel))
        if channel not in self._addresses:
            try:
                found = await self._call("GET", f"/channels/{channel}")
            except DeliveryError:
                return Address(self.name, channel)
            parent = str(found.get("parent_id") or "")
            if parent and found.get("type") in THREAD_TYPES:
                self._remember(Address(self.name, parent, channel))
            else:
                self._remember(Address(self.name, channel))
        return self._addresses[channel]

    def _remember(self, address: Address) -> None:
        self._addresses[address.thread or address.chat] = address
        if len(self._addresses) > MAX_REMEMBERED:
            self._addresses.popitem(last=False)

    async def send(self, message: OutgoingMessage) -> str:
        path = f"/channels/{self._channel(message.to)}/messages"
        nonce = hashlib.sha256(message.key.encode()).hexdigest()[:NONCE_CHARS]
        payload = {**_content(message), "nonce": nonce, "enforce_nonce": True}
        if message.reply_to:
            payload["message_reference"] = {
                "message_id": message.reply_to,
                "fail_if_not_exists": False,
            }
        files = [await _read_file(Path(each)) for each in message.files]
        with self._delivery_errors():
            try:
                sent = await self._request("POST", path, payload, files)
            except LOST_ANSWERS:
                sent = await self._request("POST", path, payload, files)  # its nonce is known
        return str(sent["id"])

    async def edit(self, reference: str, message: OutgoingMessage) -> None:
        path = f"/channels/{self._channel(message.to)}/messages/{reference}"
        await self._call("PATCH", path, {"components": [], **_content(message)})

    async def delete(self, to: Address, reference: str) -> None:
        path = f"/channels/{self._channel(to)}/messages/{reference}"
        with self._delivery_errors():
            try:
                await self._request("DELETE", path)
            except discord.NotFound as error:
                if error.code != UNKNOWN_MESSAGE:
                    raise

    async def show_typing(self, to: Address) -> None:
        await self._call("POST", f"/channels/{self._channel(to)}/typing")

    async def open_thread(self, to: Address, title: str, reference: str) -> Address:
        """A thread has the id of its first message. Direct messages have none."""
        chat = self._channel(to)
        payload = {"name": title[:MAX_THREAD_NAME_CHARS], "auto_archive_duration": THREAD_MINUTES}
        path = f"/channels/{chat}/messages/{reference}/threads"
        with self._delivery_errors():
            try:
                thread = await self._request("POST", path, payload)
            except discord.HTTPException as error:
                if error.code == THREAD_EXISTS:
                    return replace(to, chat=chat, thread=reference)
                if error.code in NO_THREADS:
                    return to
                raise
        return replace(to, chat=chat, thread=str(thread["id"]))

    async def answer_press(self, press: str, text: str) -> None:
        token, answered = self._presses.get(press, ("", False))
        if not token:
            raise DeliveryError("this press can no longer be answered", permanent=True)
        payload = {
            "content": render_text(StyledText(text), "markdown"),
            "flags": EPHEMERAL,
            "allowed_mentions": {"parse": []},
        }
        if answered and text:
            await self._call("POST", f"/webhooks/{self._client.application_id}/{token}", payload)
        elif not answered:
            answer = {"type": REPLY_PRIVATELY, "data": payload} if text else {"type": DEFER_UPDATE}
            await self._respond(press, token, answer)

    async def _respond(self, press: str, token: str, answer: Mapping[str, Any]) -> None:
        await self._call("POST", f"/interactions/{press}/{token}/callback", answer)
        self._presses[press] = (token, True)

    async def fetch(self, media: MediaItem, max_bytes: int) -> bytes:
        name = media.name or media.kind
        host, own = urlsplit(media.reference).hostname, urlsplit(Route.BASE).hostname
        if host not in FILE_HOSTS and host != own:
            raise DeliveryError(f"a file of Discord names another host: {host}", permanent=True)
        data = bytearray()
        with self._delivery_errors():
            async with self._files.get(media.reference, allow_redirects=False) as response:
                if response.status != 200:
                    text = f"Discord answered {response.status} for {name}"
                    raise DeliveryError(text, permanent=response.status < 500)
                async for piece in response.content.iter_chunked(65_536):
                    data += piece
                    if len(data) > max_bytes:
                        text = f"{name} is larger than {max_bytes:,} bytes"
                        raise DeliveryError(text, permanent=True)
        return bytes(data)

    async def _call(self, method: str, path: str, payload: Mapping[str, Any] | None = None) -> Any:
        """Raises `DeliveryError`."""
        with self._delivery_errors():
            return await self._request(method, path, payload)

    async def _request(
        self,
        method: str,
        path: str,
        payload: Mapping[str, Any] | None = None,
        files: Sequence[tuple[str, bytes]] = (),
    ) -> Any:
        """A call within the rate limits that the library keeps. Raises errors of the library."""
        arguments: dict[str, Any] = {}
        if files:
            form: list[dict[str, Any]] = [{"name": "payload_json", "value": json.dumps(payload)}]
            for number, (name, data) in enumerate(files):
                form.append({"name": f"files[{number}]", "value": data, "filename": name})
            arguments["form"] = form
        elif payload is not None:
            arguments["json"] = payload
        return await self._client.http.request(Route(method, path), **arguments)

    def _channel(self, to: Address) -> str:
        chat = to.thread or to.chat or self._home
        if not chat:
            text = "no channel is named and Discord has no home channel: set its `home_channel`"
            raise DeliveryError(text, permanent=True)
        return chat

    def _hide(self, text: str) -> str:
        return hide_secrets(text, [self._token])

    @contextmanager
    def _channel_errors(self) -> Iterator[None]:
        try:
            yield
        except discord.LoginFailure:
            raise ChannelFailed(TOKEN_ADVICE, permanent=True) from None
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelFailed(self._hide(f"Discord cannot be reached: {error}")) from None

    @contextmanager
    def _delivery_errors(self) -> Iterator[None]:
        try:
            yield
        except discord.RateLimited as error:
            text = f"Discord allows the next call in {error.retry_after:.0f} s"
            raise DeliveryError(text, retry_after_s=error.retry_after) from None
        except discord.HTTPException as error:
            raise self._refusal(error) from None
        except aiohttp.ClientConnectorError as error:
            raise DeliveryError(self._hide(f"Discord cannot be reached: {error}")) from None
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            text = self._hide(f"Discord: {type(error).__name__}: {error}")
            raise DeliveryError(text, may_have_arrived=True) from None

    def _refusal(self, error: discord.HTTPException) -> DeliveryError:
        if error.status == 401:
            return DeliveryError(TOKEN_ADVICE, permanent=True)
        if error.status == 429:
            wait_s = float(error.response.headers.get("Retry-After", 60))
            text = f"Discord allows the next call in {wait_s:.0f} s"
            return DeliveryError(text, retry_after_s=wait_s)
        text = self._hide(f"Discord: {error.status} {error.text or ''} ({error.code})")
        temporary = error.status >= 500
        return DeliveryError(text, permanent=not temporary, may_have_arrived=temporary)


def _content(message: OutgoingMessage) -> dict[str, Any]:
    content: dict[str, Any] = {
        "content": render_text(StyledText(message.text, message.spans), "markdown"),
        "flags": SUPPRESS_EMBEDS,
        "allowed_mentions": {"parse": []},
    }
    rows = [
        row[start : start + MAX_ROW_BUTTONS]
        for row in message.buttons
        for start in range(0, len(row), MAX_ROW_BUTTONS)
    ]
    if rows:
        content["components"] = [
            {"type": 1, "components": [_button(each) for each in row]} for row in rows
        ]
    return content


def _button(button: Button) -> dict[str, Any]:
    label = button.label[:MAX_LABEL_CHARS]
    return {"type": 2, "style": 2, "label": label, "custom_id": button.data}


async def _read_file(path: Path) -> tuple[str, bytes]:
    try:
        return path.name, await anyio.Path(path).read_bytes()
    except OSError as error:
        text = f"the file {path.name} cannot be read: {error.strerror}"
        raise DeliveryError(text, permanent=True) from error
