"""A strict stand-in of Slack: the Web API and socket mode.

It cannot prove: when Slack delivers an envelope again (here: to the next connection), which error
it gives for an answer to a message that is gone, that an app has its scopes, and its rate limits.
"""

import json
import re
from typing import Any

import anyio
from aiohttp import WSMsgType, web

from hermes.core.channels import Address, Channel
from hermes.gateway.channels.inbound.slack_socket import SocketTiming
from hermes.gateway.channels.slack.runtime import SlackChannel
from hermes.testing.chat_platform import ShownMessage
from standins.common import RETRY_AFTER_S, StandinBase, expect_arguments, send_half

BOT_TOKEN = "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcBrzbqgy"
APP_TOKEN = "xapp-1-A123ABC456-1234567890123-abcdef0123456789"
BOT, PERSON = "U0BOTBOT1", "U024BE7LH"
GROUP, DIRECT = "C0OPS0001", "D0ALICE01"
MAX_TEXT, MAX_BLOCK_TEXT, MAX_BUTTON_TEXT, MAX_VALUE, MAX_BLOCKS = 40_000, 3_000, 75, 2_000, 50

CONTENT = {"text": str, "blocks": list, "metadata": dict}
METHODS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "auth.test": ({}, set()),
    "apps.connections.open": ({}, set()),
    "chat.postMessage": (
        {
            **CONTENT,
            "channel": str,
            "thread_ts": str,
            "unfurl_links": bool,
            "unfurl_media": bool,
        },
        {"channel", "text"},
    ),
    "chat.update": ({**CONTENT, "channel": str, "ts": str}, {"channel", "ts", "text", "blocks"}),
    "chat.delete": ({"channel": str, "ts": str}, {"channel", "ts"}),
    "chat.postEphemeral": (
        {"channel": str, "user": str, "text": str, "thread_ts": str},
        {"channel", "user", "text"},
    ),
    "conversations.history": (
        {"channel": str, "limit": str, "include_all_metadata": str},
        {"channel"},
    ),
    "conversations.replies": (
        {"channel": str, "ts": str, "limit": str, "include_all_metadata": str},
        {"channel", "ts"},
    ),
    "reactions.add": (
        {"channel": str, "name": str, "timestamp": str},
        {"channel", "name", "timestamp"},
    ),
    "reactions.remove": (
        {"channel": str, "name": str, "timestamp": str},
        {"channel", "name", "timestamp"},
    ),
    "files.info": ({"file": str}, {"file"}),
    "files.getUploadURLExternal": ({"filename": str, "length": str}, {"filename", "length"}),
    "files.completeUploadExternal": (
        {"files": str, "channel_id": str, "thread_ts": str},
        {"files", "channel_id"},
    ),
}


class SlackStandin(StandinBase):
    secrets = (BOT_TOKEN, APP_TOKEN)
    person = PERSON
    group = Address("slack", GROUP)

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, dict[str, Any]] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.reactions: set[tuple[str, str]] = set()
        self.envelopes: dict[str, dict[str, Any]] = {}
        """Not acknowledged yet."""
        self.sockets: list[web.WebSocketResponse] = []
        self.calls: list[str] = []
        self.app_token = APP_TOKEN
        self.answers_pings = True
        self.timing = SocketTiming(ping_interval_s=0.5, check_interval_s=0.05)
        self._opened = 0
        self._count = 0
        self._last: dict[str, Any] = {}

    # -- what people do ---------------------------------------------------------------------

    def connect(self) -> Channel:
        return SlackChannel(
            BOT_TOKEN, APP_TOKEN, base_url=f"{self.url}/api", home=GROUP, timing=self.timing
        )

    async def write(self, text: str, *, group: bool = False, mention: bool = False) -> str:
        return await self.deliver(group=group, text=f"<@{BOT}> {text}" if mention else text)

    async def deliver(self, *, group: bool = False, **content: Any) -> str:
        """A message of the person with fields as the Events API names them."""
        ts = self._new_ts()
        event = {
            "type": "message",
            "channel": GROUP if group else DIRECT,
            "channel_type": "channel" if group else "im",
            "user": PERSON,
            "ts": ts,
            **content,
        }
        self.messages[ts] = event
        await self.send_event(event)
        return ts

    async def send_event(self, event: dict[str, Any]) -> None:
        self._count += 1
        payload = {"type": "event_callback", "event_id": f"Ev{self._count}", "event": event}
        await self.send_envelope("events_api", payload)

    async def send_envelope(self, kind: str, payload: dict[str, Any]) -> None:
        self._count += 1
        envelope = {"type": kind, "envelope_id": f"envelope-{self._count}", "payload": payload}
        self.envelopes[envelope["envelope_id"]] = envelope
        self._last = envelope
        await self._push(envelope)

    async def _push(self, envelope: dict[str, Any]) -> None:
        if self.sockets:
            await self.sockets[-1].send_str(json.dumps(envelope))

    async def repeat_last(self) -> None:
        again = {**self._last, "retry_attempt": 1, "retry_reason": "timeout"}
        self.envelopes[again["envelope_id"]] = again
        await self._push(again)

    async def rewrite(self, reference: str, text: str) -> None:
        before = self.messages[reference]
        after = {**before, "text": text, "edited": {"user": PERSON, "ts": self._new_ts()}}
        event = {
            "type": "message",
            "subtype": "message_changed",
            "channel": before["channel"],
            "channel_type": before["channel_type"],
            "ts": self._new_ts(),
            "message": after,
            "previous_message": before,
        }
        await self.send_event(event)

    async def quote(self, reference: str, text: str) -> None:
        parent = self.messages[reference]
        await self.deliver(
            group=True, text=text, thread_ts=reference, parent_user_id=parent["user"]
        )

    async def upload(self, name: str, data: bytes) -> None:
        self.files["F1"] = (name, data)
        file = {"id": "F1", "name": name, "size": len(data), "mimetype": "text/plain"}
        await self.deliver(text="", subtype="file_share", files=[file])

    async def press(self, reference: str, data: str) -> None:
        message = self.messages[reference]
        payload = {
            "type": "block_actions",
            "user": {"id": PERSON, "name": "alice_can_change"},
            "channel": {"id": message["channel"]},
            "message": message,
            "response_url": f"{self.url}/response",
            "actions": [{"type": "button", "value": data, "action_ts": self._new_ts()}],
        }
        await self.send_envelope("interactive", payload)

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
        return [
            ShownMessage(
                reference=each["ts"],
                chat=each["channel"],
                thread=each.get("thread_ts") or "",
                text=self._displayed(each),
                styled=self._styled(each),
                buttons=[
                    [(button["text"]["text"], button["value"]) for button in block["elements"]]
                    for block in each.get("blocks", [])
                    if block["type"] == "actions"
                ],
                files=each.get("uploaded", []),
                notifies="<!" in each["text"] or "<@" in each["text"],
            )
            for each in self.messages.values()
            if each["user"] == BOT
        ]

    def _displayed(self, message: dict[str, Any]) -> str:
        raw = self._raw(message)
        text = re.sub(r"<https?:[^|>]*\|([^>]*)>", r"\1", raw)
        if block := re.fullmatch(r"```\n(.*)\n```", raw, re.DOTALL):
            text = block[1]
        else:
            text = re.sub(r"([*_~])(?!\u200b)(\w[^*_~\u200b]*)\1(?!\u200b)", r"\2", text)
        text = text.replace("\u200b", "")
        return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")

    def _styled(self, message: dict[str, Any]) -> dict[str, str]:
        raw, found = self._raw(message), {}
        if bold := re.search(r"\*(?!\u200b)(\w+)\*(?!\u200b)", raw):
            found["bold"] = bold[1]
        if link := re.search(r"<https://example\.org/a\?b=c\|(\w+)>", raw):
            found["link"] = link[1]
        return found

    def _raw(self, message: dict[str, Any]) -> str:
        sections = [each for each in message.get("blocks", []) if each["type"] == "section"]
        return "".join(each["text"]["text"] for each in sections) or str(message["text"])

    def _new_ts(self) -> str:
        self._count += 1
        return f"1780000000.{self._count:06}"

    # -- the server ---------------------------------------------------------------------------

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/api/{method}", self._call)
        app.router.add_get("/socket", self._socket)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/files/{file}", self._download)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.calls.append(method)
        token = self.app_token if method == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("Authorization") != f"Bearer {token}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        failure = self.take_failure() if method == "chat.postMessage" else None
        if failure and failure != "lost answer":
            return _failed(failure)
        arguments = await _read_arguments(request)
        if problem := self._check(method, arguments):
            self.complain(f"{method}: {problem}")
            return web.json_response({"ok": False, "error": "invalid_arguments"})
        answer = getattr(self, f"_{method.replace('.', '_')}")(**arguments)
        body = answer if isinstance(answer, dict) else {"ok": False, "error": answer}
        if failure == "lost answer":
            return await send_half(request, json.dumps(body).encode())
        return web.json_response({"ok": True, **body})

    def _check(self, method: str, arguments: dict[str, Any]) -> str:
        if method not in METHODS:
            return "unknown method"
        found = expect_arguments(arguments, *METHODS[method])
        if len(arguments.get("text", "")) > MAX_TEXT:
            found.append("msg_too_long")
        blocks = arguments.get("blocks", [])
        if len(blocks) > MAX_BLOCKS:
            found.append("too many blocks")
        for block in blocks:
            if block["type"] == "section" and len(block["text"]["text"]) > MAX_BLOCK_TEXT:
                found.append("block too long")
            for each in block.get("elements", []):
                label = each["text"]["text"]
                if len(label) > MAX_BUTTON_TEXT or len(each["value"]) > MAX_VALUE:
                    found.append("button too long")
        return "; ".join(found)

    def _auth_test(self) -> dict[str, Any]:
        return {"user_id": BOT, "bot_id": "B1", "team_id": "T1", "url": self.url}

    def _apps_connections_open(self) -> dict[str, Any]:
        return {"url": f"{self.url.replace('http', 'ws')}/socket?ticket=1"}

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        self._opened += 1
        socket = web.WebSocketResponse(autoping=self.answers_pings)
        await socket.prepare(request)
        await socket.send_str(json.dumps({"type": "hello", "num_connections": 1}))
        self.sockets.append(socket)
        for envelope in list(self.envelopes.values()):
            await socket.send_str(json.dumps({**envelope, "retry_attempt": 1}))
        self.changed()
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                answer = json.loads(message.data)
                if set(answer) - {"envelope_id", "payload"}:
                    self.complain(f"acknowledgement {answer}")
                self.envelopes.pop(answer["envelope_id"], None)
                self.changed()
        if socket in self.sockets:
            self.sockets.remove(socket)
        return socket

    def _chat_postMessage(self, channel: str, text: str, **rest: Any) -> Any:  # noqa: N802
        if channel not in (GROUP, DIRECT):
            return "channel_not_found"
        thread = rest.get("thread_ts")
        if thread and thread not in self.messages:
            return "thread_not_found"
        ts = self._new_ts()
        self.messages[ts] = {"channel": channel, "text": text, "ts": ts, "user": BOT, **rest}
        return {"channel": channel, "ts": ts, "message": {"text": text}}

    def _chat_update(self, channel: str, ts: str, text: str, blocks: list[Any]) -> Any:
        if ts not in self.messages:
            return "message_not_found"
        self.messages[ts] |= {"text": text, "blocks": blocks}
        return {"channel": channel, "ts": ts, "text": text}

    def _chat_delete(self, channel: str, ts: str) -> Any:
        return {"ts": ts} if self.messages.pop(ts, None) else "message_not_found"

    def _chat_postEphemeral(self, channel: str, user: str, text: str, **rest: Any) -> Any:  # noqa: N802
        assert user == PERSON
        self.private_answers.append(text)
        return {"message_ts": self._new_ts()}

    def _conversations_history(self, channel: str, **rest: Any) -> Any:
        found = [each for each in self.messages.values() if each["channel"] == channel]
        return {"messages": [each for each in reversed(found) if not each.get("thread_ts")]}

    def _conversations_replies(self, channel: str, ts: str, **rest: Any) -> Any:
        found = [each for each in self.messages.values() if each["channel"] == channel]
        return {"messages": [each for each in found if ts in (each["ts"], each.get("thread_ts"))]}

    def _reactions_add(self, channel: str, name: str, timestamp: str) -> Any:
        if (timestamp, name) in self.reactions:
            return "already_reacted"
        self.reactions.add((timestamp, name))
        self.typing.append(channel)
        return {}

    def _reactions_remove(self, channel: str, name: str, timestamp: str) -> Any:
        if (timestamp, name) not in self.reactions:
            return "no_reaction"
        self.reactions.discard((timestamp, name))
        return {}

    def _files_info(self, file: str) -> Any:
        name, data = self.files[file]
        url = f"{self.url}/files/{file}"
        return {"file": {"id": file, "name": name, "size": len(data), "url_private_download": url}}

    def _files_getUploadURLExternal(self, filename: str, length: str) -> Any:  # noqa: N802
        self.files["F9"] = (filename, b"")
        return {"upload_url": f"{self.url}/upload/F9", "file_id": "F9"}

    def _files_completeUploadExternal(  # noqa: N802
        self, files: str, channel_id: str, thread_ts: str = ""
    ) -> Any:
        [file] = json.loads(files)
        ts = self._new_ts()
        self.messages[ts] = {
            "channel": channel_id, "text": "", "ts": ts, "user": BOT, "thread_ts": thread_ts,
            "uploaded": [self.files[file["id"]]],
        }  # fmt: skip
        return {"files": [{"id": file["id"]}]}

    async def _upload(self, request: web.Request) -> web.Response:
        name, _ = self.files[request.match_info["file"]]
        self.files[request.match_info["file"]] = (name, await request.read())
        return web.Response(text="OK")

    async def _download(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(status=302, headers={"Location": "https://slack.com/signin"})
        return web.Response(body=self.files[request.match_info["file"]][1])


def _failed(failure: str) -> web.Response:
    if failure == "rate limit":
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        body = {"ok": False, "error": "ratelimited"}
        return web.json_response(body, status=429, headers=headers)
    if failure == "server error":
        return web.Response(status=503, text="<html>down</html>", content_type="text/html")
    return web.json_response({"ok": False, "error": "token_revoked"})


async def _read_arguments(request: web.Request) -> dict[str, Any]:
    """A JSON body, or a form with strings, or the query."""
    if request.content_type == "application/json":
        found: dict[str, Any] = await request.json()
        return found
    return {**request.query, **{name: str(each) for name, each in (await request.post()).items()}}


async def wait_until_empty(standin: SlackStandin) -> None:
    """Until every envelope is acknowledged."""
    with anyio.fail_after(120):
        while standin.envelopes:
            await standin.wait_for_change()
