"""Webhooks that get events: what is queued for each, and what delivers it."""

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.events.operations import HOOKS_RUN, HookEnded, NotificationQueued
from hermes.gateway.hook_events import HookEvent, event_name_problem
from hermes.gateway.settings import EventWebhookSettings
from hermes.gateway.sinks import EVENT_NOTICE_PREFIX, EventWebhookSink
from hermes.gateway.transports import SinkTransport
from hermes.settings.load import LoadedSettings

WEBHOOK_PREFIX = "events-"
"""The beginning of the names of their sinks."""


def event_webhooks(loaded: LoadedSettings) -> dict[str, EventWebhookSettings]:
    """Return the webhooks of the settings, by the names of their sinks."""
    return {
        f"{WEBHOOK_PREFIX}{each.name or f'webhook-{number}'}": each
        for number, each in enumerate(loaded.settings.hooks.webhooks, 1)
    }


def open_event_webhooks(loaded: LoadedSettings) -> list[SinkTransport]:
    """Return what delivers events to them. Raises `SettingsError` for one that can never work."""
    found, timeout_s = [], loaded.settings.sre.notices.timeout
    for name, each in event_webhooks(loaded).items():
        problem = next(filter(None, map(event_name_problem, each.events)), "")
        secret = loaded.secrets.get(each.secret_variable) if each.secret_variable else ""
        if not each.url.startswith(("http://", "https://")):
            problem = f"{each.url!r} does not begin with http:// or https://"
        elif secret is None:
            problem = f"the secret {each.secret_variable} is missing: put it into .env"
        if problem or not each.events:
            raise SettingsError(f"hooks.webhooks: {name}: {problem or 'it names no events'}")
        sink = EventWebhookSink(each.url, name=name, secret=secret or "", timeout=timeout_s)
        found.append(SinkTransport(sink))
    if len(found) < len(loaded.settings.hooks.webhooks):
        raise SettingsError("hooks.webhooks: two have the same name; give each a name of its own")
    return found


def webhook_events(name: str, event: HookEvent) -> tuple[NotificationQueued, HookEnded]:
    """Return what is sent, and the event that says that it is done."""
    body = {"event": event.name, "number": event.number, "context": event.context}
    queued = NotificationQueued(
        run=HOOKS_RUN,
        notice=f"{EVENT_NOTICE_PREFIX}{event.number}:{name}",
        about="result",
        title=event.name,
        text=msgspec.json.encode(body).decode(),
        sinks=(name,),
    )
    detail = "queued"
    ended = HookEnded(
        run=HOOKS_RUN, hook=name, event=event.name, number=event.number, detail=detail
    )
    return queued, ended
