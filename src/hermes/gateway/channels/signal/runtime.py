"""The Signal channel: `signal-cli daemon --http`, events in and JSON-RPC out.

signal-cli keeps its last events: after a new connection it repeats those that were not
acknowledged. Messages have no key against repetition. There are no buttons and no threads, and an
edit that Signal clients do not accept (the eleventh, or after a day) fails unseen: nothing is
edited.
"""

import base64
import binascii
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, NamedTuple, Self

import aiohttp
import anyio
import msgspec

from hermes.core.channels import Address, InboundMessage, MediaItem, OutgoingMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.files import chat_of, read_outgoing_file
from hermes.gateway.channels.inbound.signal_envelopes import (
    GROUP_PREFIX,
    SignalIdentity,
    read_envelope,
)
from hermes.gateway.channels.json_api import JsonApi, channel_failed, too_large
from hermes.gateway.settings import SignalSettings

READ_TIMEOUT_S = 90.0
"""signal-cli sends an empty comment every few seconds."""
METHOD_NOT_FOUND, RATE_LIMITED, IO_ERROR = -32601, -5, -3
UNKNOWN_EVENT = "0"
"""As the last event it makes signal-cli repeat all that it kept."""
DEFAULT_WAIT_S = 60.0
CAPTCHA_ADVICE = (
    "Signal asks for a captcha: solve it at signalcaptchas.org/challenge/generate.html and run "
    "signal-cli submitRateLimitChallenge"
)


class ServerEvent(NamedTuple):
    id: str
    data: bytes


class RpcError(DeliveryError):
    """signal-cli refused the call."""

    def __init__(self, text: str, code: int, data: Any, **kinds: Any) -> None:
        super().__init__(text, **kinds)
        self.code, self.data = code, data


def open_channel(settings: SignalSettings, secrets: Mapping[str, str]) -> "SignalChannel":
    return SignalChannel(settings.url, settings.account, home=settings.home_chat)


class SignalChannel:
    """Sends and receives as one account of a running daemon."""

    typing_interval_s = 10.0

    def __init__(self, url: str, account: str, *, home: str = "", name: str = "signal") -> None:
        self.name, self._account, self._home = name, account, home
        self._api = JsonApi("signal-cli", url)
        self._ids = count(1)
        self._last_event = UNKNOWN_EVENT

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._api)
            try:
                accounts = await self._call("listAccounts", account=False)
            except RpcError as error:
                if error.code != METHOD_NOT_FOUND:  # a daemon with one account does not list it
                    raise channel_failed(error) from None
                accounts = [{"number": self._account}]
            except DeliveryError as error:
                raise channel_failed(error) from None
            own = [each for each in accounts if self._account in each.values()]
            if not own:
                text = f"signal-cli has no account {self._account}: register or link it"
                raise ChannelFailed(text, permanent=True)
            self._identity = SignalIdentity(self.name, self._account, own[0].get("aci") or "")
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()

    async def listen(self) -> AsyncIterator[InboundMessage]:
        while True:
            async for event in self._events():
                received = msgspec.json.decode(event.data)
                if received.get("account", self._account) == self._account:
                    envelope = received.get("envelope") or {}
                    if (message := read_envelope(envelope, self._identity)) is not None:
                        yield message
                self._last_event = event.id or self._last_event

    async def _events(self) -> AsyncIterator[ServerEvent]:
        """Ends after a silence. Raises `ChannelFailed` when the connection ends."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=READ_TIMEOUT_S)
        headers = {"Accept": "text/event-stream", "Last-Event-ID": self._last_event}
        url = f"{self._api.base_url}/api/v1/events"
        try:
            async with self._api.session.get(url, headers=headers, timeout=timeout) as response:
                if response.status != 200:
                    raise ChannelFailed(f"signal-cli answered {response.status} for its events")
                async for event in _read_events(response.content):
                    yield event
        except aiohttp.SocketTimeoutError:
            return
        except aiohttp.ClientError as error:
            raise ChannelFailed(f"signal-cli: {type(error).__name__}: {error}") from None
        raise ChannelFailed("signal-cli ended the connection")

    async def send(self, message: OutgoingMessage) -> str:
        arguments: dict[str, Any] = self._target(message.to)
        if message.text:
            arguments["message"] = message.text
        if message.reply_to:
            stamp, _, author = message.reply_to.partition(".")
            arguments |= {"quoteTimestamp": int(stamp), "quoteAuthor": author or self._account}
        if message.files:
            files = [await read_outgoing_file(each) for each in message.files]
            arguments["attachments"] = [
                f"data:{each.mime_type};filename={each.name};base64,"
                + base64.b64encode(each.data).decode()
                for each in files
            ]
        sent = await self._call("send", **arguments)
        _check_results(sent.get("results") or [])
        return str(sent["timestamp"])

    async def show_typing(self, to: Address) -> None:
        await self._call("sendTyping", **self._target(to))

    async def fetch(self, media: MediaItem, max_bytes: int) -> bytes:
        name = media.name or media.kind
        if media.size > max_bytes:
            raise too_large(name, max_bytes)
        id, _, chat = media.reference.partition(" ")
        target = self._target(Address(self.name, chat))
        if "recipient" in target:
            target["recipient"] = chat
        answer = await self._call("getAttachment", id=id, **target)
        try:
            data = base64.b64decode(answer["data"], validate=True)
        except (KeyError, binascii.Error):
            raise DeliveryError(f"signal-cli has no file {name}", permanent=True) from None
        if len(data) > max_bytes:
            raise too_large(name, max_bytes)
        return data

    def _target(self, to: Address) -> dict[str, Any]:
        chat = chat_of(to, self._home)
        if chat.startswith(GROUP_PREFIX):
            return {"groupId": chat.removeprefix(GROUP_PREFIX)}
        return {"recipient": [chat]}

    async def _call(self, method: str, *, account: bool = True, **arguments: Any) -> Any:
        """Raises `DeliveryError`, or `RpcError` for what signal-cli refuses."""
        if account:
            arguments["account"] = self._account
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": arguments}
        answer = await self._api.call("POST", "/api/v1/rpc", request)
        if not isinstance(answer, dict) or not ("result" in answer or "error" in answer):
            raise DeliveryError("signal-cli gave no answer", may_have_arrived=True)
        error = answer.get("error")
        if error is None:
            return answer["result"]
        code, data = int(error.get("code", 0)), error.get("data") or {}
        _check_results((data.get("response") or {}).get("results") or [])
        text = f"signal-cli: {error.get('message', '')} ({code})"
        if code == RATE_LIMITED:
            raise RpcError(text, code, data, retry_after_s=DEFAULT_WAIT_S)
        temporary = code == IO_ERROR
        raise RpcError(text, code, data, permanent=not temporary, may_have_arrived=temporary)


def _check_results(results: list[dict[str, Any]]) -> None:
    """Raises `DeliveryError` when no recipient got the message."""
    kinds = {str(each.get("type", "")) for each in results}
    if not kinds or "SUCCESS" in kinds:
        return
    waits = [float(each.get("retryAfterSeconds") or 0) for each in results]
    if any(each.get("token") for each in results) or "PROOF_REQUIRED_FAILURE" in kinds:
        raise DeliveryError(CAPTCHA_ADVICE, permanent=True)
    if "RATE_LIMIT_FAILURE" in kinds:
        wait_s = max(waits) or DEFAULT_WAIT_S
        text = f"Signal allows the next message in {wait_s:.0f} s"
        raise DeliveryError(text, retry_after_s=wait_s)
    temporary = "NETWORK_FAILURE" in kinds
    text = f"Signal delivered it to nobody: {', '.join(sorted(kinds))}"
    raise DeliveryError(text, permanent=not temporary)


async def _read_events(content: aiohttp.StreamReader) -> AsyncIterator[ServerEvent]:
    """Of a stream of server-sent events."""
    id, data = "", list[bytes]()
    while line := await content.readline():
        field, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if field == b"id":
            id = value.decode()
        elif field == b"data":
            data.append(value)
        elif not line.strip():
            if data:
                yield ServerEvent(id, b"\n".join(data))
            data = []
