"""The WhatsApp channel: the Cloud API to send, a webhook to receive.

Messages have no key against repetition. A person who was silent for 24 hours gets no free text,
only the template of the settings. Received files are named and not fetched.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

import aiohttp
import anyio

from hermes.core.channels import InboundMessage, OutgoingMessage
from hermes.core.errors import DeliveryError
from hermes.gateway.channels.files import chat_of, read_outgoing_file
from hermes.gateway.channels.inbound.delivery_folder import DeliveryFolder
from hermes.gateway.channels.inbound.whatsapp_webhooks import (
    WhatsAppIdentity,
    read_webhook,
)
from hermes.gateway.channels.json_api import ApiRefusal, JsonApi, channel_failed
from hermes.gateway.settings import WhatsAppSettings
from hermes.plumbing.signatures import body_signature_matches

logger = logging.getLogger(__name__)

DEFAULT_URL = "https://graph.facebook.com/v23.0"
MAX_BUTTON_TEXT_CHARS, MAX_LABEL_CHARS, MAX_BUTTONS = 1_024, 20, 3
SILENT_FOR_24_HOURS = 131047
RATE_CODES = (4, 80007, 130429, 131048, 131056)
RETRY_AFTER_S = 60.0
TEMPORARY_CODES = (1, 2, 131000, 131016, 133004)
TOKEN_ADVICE = "create one for a system user with whatsapp_business_messaging"
WEBHOOK_ADVICE = "WhatsApp delivers messages to a webhook only: here it sends and hears nothing"
WINDOW_ADVICE = (
    "WhatsApp: the person has written nothing for 24 hours and gets no free text: they write "
    "first, or channels.whatsapp.template names an approved template"
)

TEMPLATE_SENT = "WhatsApp: after 24 silent hours the person got the template instead of the text"


def open_channel(settings: WhatsAppSettings, secrets: Mapping[str, str]) -> "WhatsAppChannel":
    return WhatsAppChannel(
        settings, secrets["WHATSAPP_TOKEN"], app_secret=secrets["WHATSAPP_APP_SECRET"]
    )


class WhatsAppChannel:
    """Sends as one number."""

    def __init__(
        self, settings: WhatsAppSettings, token: str, *, app_secret: str, name: str = "whatsapp"
    ) -> None:
        self.name, self._settings, self._app_secret = name, settings, app_secret
        self._identity = WhatsAppIdentity(name, str(settings.phone_number_id))
        self._deliveries: DeliveryFolder | None = None
        self._number_path = f"/{settings.phone_number_id}"
        self._api = JsonApi(
            "WhatsApp",
            settings.base_url or DEFAULT_URL,
            headers={"Authorization": f"Bearer {token}"},
            secrets=[token, app_secret],
            token_advice=TOKEN_ADVICE,
            describe=lambda answer: str((answer.get("error") or {}).get("message", "")),
        )

    async def __aenter__(self) -> Self:
        await self._api.__aenter__()
        try:
            await self._call("GET", self._number_path)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await self._api.__aexit__()
            if isinstance(error, DeliveryError):
                raise channel_failed(error) from None
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._api.__aexit__()

    async def listen(self) -> AsyncIterator[InboundMessage]:
        """What the web server has received; without one, it says so and waits."""
        if self._deliveries is None:
            logger.warning(WEBHOOK_ADVICE)
            await anyio.sleep_forever()
            return
        async with aclosing(self._deliveries.follow()) as deliveries:
            async for body, signature in deliveries:
                for message in self._read_kept(body, signature):
                    yield message

    def receive_from(self, folder: Path) -> None:
        self._deliveries = DeliveryFolder(folder)

    def _read_kept(self, body: bytes, signature: str) -> list[InboundMessage]:
        try:
            return self.read_delivery(body, signature) or []
        except ValueError as error:
            logger.warning("WhatsApp: a delivery is left out: %s", error)
            return []

    def read_delivery(self, body: bytes, signature: str) -> list[InboundMessage] | None:
        """Return what a webhook received; None where the signature is not that of our app.

        Raises `ValueError` for a body that cannot be read.
        """
        if not body_signature_matches(self._app_secret, body, signature):
            return None
        return read_webhook(body, self._identity)

    async def send(self, message: OutgoingMessage) -> str:
        person = chat_of(message.to, self._settings.home_chat).removeprefix("+")
        uploads = [await self._upload(each) for each in message.files]
        parts = [*_text_parts(message), *({"type": "document", "document": u} for u in uploads)]
        reference, answered = "", message.reply_to
        for part in parts:
            try:
                reference = await self._send_part(person, part, answered)
            except DeliveryError as error:
                if reference:  # the parts before it are there
                    error.may_have_arrived = True
                raise
            answered = reference
        return reference

    async def answer_press(self, press: str, text: str) -> None:
        person, _, id = press.partition(" ")
        await self._send_part(person, {"type": "text", "text": {"body": text}}, id)

    async def _send_part(self, person: str, part: dict[str, Any], answered: str) -> str:
        common = {"messaging_product": "whatsapp", "recipient_type": "individual", "to": person}
        context = {"context": {"message_id": answered}} if answered else {}
        path = f"{self._number_path}/messages"
        try:
            sent = await self._call("POST", path, {**common, **context, **part})
        except ApiRefusal as error:
            if _code(error) != SILENT_FOR_24_HOURS:
                raise
            if not self._settings.template:
                raise DeliveryError(WINDOW_ADVICE, permanent=True) from None
            await self._call("POST", path, {**common, **self._template()})
            # Something arrived, but not the words: other channels shall hear of them.
            raise DeliveryError(TEMPLATE_SENT, permanent=True, may_have_arrived=True) from None
        return str(sent["messages"][0]["id"])

    def _template(self) -> dict[str, Any]:
        """It has no parameters, so that it says only that there is something to read."""
        language = {"code": self._settings.template_language}
        template = {"name": self._settings.template, "language": language}
        return {"type": "template", "template": template}

    async def _upload(self, path: str) -> dict[str, str]:
        file = await read_outgoing_file(path)
        form = aiohttp.FormData()
        form.add_field("messaging_product", "whatsapp")
        form.add_field("file", file.data, filename=file.name, content_type=file.mime_type)
        sent = await self._call("POST", f"{self._number_path}/media", data=form)
        return {"id": str(sent["id"]), "filename": file.name}

    async def _call(self, method: str, path: str, payload: Any = None, **more: Any) -> Any:
        """Raises `DeliveryError`: the codes of WhatsApp say more than its HTTP statuses."""
        try:
            return await self._api.call(method, path, payload, **more)
        except ApiRefusal as error:
            if _code(error) in RATE_CODES and not error.retry_after_s:
                raise DeliveryError(str(error), retry_after_s=RETRY_AFTER_S) from None
            if _code(error) in TEMPORARY_CODES:
                raise DeliveryError(str(error), may_have_arrived=True) from None
            raise


def _code(error: ApiRefusal) -> int:
    answer = error.answer if isinstance(error.answer, dict) else {}
    return int((answer.get("error") or {}).get("code") or 0)


def _text_parts(message: OutgoingMessage) -> list[dict[str, Any]]:
    """A text that is too long to stand above buttons goes before them."""
    buttons = [each for row in message.buttons for each in row]
    plain = {"type": "text", "text": {"body": message.text, "preview_url": False}}
    if not buttons:
        return [plain] if message.text else []
    if len(buttons) > MAX_BUTTONS:
        raise DeliveryError(f"WhatsApp shows at most {MAX_BUTTONS} buttons", permanent=True)
    fits = len(message.text) <= MAX_BUTTON_TEXT_CHARS
    replies = [
        {"type": "reply", "reply": {"id": each.data, "title": each.label[:MAX_LABEL_CHARS]}}
        for each in buttons
    ]
    interactive = {
        "type": "button",
        "body": {"text": message.text if fits else "Your answer:"},
        "action": {"buttons": replies},
    }
    last = {"type": "interactive", "interactive": interactive}
    return [last] if fits else [plain, last]
