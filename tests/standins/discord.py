"""A strict stand-in of Discord: the REST API and the gateway.

It cannot prove: compressed gateway messages, sharding, permissions of a server, for how long a
nonce is remembered, and that Discord lets the rate limits of the library pass.
"""

import asyncio
import json
import re
from typing import Any

from aiohttp import WSMsgType, web

from hermes.core.channels import Address, Channel
from hermes.gateway.channels.discord.runtime import DiscordChannel
from hermes.testing.chat_platform import ShownMessage
from standins.common import StandinBase, expect_arguments, send_half

TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"
BOT_ID, PERSON_ID = "198622483471925248", "80351110224678912"
GROUP, DIRECT, GUILD = "290926798626357999", "319674150115610528", "290926798626357250"
BOT = {"id": BOT_ID, "username": "hermes", "discriminator": "0", "avatar": None, "bot": True}
PERSON = {
    "id": PERSON_ID, "username": "alice_can_change", "discriminator": "0", "avatar": None,
    "global_name": "Alice",
}  # fmt: skip
RETRY_AFTER_S = 45.0
"""The library waits for shorter ones."""
MAX_TEXT_UNITS, MAX_NONCE, MAX_LABEL, MAX_CUSTOM_ID = 2_000, 25, 80, 100
INTENTS = (1 << 9) | (1 << 12) | (1 << 15)
CONTENT = {"content": str, "flags": int, "allowed_mentions": dict, "components": list}
SEND = {**CONTENT, "nonce": str, "enforce_nonce": bool, "message_reference": dict}


class Refusal(Exception):
    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status, self.code, self.text = status, code, text


class DiscordStandin(StandinBase):
    secrets = (TOKEN,)
    person = PERSON_ID
    group = Address("discord", GROUP)

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, dict[str, Any]] = {}
        self.channels = {GROUP: {"id": GROUP, "type": 0}, DIRECT: {"id": DIRECT, "type": 1}}
        self.attachments: dict[str, bytes] = {}
        self.uploads: dict[str, list[tuple[str, bytes]]] = {}
        self.sockets: list[web.WebSocketResponse] = []
        self.responses: list[tuple[str, int]] = []
        """Of presses: the id and the type of the answer."""
        self.events: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.resumable = True
        self.close_code = 0
        self._opened = 0
        self._count = 1_300_000_000_000_000_000
        self._nonces: dict[str, str] = {}

    # -- what people do ---------------------------------------------------------------------

    def connect(self) -> Channel:
        return DiscordChannel(TOKEN, base_url=f"{self.url}/api/v10", home=GROUP)

    async def write(self, text: str, *, group: bool = False, mention: bool = False) -> str:
        if mention:
            return await self.deliver(group=group, content=f"<@{BOT_ID}> {text}", mentions=[BOT])
        return await self.deliver(group=group, content=text)

    async def deliver(
        self,
        *,
        group: bool = False,
        channel: str = "",
        by: dict[str, Any] = PERSON,
        **content: Any,
    ) -> str:
        """A message of the person with fields as Discord names them."""
        message = self._message(channel or (GROUP if group else DIRECT), by, **content)
        await self.send_event("MESSAGE_CREATE", message)
        return str(message["id"])

    def _message(self, channel: str, author: dict[str, Any], **content: Any) -> dict[str, Any]:
        message = {
            "id": self._new_id(), "channel_id": channel, "author": author, "content": "", "type": 0,
            "timestamp": "2026-05-28T20:26:40.000000+00:00", "edited_timestamp": None, "tts": False,
            "mention_everyone": False, "mentions": [], "mention_roles": [], "attachments": [],
            "embeds": [], "pinned": False, "flags": 0, "components": [], **content,
        }  # fmt: skip
        if channel != DIRECT:
            message["guild_id"] = GUILD
        self.messages[message["id"]] = message
        return message

    async def send_event(self, kind: str, data: dict[str, Any]) -> None:
        event = {"op": 0, "t": kind, "s": len(self.events) + 1, "d": data}
        self.events.append(event)
        for socket in self.sockets[-1:]:
            await socket.send_str(json.dumps(event))

    async def repeat_last(self) -> None:
        for socket in self.sockets[-1:]:
            await socket.send_str(json.dumps(self.events[-1]))

    async def rewrite(self, reference: str, text: str) -> None:
        message = self.messages[reference]
        message |= {"content": text, "edited_timestamp": "2026-05-28T20:27:40.000000+00:00"}
        await self.send_event("MESSAGE_UPDATE", message)

    async def quote(self, reference: str, text: str) -> None:
        answered = self.messages[reference]
        await self.deliver(
            group=True,
            content=text,
            type=19,
            message_reference={"message_id": reference, "channel_id": GROUP},
            referenced_message={**answered, "referenced_message": None},
        )

    async def upload(self, name: str, data: bytes) -> None:
        self.attachments["a1"] = data
        url = f"{self.url}/attachments/a1"
        file = {
            "id": "1", "filename": name, "size": len(data), "url": url, "proxy_url": url,
            "content_type": "text/plain",
        }  # fmt: skip
        await self.deliver(attachments=[file])

    async def press(self, reference: str, data: str) -> None:
        message = self.messages[reference]
        member = {"user": PERSON, "roles": [], "joined_at": None, "deaf": False, "mute": False}
        member |= {"flags": 0, "permissions": "0"}
        await self.send_event(
            "INTERACTION_CREATE",
            {
                "id": self._new_id(), "application_id": BOT_ID, "type": 3, "token": "press-token",
                "version": 1, "guild_id": GUILD, "channel_id": message["channel_id"],
                "channel": {"id": message["channel_id"], "type": 0, "name": "ops"},
                "member": member | {"permissions": "0"}, "message": message,
                "data": {"component_type": 2, "custom_id": data}, "entitlements": [],
                "attachment_size_limit": 10_000_000, "authorizing_integration_owners": {},
            },
        )  # fmt: skip

    async def drop_connection(self) -> None:
        for socket in self.sockets:
            assert socket._req is not None and socket._req.transport is not None
            socket._req.transport.abort()
        self.sockets.clear()

    def remove(self, reference: str) -> None:
        del self.messages[reference]

    def receivers(self) -> int:
        return self._opened

    async def receiving(self) -> None:
        while not self.sockets:
            await self.wait_for_change()

    def shown(self) -> list[ShownMessage]:
        return [self._shown(each) for each in self.messages.values() if each["author"] is BOT]

    def _shown(self, message: dict[str, Any]) -> ShownMessage:
        channel = self.channels[message["channel_id"]]
        return ShownMessage(
            reference=message["id"],
            chat=str(channel.get("parent_id", channel["id"])),
            thread=str(channel["id"]) if "parent_id" in channel else "",
            text=_displayed(message["content"]),
            styled=_styled(message["content"]),
            buttons=[
                [(each["label"], each["custom_id"]) for each in row["components"]]
                for row in message["components"]
            ],
            reply_to=(message.get("message_reference") or {}).get("message_id", ""),
            files=self.uploads.get(message["id"], []),
            notifies=message["allowed_mentions"] != {"parse": []},
        )

    def _new_id(self) -> str:
        self._count += 1
        return str(self._count)

    # -- the server ---------------------------------------------------------------------------

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/gateway/", self._gateway)
        app.router.add_get("/attachments/{id}", self._attachment)
        app.router.add_route("*", "/api/v10/{path:.*}", self._call)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.calls.append(f"{request.method} {path}")
        sends = request.method == "POST" and path.endswith("/messages")
        failure = self.take_failure() if sends else None
        if failure and failure != "lost answer":
            return _failed(failure)
        try:
            if request.headers.get("Authorization") != f"Bot {TOKEN}":
                raise Refusal(401, 0, "401: Unauthorized")
            answer = await self._route(request, path.split("/"))
        except Refusal as refusal:
            body = {"code": refusal.code, "message": refusal.text}
            return _json(body, status=refusal.status)
        if failure == "lost answer":
            return await send_half(request, json.dumps(answer).encode())
        if answer is None:
            return web.Response(status=204)
        return _json(answer)

    async def _route(self, request: web.Request, parts: list[str]) -> Any:
        match [request.method, *parts]:
            case ["GET", "users", "@me"]:
                return BOT
            case ["GET", "oauth2", "applications", "@me"]:
                return {
                    "id": BOT_ID, "name": "Hermes", "description": "", "icon": None,
                    "owner": PERSON,
                    "bot_public": True, "bot_require_code_grant": False, "verify_key": "00",
                    "flags": 0, "summary": "",
                }  # fmt: skip
            case ["GET", "gateway", "bot"]:
                limits = {"total": 9, "remaining": 9, "reset_after": 1, "max_concurrency": 1}
                url = f"{self.url.replace('http', 'ws')}/gateway/"
                return {"url": url, "shards": 1, "session_start_limit": limits}
            case [_, "channels", channel, *rest]:
                return await self._route_of_channel(request, channel, rest)
            case ["POST", "interactions", press, "press-token", "callback"]:
                return self._answer(press, await request.json())
            case ["POST", "webhooks", application, "press-token"] if application == BOT_ID:
                payload = await self._payload(request, {**CONTENT}, {"content", "flags"})
                self.private_answers.append(_displayed(payload["content"]))
                return {"id": self._new_id()}
        return self._unknown(request)

    def _unknown(self, request: web.Request) -> Any:
        self.complain(f"unknown call {request.method} {request.path}")
        raise Refusal(404, 0, "404: Not Found")

    async def _route_of_channel(self, request: web.Request, channel: str, parts: list[str]) -> Any:
        match [request.method, *parts]:
            case ["GET"]:
                return self._known(channel)
            case ["GET", "messages"]:
                return self._history(channel, request)
            case ["POST", "typing"]:
                self.typing.append(channel)
                return None
            case ["POST", "messages"]:
                return await self._send(channel, request)
            case ["POST", "messages", reference, "threads"]:
                return await self._open_thread(channel, reference, request)
            case ["PATCH", "messages", reference]:
                return await self._edit(reference, request)
            case ["DELETE", "messages", reference]:
                self._existing(reference)
                del self.messages[reference]
                return None
        return self._unknown(request)

    def _known(self, channel: str) -> dict[str, Any]:
        if channel not in self.channels:
            raise Refusal(404, 10_003, "Unknown Channel")
        return self.channels[channel]

    def _existing(self, reference: str) -> dict[str, Any]:
        if reference not in self.messages:
            raise Refusal(404, 10_008, "Unknown Message")
        return self.messages[reference]

    def _history(self, channel: str, request: web.Request) -> list[dict[str, Any]]:
        after, limit = int(request.query["after"]), int(request.query["limit"])
        if limit > 100:
            self.complain("limit of the history")
        found = [
            each
            for each in self.messages.values()
            if each["channel_id"] == channel and int(each["id"]) > after
        ]
        return list(reversed(found[:limit]))

    async def _payload(
        self, request: web.Request, allowed: dict[str, Any], required: set[str]
    ) -> dict[str, Any]:
        payload: dict[str, Any]
        if request.content_type == "multipart/form-data":
            form = await request.post()
            payload = json.loads(str(form["payload_json"]))
            files = [each for each in form.values() if isinstance(each, web.FileField)]
            self._files = [(each.filename, each.file.read()) for each in files]
        else:
            payload, self._files = await request.json(), []
        found = expect_arguments(payload, allowed, required)
        if len(payload.get("content", "").encode("utf-16-le")) // 2 > MAX_TEXT_UNITS:
            raise Refusal(
                400, 50_035, "Invalid Form Body: content: Must be 2000 or fewer in length."
            )
        for row in payload.get("components", []):
            for each in row["components"]:
                if len(each["label"]) > MAX_LABEL or len(each["custom_id"]) > MAX_CUSTOM_ID:
                    found.append("button too long")
            if len(row["components"]) > 5:
                found.append("too many buttons in a row")
        if found:
            self.complain(f"{request.path}: {'; '.join(found)}")
            raise Refusal(400, 50_035, "Invalid Form Body")
        return payload

    async def _send(self, channel: str, request: web.Request) -> dict[str, Any]:
        self._known(channel)
        payload = await self._payload(request, SEND, {"content", "nonce", "allowed_mentions"})
        if len(payload["nonce"]) > MAX_NONCE:
            self.complain("nonce too long")
        if payload.get("enforce_nonce") and payload["nonce"] in self._nonces:
            return self.messages[self._nonces[payload["nonce"]]]
        if not (payload["content"] or self._files):
            raise Refusal(400, 50_006, "Cannot send an empty message")
        answered = payload.get("message_reference", {})
        if answered and answered["message_id"] not in self.messages:
            if answered.get("fail_if_not_exists", True):
                raise Refusal(400, 50_035, "Unknown message")
            payload["message_reference"] = None
        message = self._message(channel, BOT, **payload)
        self._nonces[payload["nonce"]] = message["id"]
        self.uploads[message["id"]] = self._files
        return message

    async def _edit(self, reference: str, request: web.Request) -> dict[str, Any]:
        message = self._existing(reference)
        message |= await self._payload(request, CONTENT, {"content", "components"})
        return message

    async def _open_thread(self, channel: str, reference: str, request: web.Request) -> Any:
        if channel == DIRECT:
            raise Refusal(400, 50_024, "Cannot execute action on this channel type")
        self._existing(reference)
        if reference in self.channels:
            raise Refusal(400, 160_004, "A thread has already been created for this message")
        payload = await request.json()
        if set(payload) != {"name", "auto_archive_duration"} or len(payload["name"]) > 100:
            self.complain(f"thread {payload}")
        self.channels[reference] = {"id": reference, "type": 11, "parent_id": channel}
        return self.channels[reference]

    def _answer(self, press: str, answer: dict[str, Any]) -> None:
        if press in [each for each, _ in self.responses]:
            raise Refusal(400, 40_060, "Interaction has already been acknowledged")
        self.responses.append((press, answer["type"]))
        if answer["type"] == 4:
            assert answer["data"]["flags"] == 64
            self.private_answers.append(_displayed(answer["data"]["content"]))
        self.changed()

    async def _attachment(self, request: web.Request) -> web.Response:
        if "Authorization" in request.headers:
            self.complain("the token was sent with a download")
        return web.Response(body=self.attachments[request.match_info["id"]])

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(json.dumps({"op": 10, "d": {"heartbeat_interval": 41_250}}))
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                await self._receive(socket, json.loads(message.data))
        if socket in self.sockets:
            self.sockets.remove(socket)
        return socket

    async def _receive(self, socket: web.WebSocketResponse, message: dict[str, Any]) -> None:
        data = message["d"]
        match message["op"]:
            case 1:
                await socket.send_str(json.dumps({"op": 11, "d": None}))
            case 2:
                if self.close_code:
                    await socket.close(code=self.close_code)
                    return
                if data["token"] != TOKEN or data["intents"] != INTENTS:
                    self.complain(f"identify with {data['intents']}")
                await socket.send_str(json.dumps(self._ready()))
                self._add(socket)
            case 6 if not self.resumable:
                self.events.clear()
                await socket.send_str(json.dumps({"op": 9, "d": False}))
            case 6:
                for event in self.events[data["seq"] - 1 :]:
                    await socket.send_str(json.dumps(event))
                resumed = {"op": 0, "t": "RESUMED", "s": len(self.events), "d": {}}
                await socket.send_str(json.dumps(resumed))
                self._add(socket)
            case other:
                self.complain(f"gateway operation {other}")

    def _ready(self) -> dict[str, Any]:
        data = {
            "v": 10, "user": BOT, "guilds": [{"id": GUILD, "unavailable": True}],
            "session_id": "s1", "application": {"id": BOT_ID, "flags": 0},
            "resume_gateway_url": f"{self.url.replace('http', 'ws')}/gateway/",
        }  # fmt: skip
        event = {"op": 0, "t": "READY", "s": 1, "d": data}
        self.events = [event]
        return event

    def _add(self, socket: web.WebSocketResponse) -> None:
        self._opened += 1
        self.sockets.append(socket)
        self.changed()


def _json(answer: Any, **more: Any) -> web.Response:
    """The library reads JSON only from exactly this type."""
    response = web.Response(body=json.dumps(answer).encode(), **more)
    response.headers["Content-Type"] = "application/json"
    return response


def _failed(failure: str) -> web.Response:
    if failure == "rate limit":
        body = {"message": "You are being rate limited.", "retry_after": RETRY_AFTER_S}
        headers = {"Via": "1.1 google", "Retry-After": str(RETRY_AFTER_S)}
        return _json({**body, "global": False}, status=429, headers=headers)
    if failure == "server error":
        return web.Response(status=503, text="upstream connect error")
    return _json({"code": 0, "message": "401: Unauthorized"}, status=401)


def _displayed(content: str) -> str:
    """Without Markdown: blocks of code as they are, else marks away and escapes undone."""
    if block := re.fullmatch(r"```\n(.*)\n```", content, re.DOTALL):
        return block[1]
    content = re.sub(r"(?<!\\)\[([^\]\\]*)\]\(<[^>]*>\)", r"\1", content)
    content = re.sub(r"(?<!\\)\*\*(\w+)\*\*", r"\1", content)
    return re.sub(r"\\([^A-Za-z0-9\s])", r"\1", content)


def _styled(content: str) -> dict[str, str]:
    found = {}
    if bold := re.search(r"(?<!\\)\*\*(\w+)\*\*", content):
        found["bold"] = bold[1]
    if link := re.search(r"\[(\w+)\]\(<https://example\.org/a\?b=c>\)", content):
        found["link"] = link[1]
    return found


async def wait_for_response(standin: DiscordStandin) -> None:
    async with asyncio.timeout(20):
        while not standin.responses:
            await standin.wait_for_change()
