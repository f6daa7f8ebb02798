"""A strict stand-in of the Bot API of Telegram.

It cannot prove: the wording of Telegram's error descriptions in the future, that Telegram accepts
the contents of a photo or a sound, its rate limits, and how it orders updates of different chats.
"""

import json
from typing import Any

import anyio
from aiohttp import web

from hermes.core.channels import Address, Channel
from hermes.gateway.channels.telegram.runtime import TelegramChannel
from hermes.testing.chat_platform import ShownMessage
from standins.common import RETRY_AFTER_S, StandinBase, expect_arguments, send_half

TOKEN = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
BOT = {"id": 110201543, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}
PERSON = {"id": 123456789, "is_bot": False, "first_name": "Alice", "username": "alice_can_change"}
GROUP_ID, DIRECT_ID = -1001234567890, 123456789
SENT_AT = 1_780_000_000
MAX_TEXT_UNITS, MAX_DATA_BYTES = 4096, 64
ENTITY_TYPES = {
    "bold", "italic", "underline", "strikethrough", "code", "pre", "text_link", "blockquote",
}  # fmt: skip

SEND = {
    "chat_id": int,
    "message_thread_id": int,
    "reply_parameters": dict,
    "reply_markup": dict,
}
METHODS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "getMe": ({}, set()),
    "getUpdates": (
        {"offset": int, "limit": int, "timeout": int, "allowed_updates": list},
        {"timeout", "allowed_updates"},
    ),
    "sendMessage": (
        {**SEND, "text": str, "entities": list, "link_preview_options": dict},
        {"chat_id", "text"},
    ),
    "editMessageText": (
        {
            "chat_id": int,
            "message_id": int,
            "text": str,
            "entities": list,
            "reply_markup": dict,
            "link_preview_options": dict,
        },
        {"chat_id", "message_id", "text"},
    ),
    "deleteMessage": ({"chat_id": int, "message_id": int}, {"chat_id", "message_id"}),
    "sendChatAction": (
        {"chat_id": int, "action": str, "message_thread_id": int},
        {"chat_id", "action"},
    ),
    "createForumTopic": ({"chat_id": int, "name": str}, {"chat_id", "name"}),
    "answerCallbackQuery": (
        {"callback_query_id": str, "text": str, "show_alert": bool},
        {"callback_query_id"},
    ),
    "getFile": ({"file_id": str}, {"file_id"}),
    "sendDocument": ({**SEND, "document": object}, {"chat_id", "document"}),
    "sendPhoto": ({**SEND, "photo": object}, {"chat_id", "photo"}),
    "sendVoice": ({**SEND, "voice": object}, {"chat_id", "voice"}),
    "sendAudio": ({**SEND, "audio": object}, {"chat_id", "audio"}),
}
STRINGS = {"text", "name", "action", "callback_query_id", "file_id"}


class Refusal(Exception):
    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.status, self.description, self.parameters = status, description, parameters


class TelegramStandin(StandinBase):
    secrets = (TOKEN,)
    person = str(PERSON["id"])
    group = Address("telegram", str(GROUP_ID))

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[dict[str, Any]] = []
        self.messages: dict[int, dict[str, Any]] = {}
        self.files: dict[int, list[tuple[str, bytes]]] = {}
        self.uploads: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.forum = True
        self.webhook = False
        self.migrated_to = 0
        self._update_id, self._message_id = 500, 10
        self._polls = 0
        self._poller = 0
        self._dropped = False
        self._press = 0

    # -- what people do ---------------------------------------------------------------------

    def connect(self) -> Channel:
        return TelegramChannel(TOKEN, base_url=self.url, home=str(GROUP_ID), poll_timeout_s=10)

    async def write(self, text: str, *, group: bool = False, mention: bool = False) -> str:
        content: dict[str, Any] = {"text": text}
        if mention:
            content["text"] = f"@hermes_bot {text}"
            content["entities"] = [{"type": "mention", "offset": 0, "length": 11}]
        return self.deliver(group=group, **content)

    def deliver(self, *, group: bool = False, edited: bool = False, **content: Any) -> str:
        """A message of the person with fields as the Bot API names them."""
        self._message_id += 1
        chat = {"id": GROUP_ID, "type": "supergroup", "title": "Ops", "is_forum": True}
        if not group:
            chat = {"id": DIRECT_ID, "type": "private", "first_name": "Alice"}
        head = {"message_id": self._message_id, "date": SENT_AT, "chat": chat}
        message: dict[str, Any] = {**head, "from": PERSON, **content}
        self.messages[message["message_id"]] = message
        self.add_update("edited_message" if edited else "message", message)
        return str(message["message_id"])

    def add_update(self, kind: str, content: dict[str, Any]) -> None:
        self._update_id += 1
        self.updates.append({"update_id": self._update_id, kind: content})
        self.changed()

    async def repeat_last(self) -> None:
        # Telegram repeats what the offset has not passed: the same update, as here.
        self.changed()

    async def rewrite(self, reference: str, text: str) -> None:
        message = {**self.messages[int(reference)], "text": text, "edit_date": SENT_AT + 60}
        self.add_update("edited_message", message)

    async def quote(self, reference: str, text: str) -> None:
        self.deliver(group=True, text=text, reply_to_message=self.messages[int(reference)])

    async def upload(self, name: str, data: bytes) -> None:
        self.uploads["file-1"] = data
        document = {
            "file_id": "file-1",
            "file_unique_id": "u1",
            "file_name": name,
            "file_size": len(data),
        }
        self.deliver(document=document)

    async def press(self, reference: str, data: str) -> None:
        self._press += 1
        self.add_update(
            "callback_query",
            {
                "id": f"press-{self._press}",
                "from": PERSON,
                "chat_instance": "1",
                "message": self.messages[int(reference)],
                "data": data,
            },
        )

    async def drop_connection(self) -> None:
        self._dropped = True
        self.changed()

    def remove(self, reference: str) -> None:
        del self.messages[int(reference)]

    def receivers(self) -> int:
        return self._polls

    async def receiving(self) -> None:
        while not self._poller:
            await self.wait_for_change()

    def shown(self) -> list[ShownMessage]:
        return [
            ShownMessage(
                reference=str(each["message_id"]),
                chat=str(each["chat"]["id"]),
                thread=str(each.get("message_thread_id", "")),
                text=each.get("text", ""),
                styled=_styled(each),
                buttons=[
                    [(button["text"], button["callback_data"]) for button in row]
                    for row in each.get("reply_markup", {}).get("inline_keyboard", [])
                ],
                reply_to=str(each.get("reply_to", "")),
                files=self.files.get(each["message_id"], []),
            )
            for each in self.messages.values()
            if each["from"] is BOT
        ]

    # -- the server ---------------------------------------------------------------------------

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/bot{token}/{method}", self._call)
        app.router.add_get("/file/bot{token}/{path}", self._download)

    async def _download(self, request: web.Request) -> web.Response:
        if request.match_info["token"] != TOKEN:
            return web.Response(status=404)
        return web.Response(body=self.uploads[request.match_info["path"]])

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method, token = request.match_info["method"], request.match_info["token"]
        self.calls.append(method)
        try:
            if token != TOKEN:
                raise Refusal(401, "Unauthorized")
            failure = self.take_failure() if method.startswith("send") else None
            if failure and failure != "lost answer":
                _fail(failure)
            arguments = await _read_arguments(request)
            self._check(method, arguments)
            result = await getattr(self, f"_{method}")(**arguments)
        except Refusal as refusal:
            answer = {
                "ok": False,
                "error_code": refusal.status,
                "description": refusal.description,
            }
            if refusal.parameters:
                answer["parameters"] = refusal.parameters
            return web.json_response(answer, status=refusal.status)
        if result is DROP or failure == "lost answer":
            return await send_half(request, json.dumps({"ok": True, "result": []}).encode())
        return web.json_response({"ok": True, "result": result})

    def _check(self, method: str, arguments: dict[str, Any]) -> None:
        if method not in METHODS:
            self.complain(f"unknown method {method}")
            raise Refusal(404, "Not Found")
        found = expect_arguments(arguments, *METHODS[method])
        if found:
            self.complain(f"{method}: {'; '.join(found)}")
            raise Refusal(400, f"Bad Request: {found[0]}")
        self._check_text(arguments)

    def _check_text(self, arguments: dict[str, Any]) -> None:
        text = arguments.get("text")
        if text is not None and len(text.encode("utf-16-le")) // 2 > MAX_TEXT_UNITS:
            raise Refusal(400, "Bad Request: message is too long")
        if text == "":
            raise Refusal(400, "Bad Request: message text is empty")
        for entity in arguments.get("entities", []):
            end = entity["offset"] + entity["length"]
            if entity["type"] not in ENTITY_TYPES or end > len(text.encode("utf-16-le")) // 2:
                self.complain(f"entity {entity}")
        for row in arguments.get("reply_markup", {}).get("inline_keyboard", []):
            if any(len(button["callback_data"].encode()) > MAX_DATA_BYTES for button in row):
                raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")

    async def _getMe(self) -> dict[str, Any]:  # noqa: N802 - the method of the platform
        return BOT

    async def _getUpdates(  # noqa: N802
        self, timeout: int, allowed_updates: list[str], offset: int = 0, limit: int = 100
    ) -> Any:
        if self.webhook:
            raise Refusal(409, "Conflict: can't use getUpdates method while webhook is active")
        self._polls += 1
        self._poller = mine = self._polls
        self.updates = [each for each in self.updates if each["update_id"] >= offset]
        self.changed()
        with anyio.move_on_after(timeout):
            while not self.updates or self._dropped:
                if self._dropped:
                    self._dropped = False
                    return DROP
                await self.wait_for_change()
                if self._poller != mine:
                    raise Refusal(409, "Conflict: terminated by other getUpdates request")
        return [each for each in self.updates if set(each) & {"update_id", *allowed_updates}][
            :limit
        ]

    def _keep(
        self, chat_id: int, *, file: tuple[str, bytes] | None = None, **content: Any
    ) -> dict[str, Any]:
        if self.migrated_to and chat_id != self.migrated_to:
            description = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refusal(400, description, migrate_to_chat_id=self.migrated_to)
        if chat_id not in (GROUP_ID, DIRECT_ID, self.migrated_to):
            raise Refusal(400, "Bad Request: chat not found")
        self._message_id += 1
        kind = "private" if chat_id == DIRECT_ID else "supergroup"
        chat = {"id": chat_id, "type": kind, "title": "Ops"}
        head = {"message_id": self._message_id, "date": SENT_AT, "chat": chat}
        message = {**head, "from": BOT, **content}
        self.messages[self._message_id] = message
        if file is not None:
            self.files[self._message_id] = [file]
        return message

    async def _sendMessage(self, chat_id: int, text: str, **rest: Any) -> dict[str, Any]:  # noqa: N802
        reply = rest.pop("reply_parameters", {})
        rest.pop("link_preview_options", None)
        known = {key: value for key, value in rest.items() if value is not None}
        if reply and reply["message_id"] not in self.messages:
            if not reply.get("allow_sending_without_reply"):
                raise Refusal(400, "Bad Request: message to be replied not found")
            reply = {}
        return self._keep(chat_id, text=text, reply_to=reply.get("message_id", ""), **known)

    async def _editMessageText(  # noqa: N802
        self, chat_id: int, message_id: int, text: str, **rest: Any
    ) -> dict[str, Any]:
        message = self.messages.get(message_id)
        if message is None:
            raise Refusal(400, "Bad Request: message to edit not found")
        rest.pop("link_preview_options", None)
        before = {key: message.get(key) for key in ("text", "entities", "reply_markup")}
        if before == {"entities": None, "reply_markup": None, **rest, "text": text}:
            raise Refusal(
                400,
                "Bad Request: message is not modified: specified new message content and reply "
                "markup are exactly the same as a current content and reply markup of the message",
            )
        for key in before:
            message.pop(key, None)
        message |= {"text": text, **rest}
        return message

    async def _deleteMessage(self, chat_id: int, message_id: int) -> bool:  # noqa: N802
        if self.messages.pop(message_id, None) is None:
            raise Refusal(400, "Bad Request: message to delete not found")
        return True

    async def _sendChatAction(self, chat_id: int, action: str, **rest: Any) -> bool:  # noqa: N802
        self.typing.append(str(chat_id))
        return True

    async def _createForumTopic(self, chat_id: int, name: str) -> dict[str, Any]:  # noqa: N802
        if not self.forum:
            raise Refusal(400, "Bad Request: the chat is not a forum")
        self._message_id += 1
        return {"message_thread_id": self._message_id, "name": name, "icon_color": 7322096}

    async def _answerCallbackQuery(self, callback_query_id: str, **rest: Any) -> bool:  # noqa: N802
        if len(rest.get("text", "")) > 200:
            raise Refusal(400, "Bad Request: MESSAGE_TOO_LONG")
        self.private_answers.append(rest.get("text", ""))
        return True

    async def _getFile(self, file_id: str) -> dict[str, Any]:  # noqa: N802
        size = len(self.uploads[file_id])
        return {"file_id": file_id, "file_unique_id": "u", "file_size": size, "file_path": file_id}

    async def _sendDocument(self, chat_id: int, document: Any, **rest: Any) -> Any:  # noqa: N802
        found = {"file_id": "d", "file_unique_id": "d"}
        return self._keep(chat_id, document=found, file=document, **rest)

    async def _sendPhoto(self, chat_id: int, photo: Any, **rest: Any) -> Any:  # noqa: N802
        sizes = [{"file_id": "p", "file_unique_id": "p", "width": 1, "height": 1}]
        return self._keep(chat_id, photo=sizes, file=photo, **rest)

    async def _sendVoice(self, chat_id: int, voice: Any, **rest: Any) -> Any:  # noqa: N802
        found = {"file_id": "v", "file_unique_id": "v", "duration": 1}
        return self._keep(chat_id, voice=found, file=voice, **rest)


DROP = object()


def _styled(message: dict[str, Any]) -> dict[str, str]:
    encoded, found = message.get("text", "").encode("utf-16-le"), {}
    for entity in message.get("entities", []):
        start, end = 2 * entity["offset"], 2 * (entity["offset"] + entity["length"])
        found[entity["type"].removeprefix("text_")] = encoded[start:end].decode("utf-16-le")
    return found


def _fail(failure: str) -> None:
    if failure == "rate limit":
        description = f"Too Many Requests: retry after {RETRY_AFTER_S}"
        raise Refusal(429, description, retry_after=RETRY_AFTER_S)
    if failure == "server error":
        raise Refusal(500, "Internal Server Error")
    raise Refusal(401, "Unauthorized")


async def _read_arguments(request: web.Request) -> dict[str, Any]:
    """Values are JSON, strings bare; a file is its name and its content."""
    found: dict[str, Any] = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            found[name] = (value.filename, value.file.read())
            continue
        assert isinstance(value, str)
        found[name] = value if name in STRINGS else json.loads(value)
    return found
