"""What signed requests do: hooks start jobs, and deliveries of WhatsApp wait for the gateway."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio.to_thread

from hermes.app.jobs import JobEditor, scheduler_is_running
from hermes.core.errors import HermesError, StoreError
from hermes.core.events.access import WebhookReceived
from hermes.core.events.jobs import SCHEDULE_RUN
from hermes.core.foreign_text import visible_text
from hermes.core.messages import AttachedText
from hermes.core.protocols import Journal
from hermes.gateway.channels.inbound.delivery_folder import (
    FULL_FOLDER_TEXT,
    DeliveryFolder,
    DeliveryFolderFull,
    delivery_folder,
)
from hermes.gateway.channels.inbound.whatsapp_webhooks import challenge_answer
from hermes.gateway.manifest import configured_channels
from hermes.plumbing.signatures import body_signature_matches
from hermes.settings.load import LoadedSettings
from hermes.web.answer_types import StartedJob

DELIVERY_LIFETIME = timedelta(days=3)
"""How long a delivery is remembered, so that it is refused the second time."""
MAX_HOOK_TEXT_CHARS = 20_000


class SettingsHooks:
    """The hooks of `web.hooks`."""

    def __init__(self, loaded: LoadedSettings, journal: Journal) -> None:
        self._loaded, self._journal = loaded, journal

    def secret(self, hook: str) -> str | None:
        settings = self._loaded.settings.web.hooks.get(hook)
        if settings is None:
            return None
        return self._loaded.secrets.get(settings.secret_variable) or ""

    async def start(self, hook: str, body: bytes, deliveries: Sequence[str]) -> StartedJob | None:
        if await self._is_known(deliveries):
            return None
        job = self._loaded.settings.web.hooks[hook].job
        text = visible_text(body.decode("utf-8", "replace"))[:MAX_HOOK_TEXT_CHARS]
        received = WebhookReceived(
            run=SCHEDULE_RUN, hook=hook, job=job, deliveries=tuple(deliveries)
        )
        editor = JobEditor(self._loaded, self._journal, f"hook:{hook}")
        attached = [AttachedText("webhook", text, author=hook)] if text.strip() else []
        due = await editor.request(job, attached, received)
        return StartedJob(
            job=due.job,
            occurrence=due.occurrence,
            scheduler_running=scheduler_is_running(self._loaded),
        )

    async def _is_known(self, deliveries: Sequence[str]) -> bool:
        since = datetime.now(UTC) - DELIVERY_LIFETIME
        async for recorded in self._journal.read(kinds=("webhook.received",), since=since):
            event = recorded.event
            if isinstance(event, WebhookReceived) and set(deliveries) & set(event.deliveries):
                return True
        return False


class WhatsAppDeliveries:
    """Keeps deliveries in a folder until the gateway has taken them, in whichever process."""

    def __init__(self, folder: Path, *, app_secret: str, verify_token: str) -> None:
        self._folder = DeliveryFolder(folder)
        self._app_secret, self._verify_token = app_secret, verify_token

    def challenge(self, query: Mapping[str, str]) -> str | None:
        return challenge_answer(query, self._verify_token)

    async def receive(self, body: bytes, signature: str) -> bool:
        if not body_signature_matches(self._app_secret, body, signature):
            return False
        try:
            await anyio.to_thread.run_sync(self._folder.put, body, signature)
        except DeliveryFolderFull as error:
            raise HermesError(FULL_FOLDER_TEXT) from error
        except OSError as error:
            raise StoreError(f"the delivery cannot be kept: {error}") from error
        return True


def open_whatsapp_deliveries(loaded: LoadedSettings) -> WhatsAppDeliveries | None:
    """Return None where WhatsApp is not configured."""
    found = configured_channels(loaded.settings.channels, loaded.secrets.get).get("whatsapp")
    if found is None or found.missing:
        return None
    return WhatsAppDeliveries(
        delivery_folder(loaded.home, "whatsapp"),
        app_secret=loaded.secrets.get("WHATSAPP_APP_SECRET") or "",
        verify_token=loaded.secrets.get("WHATSAPP_VERIFY_TOKEN") or "",
    )
