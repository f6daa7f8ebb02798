"""A strict stand-in of `signal-cli daemon --http`.

It cannot prove: anything of Signal itself (registration, captchas, linked devices), for how long
signal-cli keeps events, and versions that keep none.
"""

import base64
import json
from typing import Any

from aiohttp import web

from hermes.core.channels import Address, Channel
from hermes.gateway.channels.signal.runtime import SignalChannel
from hermes.testing.chat_platform import ShownMessage
from standins.common import RETRY_AFTER_S, StandinBase, expect_arguments, send_half

ACCOUNT, OWN_UUID = "+4915112345", "11111111-1111-4111-8111-111111111111"
PERSON = "22222222-2222-4222-8222-222222222222"
GROUP_ID = "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI="
GROUP = f"group.{GROUP_ID}"
MAX_MESSAGE_CHARS = 2_000
TARGET = {"account": str, "recipient": list, "groupId": str}
METHODS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "listAccounts": ({}, set()),
    "send": (
        {
            **TARGET,
            "message": str,
            "attachments": list,
            "quoteTimestamp": int,
            "quoteAuthor": str,
        },
        {"account"},
    ),
    "sendTyping": (TARGET, {"account"}),
    "getAttachment": (
        {"account": str, "recipient": str, "groupId": str, "id": str},
        {"account", "id"},
    ),
}


class SignalStandin(StandinBase):
    secrets = ()
    person = PERSON
    group = Address("signal", GROUP)

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, ShownMessage] = {}
        self.written: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.attachments: dict[str, bytes] = {}
        self.single_account = False
        self.refusal: dict[str, Any] = {}
        """The error of every attempt to send."""
        self._streams = 0
        self._opened = 0
        self._dropped = 0
        self._time = 1_780_000_000_000

    # -- what people do ---------------------------------------------------------------------

    def connect(self) -> Channel:
        return SignalChannel(self.url, ACCOUNT, home=GROUP)

    async def write(self, text: str, *, group: bool = False, mention: bool = False) -> str:
        content: dict[str, Any] = {"message": text}
        if mention:
            content["message"] = f"\ufffc {text}"
            content["mentions"] = [{"start": 0, "length": 1, "uuid": OWN_UUID, "name": "Hermes"}]
        return self.deliver(group=group, **content)

    def deliver(self, *, group: bool = False, **content: Any) -> str:
        """A message of the person with fields as signal-cli names them."""
        stamp = self._next_time()
        data = {"timestamp": stamp, "expiresInSeconds": 0, "viewOnce": False, **content}
        if group:
            data["groupInfo"] = {"groupId": GROUP_ID, "type": "DELIVER"}
        self.written[stamp] = data
        self.add_event({"dataMessage": data})
        return f"{stamp}.{PERSON}"

    def add_event(self, content: dict[str, Any], account: str = ACCOUNT) -> None:
        envelope = {
            "source": PERSON, "sourceNumber": None, "sourceUuid": PERSON, "sourceName": "Alice",
            "sourceDevice": 1, "timestamp": self._time, **content,
        }  # fmt: skip
        self.events.append({"envelope": envelope, "account": account})
        self.changed()

    async def repeat_last(self) -> None:
        self.events.append(self.events[-1])
        self.changed()

    async def rewrite(self, reference: str, text: str) -> None:
        old = int(reference.partition(".")[0])
        data = {**self.written[old], "timestamp": self._next_time(), "message": text}
        self.add_event({"editMessage": {"targetSentTimestamp": old, "dataMessage": data}})

    async def quote(self, reference: str, text: str) -> None:
        quoted = self.messages[reference]
        quote = {"id": int(reference), "authorUuid": OWN_UUID, "text": quoted.text}
        self.deliver(group=True, message=text, quote=quote)

    async def upload(self, name: str, data: bytes) -> None:
        self.attachments["a1"] = data
        file = {"id": "a1", "filename": name, "contentType": "text/plain", "size": len(data)}
        self.deliver(attachments=[file])

    async def press(self, reference: str, data: str) -> None:
        raise AssertionError("Signal has no buttons")

    async def drop_connection(self) -> None:
        self._dropped = self._opened
        self.changed()

    def remove(self, reference: str) -> None:
        del self.messages[reference]

    def receivers(self) -> int:
        return self._opened

    async def receiving(self) -> None:
        while not self._streams:
            await self.wait_for_change()

    def shown(self) -> list[ShownMessage]:
        return list(self.messages.values())

    def _next_time(self) -> int:
        self._time += 1_000
        return self._time

    # -- the server ---------------------------------------------------------------------------

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/api/v1/rpc", self._rpc)
        app.router.add_get("/api/v1/events", self._stream)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        last = request.headers.get("Last-Event-ID", str(len(self.events)))
        sent = int(last) if 0 < int(last) <= len(self.events) else 0
        self._opened += 1
        self._streams += 1
        mine = self._opened
        self.changed()
        await response.write(b":\n\n")
        try:
            while self._dropped < mine:
                for number, event in enumerate(self.events[sent:], start=sent + 1):
                    text = json.dumps(event)
                    await response.write(f"event:receive\nid:{number}\ndata:{text}\n\n".encode())
                    sent = number
                await self.wait_for_change()
        finally:
            self._streams -= 1
        assert request.transport is not None
        request.transport.abort()
        return response

    async def _rpc(self, request: web.Request) -> web.StreamResponse:
        call = await request.json()
        method, arguments = call["method"], call["params"]
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": call["id"]}
        failure = self.take_failure() if method == "send" else None
        if method not in METHODS or set(call) != {"jsonrpc", "id", "method", "params"}:
            self.complain(f"unknown call {call}")
            return web.json_response({**answer, "error": {"code": -32601, "message": "unknown"}})
        if found := expect_arguments(arguments, *METHODS[method]):
            self.complain(f"{method}: {'; '.join(found)}")
        if method == "send" and self.refusal:
            return web.json_response({**answer, "error": self.refusal})
        if failure and failure != "lost answer":
            return web.json_response({**answer, "error": _error(failure)})
        try:
            result = {"result": getattr(self, f"_{method}")(**arguments)}
        except KeyError as error:
            result = {"error": {"code": -32601, "message": str(error)}}
        if failure == "lost answer":
            return await send_half(request, json.dumps({**answer, **result}).encode())
        return web.json_response({**answer, **result})

    def _listAccounts(self) -> Any:  # noqa: N802 - the method of signal-cli
        if self.single_account:
            raise KeyError("Method not implemented")
        return [{"number": ACCOUNT, "aci": OWN_UUID}]

    def _send(self, account: str, **rest: Any) -> Any:
        text = rest.get("message", "")
        if len(text) > MAX_MESSAGE_CHARS or ("groupId" in rest) == ("recipient" in rest):
            self.complain(f"send {rest}")
        stamp = str(self._next_time())
        chat = f"group.{rest['groupId']}" if "groupId" in rest else rest["recipient"][0]
        self.messages[stamp] = ShownMessage(
            reference=stamp,
            chat=chat,
            text=text,
            reply_to=str(rest.get("quoteTimestamp", "")),
            files=[_read_data_url(each) for each in rest.get("attachments", [])],
        )
        return {"timestamp": int(stamp), "results": [{"type": "SUCCESS"}]}

    def _sendTyping(self, account: str, **rest: Any) -> Any:  # noqa: N802
        self.typing.append(f"group.{rest['groupId']}" if "groupId" in rest else rest["recipient"])
        return {}

    def _getAttachment(self, account: str, id: str, **rest: Any) -> Any:  # noqa: N802
        return {"data": base64.b64encode(self.attachments[id]).decode()}


def _error(failure: str) -> dict[str, Any]:
    if failure == "rate limit":
        result = {"type": "RATE_LIMIT_FAILURE", "retryAfterSeconds": RETRY_AFTER_S}
        data = {"response": {"timestamp": 1, "results": [result]}}
        return {"code": -5, "message": "Failed to send message due to rate limiting", "data": data}
    if failure == "server error":
        return {"code": -3, "message": "Connection closed", "data": None}
    return {"code": -1, "message": "User is not registered.", "data": None}


def _read_data_url(url: str) -> tuple[str, bytes]:
    head, _, data = url.removeprefix("data:").partition(",")
    _, name, encoding = head.split(";")
    assert encoding == "base64"
    return name.removeprefix("filename="), base64.b64decode(data)
