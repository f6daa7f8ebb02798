"""The Slack channel: socket mode to receive, the Web API to send.

An envelope is acknowledged when the next message is asked for; Slack delivers again what was not.
A message carries its key as metadata, so that one whose answer was lost is found again.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import anyio
from msgspec.structs import replace
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from hermes.core.channels import Address, Button, InboundMessage, MediaItem, OutgoingMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.hidden_secrets import hide_secrets, secrets_hidden_in_logs
from hermes.gateway.channels.inbound.slack_events import SlackIdentity, read_payload
from hermes.gateway.channels.inbound.slack_socket import SlackSocket, SocketTiming
from hermes.gateway.markdown import StyledText, render_text
from hermes.gateway.settings import SlackSettings

BASE_URL = "https://slack.com/api/"
LOGGER = "hermes.channels.slack"
TOTAL_TIMEOUT_S = 60.0
MAX_BLOCK_CHARS = 3_000
MAX_LABEL_CHARS = 75
RECENT_MESSAGES = 50
"""How many messages are searched for one whose answer was lost."""
EVENT_TYPE = "hermes_message"
REFUSED_TOKENS = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"}
)
TEMPORARY_ERRORS = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "ratelimited"}
)
TOKEN_ADVICE = "take the bot token (xoxb-…) of the app from api.slack.com/apps"


def open_channel(settings: SlackSettings, secrets: Mapping[str, str]) -> "SlackChannel":
    return SlackChannel(
        secrets["SLACK_BOT_TOKEN"],
        secrets["SLACK_APP_TOKEN"],
        home=settings.home_chat,
        base_url=settings.base_url or BASE_URL,
    )


class SlackChannel:
    """Sends and receives as one bot. `home` is the channel for messages without one."""

    typing_interval_s = 600.0

    def __init__(
        self,
        bot_token: str,
        app_token: str,
        *,
        home: str = "",
        name: str = "slack",
        base_url: str = BASE_URL,
        timing: SocketTiming | None = None,
    ) -> None:
        self.name = name
        self._bot_token, self._app_token = bot_token, app_token
        self._home, self._base_url = home, base_url.rstrip("/") + "/"
        self._timing = timing or SocketTiming()
        self._last_seen: dict[Address, str] = {}
        """By chat: the message that gets a reaction while it is worked on."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.enter_context(secrets_hidden_in_logs(self._secrets, [LOGGER]))
            timeout = aiohttp.ClientTimeout(total=TOTAL_TIMEOUT_S)
            self._session = await stack.enter_async_context(
                aiohttp.ClientSession(timeout=timeout, trust_env=True)
            )
            self._web = AsyncWebClient(
                self._bot_token,
                base_url=self._base_url,
                session=self._session,
                logger=logging.getLogger(LOGGER),
                retry_handlers=[],  # the default one sends a message again after a lost answer
            )
            with self._channel_errors("bot", TOKEN_ADVICE):
                answer = await self._web.auth_test()
            self._identity = SlackIdentity(self.name, str(answer["user_id"]))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()

    @property
    def _secrets(self) -> tuple[str, str]:
        return self._bot_token, self._app_token

    async def listen(self) -> AsyncIterator[InboundMessage]:
        advice = "create an app-level token (xapp-…) with the scope connections:write"
        while True:
            with self._channel_errors("app-level", advice):
                socket = await SlackSocket.open(self._web, self._app_token, self._timing)
            try:
                async for request in socket.requests():
                    message = read_payload(request.type, request.payload, self._identity)
                    if message is not None:
                        if not message.pressed:
                            self._last_seen[message.address] = message.reference
                        yield message
                    await socket.acknowledge(request.envelope_id)
            finally:
                with anyio.CancelScope(shield=True):
                    await socket.close()
            with self._channel_errors("bot", TOKEN_ADVICE):  # the socket ended: is Slack there?
                await self._web.auth_test()

    async def send(self, message: OutgoingMessage) -> str:
        reference = ""
        if message.text:
            reference = await self._send_text(message)
            await self._take_reaction_back(message.to)
        for path in message.files:
            try:
                file = await self._send_file(Path(path), message)
            except DeliveryError as error:
                if not reference:
                    raise
                text = f"the text was sent, a file was not: {error}"
                raise DeliveryError(text, may_have_arrived=True) from None
            reference = reference or file
        return reference

    async def _send_text(self, message: OutgoingMessage) -> str:
        arguments: dict[str, Any] = {
            "channel": self._chat(message.to),
            "thread_ts": message.to.thread or message.reply_to or None,
            "unfurl_links": False,
            "unfurl_media": False,
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"key": message.key}},
            **_content(message),
        }
        try:
            with self._delivery_errors():
                return str((await self._web.chat_postMessage(**arguments))["ts"])
        except SlackApiError as error:
            if not message.reply_to or message.to.thread:
                raise self._refusal(error) from None
            with self._delivery_errors(refused=True):  # the message that it answers is gone
                arguments["thread_ts"] = None
                return str((await self._web.chat_postMessage(**arguments))["ts"])
        except DeliveryError as error:
            if not error.may_have_arrived:
                raise
            if found := await self._find_sent(arguments, message.key):
                return found
            raise

    async def _find_sent(self, arguments: Mapping[str, Any], key: str) -> str:
        """The timestamp of a message whose answer was lost; empty: it was not found."""
        chat, thread = arguments["channel"], arguments["thread_ts"]
        try:
            with self._delivery_errors(refused=True):
                if thread:
                    answer = await self._web.conversations_replies(
                        channel=chat, ts=thread, limit=RECENT_MESSAGES, include_all_metadata=True
                    )
                else:
                    answer = await self._web.conversations_history(
                        channel=chat, limit=RECENT_MESSAGES, include_all_metadata=True
                    )
        except DeliveryError:
            return ""
        for each in answer.get("messages") or []:
            if each.get("metadata", {}).get("event_payload", {}).get("key") == key:
                return str(each["ts"])
        return ""

    async def _send_file(self, path: Path, message: OutgoingMessage) -> str:
        try:
            data = await anyio.Path(path).read_bytes()
        except OSError as error:
            text = f"the file {path.name} cannot be read: {error.strerror}"
            raise DeliveryError(text, permanent=True) from error
        with self._delivery_errors(refused=True):
            answer = await self._web.files_upload_v2(
                channel=self._chat(message.to),
                file=data,
                filename=path.name,
                thread_ts=message.to.thread or message.reply_to or None,
            )
        return str((answer.get("files") or [{}])[0].get("id", ""))

    async def edit(self, reference: str, message: OutgoingMessage) -> None:
        content = {"blocks": [], **_content(message)}  # without blocks Slack keeps the old ones
        with self._delivery_errors(refused=True):
            await self._web.chat_update(channel=self._chat(message.to), ts=reference, **content)

    async def delete(self, to: Address, reference: str) -> None:
        try:
            with self._delivery_errors():
                await self._web.chat_delete(channel=self._chat(to), ts=reference)
        except SlackApiError as error:
            if _error_code(error) != "message_not_found":
                raise self._refusal(error) from None

    async def show_typing(self, to: Address) -> None:
        """Puts 👀 on the last message of the chat: bots cannot show that they type."""
        reference = self._last_seen.get(to)
        if reference is None:
            return
        with suppress(SlackApiError), self._delivery_errors():
            await self._web.reactions_add(channel=self._chat(to), name="eyes", timestamp=reference)

    async def _take_reaction_back(self, to: Address) -> None:
        reference = self._last_seen.pop(to, None)
        if reference is not None:
            with suppress(SlackApiError, DeliveryError), self._delivery_errors():
                await self._web.reactions_remove(
                    channel=self._chat(to), name="eyes", timestamp=reference
                )

    async def open_thread(self, to: Address, title: str, reference: str) -> Address:
        """Every message can have a thread, and none has a title."""
        return replace(to, chat=self._chat(to), thread=reference)

    async def answer_press(self, press: str, text: str) -> None:
        chat, _, rest = press.partition(":")
        user, _, thread = rest.partition(":")
        if not text:
            return
        with self._delivery_errors(refused=True):
            await self._web.chat_postEphemeral(
                channel=chat,
                user=user,
                text=render_text(StyledText(text), "mrkdwn"),
                thread_ts=thread or None,
            )

    async def fetch(self, media: MediaItem, max_bytes: int) -> bytes:
        too_large = DeliveryError(
            f"{media.name or media.kind} is larger than {max_bytes:,} bytes", permanent=True
        )
        with self._delivery_errors(refused=True):
            answer = await self._web.files_info(file=media.reference)
            file: dict[str, Any] = answer["file"]
            if int(file.get("size", 0)) > max_bytes:
                raise too_large
            url = str(file.get("url_private_download") or file["url_private"])
            self._check_host(url)
            headers = {"Authorization": f"Bearer {self._bot_token}"}
            async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                if response.status != 200:
                    text = f"Slack answered {response.status} for {media.name or 'a file'}"
                    raise DeliveryError(text, permanent=response.status < 500)
                data = bytearray()
                async for piece in response.content.iter_chunked(65_536):
                    data += piece
                    if len(data) > max_bytes:
                        raise too_large
        return bytes(data)

    def _check_host(self, url: str) -> None:
        """The token goes to Slack only."""
        host, own = urlsplit(url).hostname or "", urlsplit(self._base_url).hostname
        if host != own and not host.endswith(".slack.com"):
            raise DeliveryError(f"a file of Slack names another host: {host}", permanent=True)

    def _chat(self, to: Address) -> str:
        if not (to.chat or self._home):
            text = "no channel is named and Slack has no home channel: set its `home_channel`"
            raise DeliveryError(text, permanent=True)
        return to.chat or self._home

    @contextmanager
    def _channel_errors(self, token: str, advice: str) -> Iterator[None]:
        try:
            yield
        except SlackApiError as error:
            code = _error_code(error)
            if code in REFUSED_TOKENS or code in ("missing_scope", "not_allowed_token_type"):
                text = f"Slack refused the {token} token ({code}): {advice}"
                raise ChannelFailed(text, permanent=True) from None
            raise ChannelFailed(f"Slack: {code or _status(error)}") from None
        except (SlackClientError, aiohttp.ClientError, TimeoutError) as error:
            text = hide_secrets(f"Slack cannot be reached: {error}", self._secrets)
            raise ChannelFailed(text) from None

    @contextmanager
    def _delivery_errors(self, *, refused: bool = False) -> Iterator[None]:
        """`refused`: what Slack refuses is a `DeliveryError`, too; else the caller looks at it."""
        try:
            yield
        except SlackApiError as error:
            failure = self._refusal(error)
            if refused or not failure.permanent:
                raise failure from None
            raise
        except aiohttp.ClientConnectorError as error:
            text = hide_secrets(f"Slack cannot be reached: {error}", self._secrets)
            raise DeliveryError(text) from None
        except (SlackClientError, aiohttp.ClientError, TimeoutError) as error:
            text = hide_secrets(f"Slack: {type(error).__name__}: {error}", self._secrets)
            raise DeliveryError(text, may_have_arrived=True) from None

    def _refusal(self, error: SlackApiError) -> DeliveryError:
        code, status = _error_code(error), _status(error)
        if status == 429 or code == "ratelimited":
            wait_s = float(error.response.headers.get("Retry-After", 1))
            text = f"Slack allows the next call in {wait_s:.0f} s"
            return DeliveryError(text, retry_after_s=wait_s)
        if code in REFUSED_TOKENS:
            text = f"Slack refused the bot token ({code}): {TOKEN_ADVICE}"
            return DeliveryError(text, permanent=True)
        if code == "missing_scope":
            needed = error.response.get("needed", "")
            text = f"the Slack app lacks the scope {needed}: add it and install the app again"
            return DeliveryError(text, permanent=True)
        if status >= 500 or not code or code in TEMPORARY_ERRORS:
            return DeliveryError(f"Slack: {code or status}", may_have_arrived=True)
        return DeliveryError(f"Slack: {code}", permanent=True)


def _error_code(error: SlackApiError) -> str:
    """Empty: the answer was not one of the Web API."""
    answer = error.response
    if isinstance(answer, AsyncSlackResponse) and isinstance(answer.data, dict):
        return str(answer.data.get("error", ""))
    return ""


def _status(error: SlackApiError) -> int:
    answer = error.response
    return int(answer.status_code) if isinstance(answer, AsyncSlackResponse) else 0


def _content(message: OutgoingMessage) -> dict[str, Any]:
    """The text alone, or blocks with buttons; then the text is for notifications."""
    text = render_text(StyledText(message.text, message.spans), "mrkdwn")
    if not message.buttons:
        return {"text": text}
    sections = [
        {"type": "section", "text": {"type": "mrkdwn", "text": piece}}
        for piece in _pieces(text, MAX_BLOCK_CHARS)
    ]
    rows = [
        {"type": "actions", "elements": [_button(each) for each in row]} for row in message.buttons
    ]
    return {"text": text, "blocks": [*sections, *rows]}


def _button(button: Button) -> dict[str, Any]:
    label = {"type": "plain_text", "text": button.label[:MAX_LABEL_CHARS], "emoji": True}
    return {"type": "button", "text": label, "value": button.data, "action_id": button.data}


def _pieces(text: str, max_chars: int) -> Iterator[str]:
    """Cut after a line, else before an escaped character."""
    while len(text) > max_chars:
        end = text.rfind("\n", 0, max_chars) + 1 or max_chars
        amp = text.rfind("&", end - 5, end)
        if amp > 0 and ";" not in text[amp:end]:
            end = amp
        yield text[:end]
        text = text[end:]
    yield text
