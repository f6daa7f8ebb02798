"""A strict stand-in of the Cloud API of WhatsApp, and of the webhook that it delivers to.

It cannot prove: when Meta closes the window of 24 hours, refusals that arrive later as a status,
the review of templates, and which media types Meta takes.
"""

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from hermes.core.channels import Address, Channel, InboundMessage
from hermes.gateway.channels.whatsapp.runtime import WhatsAppChannel
from hermes.gateway.settings import WhatsAppSettings
from hermes.testing.chat_platform import ShownMessage
from standins.common import StandinBase, expect_arguments, send_half

TOKEN, APP_SECRET = "EAAGtokentokentoken", "5ecre75ecre75ecre7"
NUMBER, PERSON = "1234567890", "4915112345"
MESSAGE = {
    "messaging_product": str, "recipient_type": str, "to": str, "type": str, "context": dict,
    "text": dict, "interactive": dict, "document": dict, "template": dict,
}  # fmt: skip
REQUIRED = {"messaging_product", "to", "type"}


def sign(body: bytes) -> str:
    return "sha256=" + hmac.new(APP_SECRET.encode(), body, hashlib.sha256).hexdigest()


class WebhookChannel(WhatsAppChannel):
    """Hears what the stand-in delivers, as a web server that hands bodies over would."""

    standin: "WhatsAppStandin"

    async def listen(self) -> AsyncIterator[InboundMessage]:
        standin = self.standin
        standin.opened += 1
        standin.changed()
        while True:
            while standin.waiting:
                body = standin.waiting[0]
                for message in self.read_delivery(body, sign(body)) or []:
                    yield message
                standin.waiting.remove(body)
            await standin.wait_for_change()


class WhatsAppStandin(StandinBase):
    secrets = (TOKEN, APP_SECRET)
    person = PERSON
    group = Address("whatsapp", PERSON)
    """There are no groups: the chat with the person."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, dict[str, Any]] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.waiting: list[bytes] = []
        self.opened = 0
        self.silent = False
        """The person has written nothing for 24 hours."""
        self._presses: set[str] = set()
        self._last = b""
        self._count = 0

    def settings(self, **changed: Any) -> WhatsAppSettings:
        given = {"phone_number_id": NUMBER, "base_url": self.url, "home_channel": PERSON}
        return WhatsAppSettings(**{**given, **changed})

    def connect(self) -> Channel:
        channel = WebhookChannel(self.settings(), TOKEN, app_secret=APP_SECRET)
        channel.standin = self
        return channel

    async def write(self, text: str, *, group: bool = False, mention: bool = False) -> str:
        return self.deliver(type="text", text={"body": text})

    def deliver(self, **content: Any) -> str:
        """A message of the person with fields as the Cloud API names them."""
        id = self._new_id()
        message = {"from": PERSON, "id": id, "timestamp": "1780000000", **content}
        value = {
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "49301234", "phone_number_id": NUMBER},
            "contacts": [{"profile": {"name": "Alice"}, "wa_id": PERSON}],
            "messages": [message],
        }
        entry = {"id": "1", "changes": [{"value": value, "field": "messages"}]}
        body = json.dumps({"object": "whatsapp_business_account", "entry": [entry]}).encode()
        self._last = body
        self.waiting.append(body)
        self.changed()
        return id

    async def repeat_last(self) -> None:
        self.waiting.append(self._last)
        self.changed()

    async def rewrite(self, reference: str, text: str) -> None:
        raise AssertionError("the Cloud API tells nothing of edits")

    async def quote(self, reference: str, text: str) -> None:
        context = {"from": "49301234", "id": reference}
        self.deliver(type="text", text={"body": text}, context=context)

    async def upload(self, name: str, data: bytes) -> None:
        self.deliver(type="document", document={"id": "m1", "filename": name})

    async def press(self, reference: str, data: str) -> None:
        reply = {"type": "button_reply", "button_reply": {"id": data, "title": "x"}}
        context = {"from": "49301234", "id": reference}
        self._presses.add(self.deliver(type="interactive", interactive=reply, context=context))

    async def drop_connection(self) -> None:
        """A webhook has no connection that lasts."""

    def remove(self, reference: str) -> None:
        del self.messages[reference]

    def receivers(self) -> int:
        return self.opened

    async def receiving(self) -> None:
        while not self.opened:
            await self.wait_for_change()

    def shown(self) -> list[ShownMessage]:
        return [self._shown(id, each) for id, each in self.messages.items()]

    def _shown(self, id: str, sent: dict[str, Any]) -> ShownMessage:
        interactive, document = sent.get("interactive"), sent.get("document")
        text = sent.get("text", {}).get("body", "")
        buttons = list[list[tuple[str, str]]]()
        if interactive:
            text = interactive["body"]["text"]
            replies = [each["reply"] for each in interactive["action"]["buttons"]]
            buttons = [[(each["title"], each["id"]) for each in replies]]
        return ShownMessage(
            reference=id,
            chat=sent["to"],
            text=text,
            buttons=buttons,
            reply_to=sent.get("context", {}).get("message_id", ""),
            files=[self.files[document["id"]]] if document else [],
        )

    def _new_id(self) -> str:
        self._count += 1
        return f"wamid.HBgL{self._count:04d}"

    # -- the server ---------------------------------------------------------------------------

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get(f"/{NUMBER}", self._number)
        app.router.add_post(f"/{NUMBER}/messages", self._send)
        app.router.add_post(f"/{NUMBER}/media", self._media)

    async def _number(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _error(401, 190, "Invalid OAuth access token")
        return web.json_response({"id": NUMBER, "display_phone_number": "49301234"})

    async def _media(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField) and form["messaging_product"] == "whatsapp"
        self.files[f"f{len(self.files)}"] = (file.filename, file.file.read())
        return web.json_response({"id": f"f{len(self.files) - 1}"})

    async def _send(self, request: web.Request) -> web.StreamResponse:
        sent, failure = await request.json(), self.take_failure()
        found = expect_arguments(sent, MESSAGE, REQUIRED)
        if found or sent["type"] not in sent or not sent["to"].isdigit():
            self.complain(f"messages: {found} {sent}")
        if failure == "refused token":
            return _error(401, 190, f"Invalid OAuth access token {TOKEN}")
        if failure == "rate limit":
            return _error(400, 131056, "Pair rate limit hit")
        if failure == "server error":
            return _error(500, 131000, "Something went wrong")
        if self.silent and sent["type"] != "template":
            return _error(400, 131047, "Re-engagement message")
        replies = sent.get("interactive", {}).get("action", {}).get("buttons", [])
        text = sent.get("interactive", {}).get("body", {}).get("text", "")
        if len(replies) > 3 or len(text) > 1_024:
            self.complain("messages: too many buttons, or too long above them")
        id = self._new_id()
        if sent.get("context", {}).get("message_id") in self._presses:
            self.private_answers.append(sent["text"]["body"])
        self.messages[id] = sent
        answer = {"messaging_product": "whatsapp", "messages": [{"id": id}]}
        if failure == "lost answer":
            return await send_half(request, json.dumps(answer).encode())
        return web.json_response(answer)


def _error(status: int, code: int, text: str) -> web.Response:
    error = {"message": f"(#{code}) {text}", "type": "OAuthException", "code": code}
    return web.json_response({"error": error}, status=status)
