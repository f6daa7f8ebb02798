"""The Matrix channel: `/sync` to receive, `PUT` with a transaction id to send.

The token of the next sync is used only after the messages before it were acknowledged. After a
restart each room is read on from its last recorded message. Encrypted rooms cannot be read, and
nothing is sent to them in the clear.
"""

import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import anyio
import msgspec
from msgspec.structs import replace

from hermes.core.channels import Address, InboundMessage, MediaItem, OutgoingMessage
from hermes.core.errors import DeliveryError
from hermes.gateway.channels.files import chat_of, read_outgoing_file
from hermes.gateway.channels.inbound.matrix_events import (
    MatrixIdentity,
    answered_event,
    escape_id,
    read_event,
    unescape_id,
)
from hermes.gateway.channels.json_api import ApiRefusal, JsonApi, channel_failed, too_large
from hermes.gateway.markdown import StyledText, render_text
from hermes.gateway.settings import MatrixSettings

CLIENT = "/_matrix/client/v3"
SYNC_TIMEOUT_S = 30
PAGE_EVENTS = 100
MAX_REMEMBERED = 1_000
TYPING_MS = 12_000
TOKEN_ADVICE = "log in as the bot once and take its access token"
FIRST_FILTER = msgspec.json.encode({"room": {"timeline": {"limit": 1}}}).decode()
"""What was written before the first start is not read."""


def open_channel(settings: MatrixSettings, secrets: Mapping[str, str]) -> "MatrixChannel":
    return MatrixChannel(
        settings.homeserver, secrets["MATRIX_ACCESS_TOKEN"], home=settings.home_chat
    )


class MatrixChannel:
    """Sends and receives as one account. `home` is the room for messages without one."""

    typing_interval_s = 10.0

    def __init__(
        self, homeserver: str, token: str, *, home: str = "", name: str = "matrix"
    ) -> None:
        self.name, self._home = name, escape_id(home)
        self._api = JsonApi(
            "Matrix",
            homeserver,
            headers={"Authorization": f"Bearer {token}"},
            secrets=[token],
            token_advice=TOKEN_ADVICE,
            describe=lambda answer: f"{answer.get('error', '')} {answer.get('errcode', '')}",
            wait=lambda answer: float(answer.get("retry_after_ms", 0)) / 1000,
        )
        self._last: dict[str, str] = {}
        self._members: dict[str, int] = {}
        self._encrypted: dict[str, bool] = {}
        self._own_events: OrderedDict[str, bool] = OrderedDict()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._api)
            try:
                me = await self._api.call("GET", f"{CLIENT}/account/whoami")
            except DeliveryError as error:
                raise channel_failed(error) from None
            self._identity = MatrixIdentity(self.name, str(me["user_id"]))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()

    def resume(self, last: Mapping[Address, str]) -> None:
        """Messages after these are delivered when `listen` begins."""
        for address, reference in last.items():
            self._last[unescape_id(address.chat)] = reference

    async def listen(self) -> AsyncIterator[InboundMessage]:
        try:
            answer = await self._sync({"filter": FIRST_FILTER})
            await self._read_chats(answer)
            async with aclosing(self._missed()) as missed:
                async for old in missed:
                    yield old
            while True:
                since = str(answer["next_batch"])
                answer = await self._sync({"since": since, "timeout": str(SYNC_TIMEOUT_S * 1000)})
                for chat, events in await self._read_chats(answer):
                    for event in events:
                        if (message := await self._read(event, chat)) is not None:
                            yield message
        except DeliveryError as error:
            raise channel_failed(error) from None

    async def _sync(self, params: Mapping[str, str]) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=SYNC_TIMEOUT_S + 30)
        answer: dict[str, Any] = await self._api.call(
            "GET", f"{CLIENT}/sync", params=params, timeout=timeout
        )
        return answer

    async def _read_chats(
        self, answer: Mapping[str, Any]
    ) -> list[tuple[str, list[dict[str, Any]]]]:
        """The new events of each room. Invitations are accepted: who is heard is decided later."""
        chats = answer.get("rooms") or {}
        for chat in chats.get("invite") or {}:
            await self._api.call("POST", f"{CLIENT}/join/{quote(chat, safe='')}", {})
        found = []
        for chat, state in (chats.get("join") or {}).items():
            count = (state.get("summary") or {}).get("m.joined_member_count")
            if count is not None:
                self._members[chat] = int(count)
            timeline = (state.get("timeline") or {}).get("events") or []
            for event in [*((state.get("state") or {}).get("events") or []), *timeline]:
                if event.get("type") == "m.room.encryption":
                    self._encrypted[chat] = True
            found.append((chat, timeline))
        return found

    async def _missed(self) -> AsyncGenerator[InboundMessage, None]:
        for chat, last in list(self._last.items()):
            base = f"{CLIENT}/rooms/{quote(chat, safe='')}"
            try:
                context = await self._api.call(
                    "GET", f"{base}/context/{quote(last, safe='')}", params={"limit": "0"}
                )
                token = str(context["end"])
                while token:
                    page = await self._api.call(
                        "GET",
                        f"{base}/messages",
                        params={"dir": "f", "from": token, "limit": str(PAGE_EVENTS)},
                    )
                    for event in page.get("chunk") or []:
                        if (message := await self._read(event, chat)) is not None:
                            yield message
                    token = str(page.get("end") or "")
            except ApiRefusal as error:
                if not error.permanent:
                    raise
                del self._last[chat]  # the room is gone, or closed to us

    async def _read(self, event: Mapping[str, Any], chat: str) -> InboundMessage | None:
        answered = answered_event(event)
        answers_us = bool(answered) and await self._is_own(chat, answered)
        direct = self._members.get(chat, 0) == 2
        return read_event(event, chat, self._identity, direct=direct, answers_us=answers_us)

    async def _is_own(self, chat: str, event: str) -> bool:
        if event not in self._own_events:
            try:
                found = await self._event(chat, event)
            except DeliveryError:
                return False
            self._own_events[event] = found.get("sender") == self._identity.user
            if len(self._own_events) > MAX_REMEMBERED:
                self._own_events.popitem(last=False)
        return self._own_events[event]

    async def _event(self, chat: str, event: str) -> dict[str, Any]:
        path = f"{CLIENT}/rooms/{quote(chat, safe='')}/event/{quote(event, safe='')}"
        found: dict[str, Any] = await self._api.call("GET", path)
        return found

    async def send(self, message: OutgoingMessage) -> str:
        chat = await self._open_chat(message.to)
        reference = ""
        if message.text:
            content = {**_content(message), **_relation(message)}
            reference = await self._put(chat, "m.room.message", content, message.key)
        for number, path in enumerate(message.files):
            content = {**await self._uploaded(path), **_relation(message)}
            sent = await self._put(chat, "m.room.message", content, f"{message.key}:file{number}")
            reference = reference or sent
        return reference

    async def _put(self, chat: str, kind: str, content: Mapping[str, Any], key: str) -> str:
        """The transaction id makes the server answer a repetition with the first event."""
        transaction = hashlib.sha256(key.encode()).hexdigest()[:32]
        path = f"{CLIENT}/rooms/{quote(chat, safe='')}/send/{kind}/{transaction}"
        try:
            answer = await self._api.call("PUT", path, content)
        except ApiRefusal:
            raise
        except DeliveryError as error:
            if not error.may_have_arrived:
                raise
            answer = await self._api.call("PUT", path, content)
        return str(answer["event_id"])

    async def _open_chat(self, to: Address) -> str:
        """The id of the room. Raises `DeliveryError` for an encrypted one."""
        chat = unescape_id(chat_of(to, self._home))
        if chat not in self._encrypted:
            path = f"{CLIENT}/rooms/{quote(chat, safe='')}/state/m.room.encryption"
            try:
                await self._api.call("GET", path)
                self._encrypted[chat] = True
            except ApiRefusal as error:
                if error.status != 404:
                    raise
                self._encrypted[chat] = False
        if self._encrypted[chat]:
            text = f"the room {chat} is encrypted: Hermes can only use rooms that are not"
            raise DeliveryError(text, permanent=True)
        return chat

    async def _uploaded(self, path: str) -> dict[str, Any]:
        file = await read_outgoing_file(path)
        headers = {"Content-Type": file.mime_type}
        answer = await self._api.call(
            "POST",
            "/_matrix/media/v3/upload",
            data=file.data,
            params={"filename": file.name},
            headers=headers,
        )
        kind = {"image": "m.image", "audio": "m.audio"}.get(file.mime_type.partition("/")[0])
        info = {"mimetype": file.mime_type, "size": len(file.data)}
        return {
            "msgtype": kind or "m.file",
            "body": file.name,
            "filename": file.name,
            "url": answer["content_uri"],
            "info": info,
        }

    async def edit(self, reference: str, message: OutgoingMessage) -> None:
        """A server accepts edits of events that are gone, so it is asked first."""
        chat = await self._open_chat(message.to)
        found = await self._event(chat, reference)
        if "redacted_because" in (found.get("unsigned") or {}):
            raise DeliveryError("the message was deleted", permanent=True)
        content = _content(message)
        edit = {
            **content,
            "body": f"* {content['body']}",
            "m.new_content": content,
            "m.relates_to": {"rel_type": "m.replace", "event_id": reference},
        }
        key = f"{message.key}:{reference}:{message.text}:{message.spans}"
        await self._put(chat, "m.room.message", edit, key)

    async def delete(self, to: Address, reference: str) -> None:
        chat = unescape_id(chat_of(to, self._home))
        transaction = hashlib.sha256(f"delete {reference}".encode()).hexdigest()[:32]
        path = f"{CLIENT}/rooms/{quote(chat, safe='')}/redact/{quote(reference, safe='')}"
        try:
            await self._api.call("PUT", f"{path}/{transaction}", {})
        except ApiRefusal as error:
            if error.status != 404:
                raise

    async def show_typing(self, to: Address) -> None:
        chat, user = unescape_id(chat_of(to, self._home)), self._identity.user
        path = f"{CLIENT}/rooms/{quote(chat, safe='')}/typing/{quote(user, safe='')}"
        await self._api.call("PUT", path, {"typing": True, "timeout": TYPING_MS})

    async def open_thread(self, to: Address, title: str, reference: str) -> Address:
        """Every event can have a thread, and none has a title."""
        chat = escape_id(chat_of(to, self._home))
        return replace(to, chat=chat, thread=escape_id(reference))

    async def fetch(self, media: MediaItem, max_bytes: int) -> bytes:
        name = media.name or media.kind
        if media.size > max_bytes:
            raise too_large(name, max_bytes)
        place = media.reference.removeprefix("mxc://")
        path = f"/_matrix/client/v1/media/download/{quote(place, safe='/')}"
        return await self._api.download(path, name, max_bytes)


def _content(message: OutgoingMessage) -> dict[str, Any]:
    """Plain text and HTML. With the empty mentions it alerts no one."""
    html = render_text(StyledText(message.text, message.spans), "html").replace("\n", "<br>")
    return {
        "msgtype": "m.text",
        "body": message.text,
        "format": "org.matrix.custom.html",
        "formatted_body": html,
        "m.mentions": {},
    }


def _relation(message: OutgoingMessage) -> dict[str, Any]:
    thread, answered = unescape_id(message.to.thread), message.reply_to
    if thread:
        relation = {
            "rel_type": "m.thread",
            "event_id": thread,
            "is_falling_back": not answered,
            "m.in_reply_to": {"event_id": answered or thread},
        }
        return {"m.relates_to": relation}
    return {"m.relates_to": {"m.in_reply_to": {"event_id": answered}}} if answered else {}
