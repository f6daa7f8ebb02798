"""A strict stand-in of a homeserver of Matrix: the client-server API.

It cannot prove: federation, encrypted rooms, how a server pages its history, and its rate limits.
"""

import html
import json
import re
from typing import Any
from urllib.parse import unquote

import anyio
from aiohttp import web

from hermes.core.channels import Address, Channel
from hermes.gateway.channels.matrix.runtime import MatrixChannel
from hermes.testing.chat_platform import ShownMessage
from standins.common import RETRY_AFTER_S, StandinBase, expect_arguments, send_half

TOKEN = "syt_aGVybWVz_qWertZuiOpasdfgHjkl_1aBcDe"
BOT, PERSON = "@hermes:example.org", "@alice:example.org"
GROUP, DIRECT, SECRET = "!ops:example.org", "!direct:example.org", "!secret:example.org"
MAX_EVENT_BYTES = 65_536
CONTENT: dict[str, Any] = {
    "msgtype": str, "body": str, "format": str, "formatted_body": str, "m.mentions": dict,
    "m.relates_to": dict, "m.new_content": dict, "filename": str, "url": str, "info": dict,
}  # fmt: skip


class MatrixStandin(StandinBase):
    secrets = (TOKEN,)
    person = PERSON
    group = Address("matrix", GROUP.replace(":", "|"))

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []
        self.media: dict[str, tuple[str, bytes]] = {}
        self.joined: list[str] = []
        self.invited: list[str] = []
        self._transactions: dict[str, str] = {}
        self._ready = False
        self._syncs = 0
        self._dropped = False

    # -- what people do ---------------------------------------------------------------------

    def connect(self) -> Channel:
        self._ready = False
        return MatrixChannel(self.url, TOKEN, home=GROUP)

    async def write(self, text: str, *, group: bool = False, mention: bool = False) -> str:
        content: dict[str, Any] = {"body": f"hermes: {text}" if mention else text}
        if mention:
            content["m.mentions"] = {"user_ids": [BOT]}
        return self.deliver(group=group, **content)

    def deliver(self, *, group: bool = False, by: str = PERSON, **content: Any) -> str:
        """A message of the person with fields as Matrix names them."""
        return self._add(GROUP if group else DIRECT, by, {"msgtype": "m.text", **content})

    def _add(self, room: str, sender: str, content: dict[str, Any]) -> str:
        event = {
            "type": "m.room.message", "event_id": f"$event{len(self.events):06}", "room": room,
            "sender": sender, "origin_server_ts": 1_780_000_000_000, "content": content,
        }  # fmt: skip
        self.events.append(event)
        self.changed()
        return str(event["event_id"])

    async def repeat_last(self) -> None:
        self.events.append(self.events[-1])
        self.changed()

    async def rewrite(self, reference: str, text: str) -> None:
        new = {"msgtype": "m.text", "body": text}
        relation = {"rel_type": "m.replace", "event_id": reference}
        content = {"body": f"* {text}", "m.new_content": new, "m.relates_to": relation}
        self.deliver(**content)

    async def quote(self, reference: str, text: str) -> None:
        body = f"> <{BOT}> a question\n\n{text}"
        relation = {"m.in_reply_to": {"event_id": reference}}
        self.deliver(group=True, body=body, **{"m.relates_to": relation})

    async def upload(self, name: str, data: bytes) -> None:
        self.media["example.org/m1"] = (name, data)
        info = {"size": len(data), "mimetype": "text/plain"}
        self.deliver(msgtype="m.file", body=name, url="mxc://example.org/m1", info=info)

    async def press(self, reference: str, data: str) -> None:
        raise AssertionError("there are no buttons")

    async def drop_connection(self) -> None:
        self._dropped = True
        self.changed()

    def remove(self, reference: str) -> None:
        self._find(reference)["unsigned"] = {"redacted_because": {}}

    def receivers(self) -> int:
        return self._syncs

    async def receiving(self) -> None:
        while not self._ready:
            await self.wait_for_change()

    def shown(self) -> list[ShownMessage]:
        own = [each for each in self.events if each["sender"] == BOT and "unsigned" not in each]
        edits = {
            each["content"]["m.relates_to"]["event_id"]: each["content"]["m.new_content"]
            for each in own
            if "m.new_content" in each["content"]
        }
        return [
            self._shown(each, edits.get(each["event_id"], each["content"]))
            for each in own
            if "m.new_content" not in each["content"]
        ]

    def _shown(self, event: dict[str, Any], content: dict[str, Any]) -> ShownMessage:
        relation = event["content"].get("m.relates_to", {})
        thread = relation.get("event_id", "") if "rel_type" in relation else ""
        formatted = content.get("formatted_body", "")
        is_file = content["msgtype"] == "m.file"
        shown = html.unescape(re.sub(r"<[^<>]*>", "", formatted.replace("<br>", "\n")))
        if not is_file and shown != content["body"]:
            self.complain(f"two texts: {shown!r} and {content['body']!r}")
        return ShownMessage(
            reference=event["event_id"],
            chat=event["room"].replace(":", "|"),
            thread=thread,
            text="" if is_file else shown,
            styled={
                name: found[1]
                for name, pattern in (("bold", "<strong>(.*?)</strong>"), ("link", "<a .*?>(.*?)<"))
                if (found := re.search(pattern, formatted))
            },
            reply_to=relation.get("m.in_reply_to", {}).get("event_id", ""),
            files=[self.media[content["url"].removeprefix("mxc://")]] if is_file else [],
            notifies=not is_file and content["m.mentions"] != {},
        )

    # -- the server ---------------------------------------------------------------------------

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/_matrix/{path:.*}", self._call)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _refusal(401, "M_UNKNOWN_TOKEN")
        raw = request.rel_url.raw_path.removeprefix("/_matrix/")
        parts = [unquote(each) for each in raw.split("/")]
        sends = "send" in parts and request.method == "PUT"
        failure = self.take_failure() if sends else None
        if failure and failure != "lost answer":
            return _failed(failure)
        answer = await self._route(request, parts)
        if answer is None:
            return await send_half(request, b'{"next_batch": "x", "rooms": {}}')
        if isinstance(answer, web.Response):
            return answer
        if failure == "lost answer":
            return await send_half(request, json.dumps(answer).encode())
        return web.json_response(answer)

    async def _route(self, request: web.Request, parts: list[str]) -> Any:
        match [request.method, *parts]:
            case ["GET", "client", "v3", "account", "whoami"]:
                return {"user_id": BOT, "device_id": "D1"}
            case ["GET", "client", "v3", "sync"]:
                return await self._sync(request)
            case ["POST", "client", "v3", "join", room]:
                self.joined.append(room)
                self.invited.remove(room)
                return {"room_id": room}
            case ["POST", "media", "v3", "upload"]:
                self.media["example.org/up1"] = (request.query["filename"], await request.read())
                return {"content_uri": "mxc://example.org/up1"}
            case ["GET", "client", "v1", "media", "download", server, id]:
                return web.Response(body=self.media[f"{server}/{id}"][1])
            case [_, "client", "v3", "rooms", room, *rest]:
                return await self._route_of_room(request, room, rest)
        return self._unknown(request)

    def _unknown(self, request: web.Request) -> web.Response:
        self.complain(f"unknown call {request.method} {request.path}")
        return _refusal(404, "M_UNRECOGNIZED")

    async def _route_of_room(self, request: web.Request, room: str, parts: list[str]) -> Any:
        match [request.method, *parts]:
            case ["PUT", "send", "m.room.message", transaction]:
                return self._send(room, transaction, await request.json())
            case ["PUT", "redact", event, _]:
                found = self._find(event)
                if not found:
                    return _refusal(404, "M_NOT_FOUND")
                found["unsigned"] = {"redacted_because": {}}
                return {"event_id": "$redaction"}
            case ["PUT", "typing", user] if user == BOT:
                self.typing.append(room.replace(":", "|"))
                return {}
            case ["GET", "state", "m.room.encryption"]:
                if room == SECRET:
                    return {"algorithm": "m.megolm.v1.aes-sha2"}
                return _refusal(404, "M_NOT_FOUND")
            case ["GET", "event", event]:
                return self._find(event) or _refusal(404, "M_NOT_FOUND")
            case ["GET", "context", event]:
                numbers = [n for n, each in enumerate(self.events) if each["event_id"] == event]
                return {"end": f"t{numbers[0] + 1}"} if numbers else _refusal(404, "M_NOT_FOUND")
            case ["GET", "messages"]:
                start = int(request.query["from"].removeprefix("t"))
                later = [each for each in self.events[start:] if each["room"] == room]
                return {"chunk": later[:2], **({"end": f"t{start + 2}"} if later[2:] else {})}
        return self._unknown(request)

    def _find(self, event: str) -> dict[str, Any]:
        return next((each for each in self.events if each["event_id"] == event), {})

    def _send(self, room: str, transaction: str, content: dict[str, Any]) -> Any:
        if found := expect_arguments(content, CONTENT, {"msgtype", "body"}):
            self.complain(f"send: {'; '.join(found)}")
        if len(json.dumps(content)) > MAX_EVENT_BYTES:
            return _refusal(413, "M_TOO_LARGE")
        if room not in (GROUP, DIRECT):
            return _refusal(403, "M_FORBIDDEN")
        if transaction not in self._transactions:
            self._transactions[transaction] = self._add(room, BOT, content)
        return {"event_id": self._transactions[transaction]}

    async def _sync(self, request: web.Request) -> Any:
        since = request.query.get("since")
        rooms: dict[str, Any] = {}
        self._syncs += 1
        self._ready = True
        self.changed()
        if since is None:
            rooms["join"] = {
                room: {"summary": {"m.joined_member_count": count}, "timeline": {"events": []}}
                for room, count in ((GROUP, 5), (DIRECT, 2))
            }
            rooms["invite"] = {room: {} for room in self.invited}
            return {"next_batch": f"s{len(self.events)}", "rooms": rooms}
        start = int(since.removeprefix("s"))
        with anyio.move_on_after(int(request.query["timeout"]) / 1000):
            while len(self.events) <= start and not self._dropped:
                await self.wait_for_change()
        if self._dropped:
            self._dropped = False
            return None
        for event in self.events[start:]:
            timeline = rooms.setdefault("join", {}).setdefault(event["room"], {"timeline": {}})
            timeline["timeline"].setdefault("events", []).append(event)
        return {"next_batch": f"s{len(self.events)}", "rooms": rooms}


def _refusal(status: int, code: str) -> web.Response:
    return web.json_response({"errcode": code, "error": "refused"}, status=status)


def _failed(failure: str) -> web.Response:
    if failure == "rate limit":
        body = {"errcode": "M_LIMIT_EXCEEDED", "error": "", "retry_after_ms": RETRY_AFTER_S * 1000}
        return web.json_response(body, status=429)
    if failure == "server error":
        return _refusal(502, "M_UNKNOWN")
    return _refusal(401, "M_UNKNOWN_TOKEN")
