"""A strict stand-in of Mattermost: the REST API and its WebSocket.

It cannot prove: permissions of channels, plug-ins of a server, for how long a pending post id is
remembered, and how a server parses mentions.
"""

import json
import re
from typing import Any

from aiohttp import web

from hermes.core.channels import Address, Channel
from hermes.gateway.channels.mattermost.runtime import MattermostChannel
from hermes.testing.chat_platform import ShownMessage
from standins.common import RETRY_AFTER_S, StandinBase, expect_arguments, send_half

TOKEN = "q1w2e3r4t5z6u7i8o9p0asdfgh"
BOT, PERSON = "botbotbotbotbotbotbotbotbo", "aliceidaliceidaliceidalice"
GROUP, DIRECT = "opschannelopschannelopscha", "directchanneldirectchannel"
MAX_MESSAGE_CHARS = 16_383
CREATE = {
    "channel_id": str, "message": str, "root_id": str, "pending_post_id": str, "file_ids": list,
}  # fmt: skip


class MattermostStandin(StandinBase):
    secrets = (TOKEN,)
    person = PERSON
    group = Address("mattermost", GROUP)

    def __init__(self) -> None:
        super().__init__()
        self.posts: dict[str, dict[str, Any]] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.sockets: list[web.WebSocketResponse] = []
        self._pending: dict[str, str] = {}
        self._opened = 0
        self._count = 0
        self._last: dict[str, Any] = {}

    # -- what people do ---------------------------------------------------------------------

    def connect(self) -> Channel:
        return MattermostChannel(self.url, TOKEN, home=GROUP)

    async def write(self, text: str, *, group: bool = False, mention: bool = False) -> str:
        text = f"@hermes {text}" if mention else text
        return await self.deliver(group=group, mentions=[BOT] if mention else [], message=text)

    async def deliver(
        self, *, group: bool = False, mentions: list[str] | None = None, **content: Any
    ) -> str:
        """A post of the person with fields as Mattermost names them."""
        post = self._new_post(GROUP if group else DIRECT, PERSON, **content)
        await self._send_event("posted", post, mentions or [])
        return str(post["id"])

    def _new_post(self, channel: str, user: str, **content: Any) -> dict[str, Any]:
        self._count += 1
        post = {
            "id": f"post{self._count:022}", "create_at": 1_780_000_000_000 + self._count,
            "edit_at": 0, "delete_at": 0, "user_id": user, "channel_id": channel, "root_id": "",
            "message": "", "type": "", "props": {}, "metadata": {}, **content,
        }  # fmt: skip
        self.posts[str(post["id"])] = post
        return post

    async def _send_event(self, kind: str, post: dict[str, Any], mentions: list[str]) -> None:
        direct = post["channel_id"] == DIRECT
        data = {"channel_type": "D" if direct else "O", "post": json.dumps(post)}
        data |= {"sender_name": "@alice_can_change"}
        if mentions:
            data["mentions"] = json.dumps(mentions)
        self._last = {"event": kind, "data": data, "seq": self._count}
        await self.repeat_last()

    async def repeat_last(self) -> None:
        for socket in self.sockets[-1:]:
            await socket.send_str(json.dumps(self._last))

    async def rewrite(self, reference: str, text: str) -> None:
        self.posts[reference] |= {"message": text, "edit_at": 1_780_000_009_000}
        await self._send_event("post_edited", self.posts[reference], [])

    async def quote(self, reference: str, text: str) -> None:
        await self.deliver(group=True, message=text, root_id=reference)

    async def upload(self, name: str, data: bytes) -> None:
        self.files["file1"] = (name, data)
        info = {"id": "file1", "name": name, "size": len(data), "mime_type": "text/plain"}
        await self.deliver(file_ids=["file1"], metadata={"files": [info]})

    async def press(self, reference: str, data: str) -> None:
        raise AssertionError("there are no buttons")

    async def drop_connection(self) -> None:
        for socket in self.sockets:
            assert socket._req is not None and socket._req.transport is not None
            socket._req.transport.abort()
        self.sockets.clear()

    def remove(self, reference: str) -> None:
        del self.posts[reference]

    def receivers(self) -> int:
        return self._opened

    async def receiving(self) -> None:
        while not self.sockets:
            await self.wait_for_change()

    def shown(self) -> list[ShownMessage]:
        return [
            ShownMessage(
                reference=each["id"],
                chat=each["channel_id"],
                thread=each["root_id"],
                text=_displayed(each["message"]),
                files=[self.files[id] for id in each.get("file_ids", [])],
                notifies=bool(re.search(r"@(all|channel|everyone|here)\b", _mentions(each))),
            )
            for each in self.posts.values()
            if each["user_id"] == BOT
        ]

    # -- the server ---------------------------------------------------------------------------

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/api/v4/websocket", self._socket)
        app.router.add_route("*", "/api/v4/{path:.*}", self._call)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _refusal(401, "api.context.session_expired.app_error")
        parts = request.match_info["path"].split("/")
        failure = self.take_failure() if (request.method, parts) == ("POST", ["posts"]) else None
        if failure and failure != "lost answer":
            return _failed(failure)
        answer = await self._route(request, parts)
        if isinstance(answer, web.Response):
            return answer
        if failure == "lost answer":
            return await send_half(request, json.dumps(answer).encode())
        return web.json_response(answer)

    async def _route(self, request: web.Request, parts: list[str]) -> Any:
        match [request.method, *parts]:
            case ["GET", "users", "me"]:
                return {"id": BOT, "username": "hermes"}
            case ["POST", "users", user, "typing"] if user == BOT:
                payload = await request.json()
                assert set(payload) == {"channel_id", "parent_id"}
                self.typing.append(payload["channel_id"])
                return {"status": "OK"}
            case ["GET", "channels", channel, "posts"]:
                return self._posts_after(channel, request.query["after"])
            case ["GET", "channels", channel]:
                return {"id": channel, "type": "D" if channel == DIRECT else "O"}
            case ["POST", "files"]:
                form = await request.post()
                file = form["files"]
                assert isinstance(file, web.FileField) and form["channel_id"]
                self.files["up1"] = (file.filename, file.file.read())
                return {"file_infos": [{"id": "up1"}]}
            case ["GET", "files", id]:
                return web.Response(body=self.files[id][1])
            case [_, "posts", *rest]:
                return await self._route_of_post(request, rest)
        return self._unknown(request)

    def _unknown(self, request: web.Request) -> web.Response:
        self.complain(f"unknown call {request.method} {request.path}")
        return _refusal(404, "api.context.404.app_error")

    async def _route_of_post(self, request: web.Request, parts: list[str]) -> Any:
        if request.method == "POST" and not parts:
            return self._create(await request.json())
        post = self.posts.get(parts[0])
        if post is None:
            return _refusal(404, "app.post.get.app_error")
        match [request.method, *parts[1:]]:
            case ["GET"]:
                return post
            case ["DELETE"]:
                del self.posts[parts[0]]
                return {"status": "OK"}
            case ["PUT", "patch"]:
                payload = await request.json()
                assert set(payload) == {"message"}
                post.update(payload)
                return post
        return self._unknown(request)

    def _create(self, payload: dict[str, Any]) -> Any:
        if found := expect_arguments(payload, CREATE, {"channel_id", "message"}):
            self.complain(f"post: {'; '.join(found)}")
        if len(payload["message"]) > MAX_MESSAGE_CHARS:
            return _refusal(400, "model.post.is_valid.message_length.app_error")
        if payload["channel_id"] not in (GROUP, DIRECT):
            return _refusal(403, "api.context.permissions.app_error")
        pending = payload.pop("pending_post_id")
        if pending in self._pending:
            return self.posts[self._pending[pending]]
        if payload["root_id"] and payload["root_id"] not in self.posts:
            return _refusal(400, "api.post.create_post.root_id.app_error")
        post = self._new_post(payload.pop("channel_id"), BOT, **payload)
        self._pending[pending] = str(post["id"])
        return post

    def _posts_after(self, channel: str, after: str) -> dict[str, Any]:
        found = [each for each in self.posts.values() if each["channel_id"] == channel]
        later = {each["id"]: each for each in found if each["id"] > after}
        return {"order": sorted(later, reverse=True), "posts": later}

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.complain("a socket without a token")
        await socket.send_str(json.dumps({"event": "hello", "data": {}, "seq": 0}))
        self._opened += 1
        self.sockets.append(socket)
        self.changed()
        async for _ in socket:
            pass
        if socket in self.sockets:
            self.sockets.remove(socket)
        return socket


def _refusal(status: int, id: str) -> web.Response:
    return web.json_response({"id": id, "message": id, "status_code": status}, status=status)


def _failed(failure: str) -> web.Response:
    if failure == "rate limit":
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return web.Response(status=429, text="limit exceeded", headers=headers)
    if failure == "server error":
        return _refusal(500, "app.post.save.app_error")
    return _refusal(401, "api.context.session_expired.app_error")


def _mentions(post: dict[str, Any]) -> str:
    """The text in which the server looks for mentions: without code."""
    return re.sub(r"```.*?```", "", str(post["message"]), flags=re.DOTALL)


def _displayed(text: str) -> str:
    """Without Markdown: blocks of code as they are, else marks away and escapes undone."""
    if block := re.fullmatch(r"```\n(.*)\n```", text, re.DOTALL):
        return block[1]
    text = re.sub(r"(?<!\\)\[([^\]\\]*)\]\(<[^>]*>\)", r"\1", text)
    text = re.sub(r"(?<!\\)\*\*(\w+)\*\*", r"\1", text)
    return re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text).replace("\u200b", "")
