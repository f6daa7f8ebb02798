"""The Mattermost channel: its WebSocket to receive, its REST API to send.

Mattermost repeats nothing: after a new connection the posts of each known chat are read from the
last one that was acknowledged. A pending post id keeps a post from being created twice.
"""

import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any, Self

import aiohttp
import anyio
import msgspec
from msgspec.structs import replace

from hermes.core.channels import Address, InboundMessage, MediaItem, OutgoingMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.files import chat_of, read_outgoing_file
from hermes.gateway.channels.inbound.mattermost_posts import (
    MattermostIdentity,
    ReceivedPost,
    read_event,
    read_post,
)
from hermes.gateway.channels.json_api import ApiRefusal, JsonApi, channel_failed, too_large
from hermes.gateway.markdown import StyledText, render_text
from hermes.gateway.settings import MattermostSettings

HEARTBEAT_S = 30.0
PAGE_POSTS = 200
MAX_REMEMBERED_THREADS = 1_000
TOKEN_ADVICE = "create one for the bot under Integrations, Bot Accounts"


def open_channel(settings: MattermostSettings, secrets: Mapping[str, str]) -> "MattermostChannel":
    return MattermostChannel(settings.url, secrets["MATTERMOST_TOKEN"], home=settings.home_chat)


class MattermostChannel:
    """Sends and receives as one bot. `home` is the id of the channel for messages without one."""

    typing_interval_s = 4.0

    def __init__(self, url: str, token: str, *, home: str = "", name: str = "mattermost") -> None:
        self.name, self._home = name, home
        self._api = JsonApi(
            "Mattermost",
            f"{url.rstrip('/')}/api/v4",
            headers={"Authorization": f"Bearer {token}"},
            secrets=[token],
            token_advice=TOKEN_ADVICE,
            describe=lambda answer: str(answer.get("message", "")),
        )
        self._last: dict[str, str] = {}
        """By channel: the last post that was acknowledged."""
        self._own_threads: OrderedDict[str, bool] = OrderedDict()
        """By first post of a thread: whether it is ours."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._api)
            try:
                me = await self._api.call("GET", "/users/me")
            except DeliveryError as error:
                raise channel_failed(error) from None
            self._identity = MattermostIdentity(self.name, str(me["id"]), str(me["username"]))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()

    def resume(self, last: Mapping[Address, str]) -> None:
        """Posts after these are delivered when `listen` begins. Threads belong to their channel,
        so that of several the last one counts."""
        for address, reference in last.items():
            self._last[address.chat] = reference

    async def listen(self) -> AsyncIterator[InboundMessage]:
        while True:
            async with aclosing(self._deliveries()) as deliveries:
                async for message in deliveries:
                    yield message
                    if not message.edited:
                        self._last[message.address.chat] = message.reference

    async def _deliveries(self) -> AsyncGenerator[InboundMessage, None]:
        """Ends with the connection. Raises `ChannelFailed` when there is none."""
        url = f"{self._api.base_url}/websocket"
        try:
            async with self._api.session.ws_connect(url, heartbeat=HEARTBEAT_S) as socket:
                async with aclosing(self._missed()) as missed:
                    async for old in missed:
                        yield old
                async for frame in socket:
                    if frame.type != aiohttp.WSMsgType.TEXT:
                        continue
                    received = read_event(msgspec.json.decode(frame.data))
                    if received and (message := await self._read(received)) is not None:
                        yield message
        except aiohttp.ClientError as error:
            text = f"Mattermost cannot be reached: {type(error).__name__}"
            raise ChannelFailed(text) from None

    async def _missed(self) -> AsyncGenerator[InboundMessage, None]:
        for chat, last in list(self._last.items()):
            path = f"/channels/{chat}/posts?after={last}&per_page={PAGE_POSTS}"
            try:
                page = await self._api.call("GET", path)
                kind = (await self._api.call("GET", f"/channels/{chat}")).get("type")
            except DeliveryError as error:
                if not error.permanent:
                    raise channel_failed(error) from None
                del self._last[chat]  # the channel is gone, or closed to us
                continue
            for id in reversed(page["order"]):
                post = page["posts"][id]
                named = f"@{self._identity.username}" in str(post.get("message"))
                mentions = (self._identity.user,) if named else ()
                received = ReceivedPost(post, direct=kind == "D", mentions=mentions)
                if (message := await self._read(received)) is not None:
                    yield message

    async def _read(self, received: ReceivedPost) -> InboundMessage | None:
        root = str(received.post.get("root_id") or "")
        answers_us = bool(root) and await self._is_own(root)
        return read_post(received, self._identity, answers_us=answers_us)

    async def _is_own(self, root: str) -> bool:
        if root not in self._own_threads:
            try:
                post = await self._api.call("GET", f"/posts/{root}")
            except DeliveryError:
                return False
            self._remember_thread(root, post.get("user_id") == self._identity.user)
        return self._own_threads[root]

    def _remember_thread(self, root: str, own: bool) -> None:
        self._own_threads[root] = own
        if len(self._own_threads) > MAX_REMEMBERED_THREADS:
            self._own_threads.popitem(last=False)

    async def send(self, message: OutgoingMessage) -> str:
        chat = chat_of(message.to, self._home)
        digest = hashlib.sha256(message.key.encode()).hexdigest()[:32]
        payload: dict[str, Any] = {
            "channel_id": chat,
            "message": _rendered(message),
            "root_id": message.to.thread or message.reply_to,
            "pending_post_id": f"{self._identity.user}:{digest}",
        }
        if message.files:
            payload["file_ids"] = [await self._upload(chat, each) for each in message.files]
        try:
            post = await self._create(payload)
        except ApiRefusal as error:
            if not message.reply_to or message.to.thread or not _is_about_root(error):
                raise
            post = await self._create({**payload, "root_id": ""})  # what it answers is gone
        return str(post["id"])

    async def _create(self, payload: Mapping[str, Any]) -> Any:
        try:
            return await self._api.call("POST", "/posts", payload)
        except ApiRefusal:
            raise
        except DeliveryError as error:
            if not error.may_have_arrived:
                raise
            return await self._api.call("POST", "/posts", payload)  # its pending id is known

    async def _upload(self, chat: str, path: str) -> str:
        file = await read_outgoing_file(path)
        form = aiohttp.FormData()
        form.add_field("channel_id", chat)
        form.add_field("files", file.data, filename=file.name, content_type=file.mime_type)
        answer = await self._api.call("POST", "/files", data=form)
        return str(answer["file_infos"][0]["id"])

    async def edit(self, reference: str, message: OutgoingMessage) -> None:
        await self._api.call("PUT", f"/posts/{reference}/patch", {"message": _rendered(message)})

    async def delete(self, to: Address, reference: str) -> None:
        try:
            await self._api.call("DELETE", f"/posts/{reference}")
        except ApiRefusal as error:
            if error.status != 404:
                raise

    async def show_typing(self, to: Address) -> None:
        payload = {"channel_id": chat_of(to, self._home), "parent_id": to.thread}
        await self._api.call("POST", f"/users/{self._identity.user}/typing", payload)

    async def open_thread(self, to: Address, title: str, reference: str) -> Address:
        """Every post can have a thread, and none has a title."""
        return replace(to, chat=chat_of(to, self._home), thread=reference)

    async def fetch(self, media: MediaItem, max_bytes: int) -> bytes:
        name = media.name or media.kind
        if media.size > max_bytes:
            raise too_large(name, max_bytes)
        return await self._api.download(f"/files/{media.reference}", name, max_bytes)


def _rendered(message: OutgoingMessage) -> str:
    """Mattermost calls people by an escaped @ as well: an invisible space keeps it from that."""
    text = render_text(StyledText(message.text, message.spans), "markdown")
    return text.replace("\\@", "@\u200b")


def _is_about_root(error: ApiRefusal) -> bool:
    return isinstance(error.answer, dict) and "root_id" in str(error.answer.get("id", ""))
