"""Removes secrets from what is kept or shown: our own values, and what looks like a secret."""

from typing import TYPE_CHECKING

import msgspec

from hermes.core.events import Event, decode_event
from hermes.core.events.base import UnknownEvent
from hermes.core.messages import Value
from hermes.settings.load import LoadedSettings
from hermes.settings.variable_names import (
    MODEL_VARIABLE,
    PROVIDER_VARIABLE,
    key_for_variable,
)

if TYPE_CHECKING:
    from hermes.policy.redaction.event_redactor import EventRedactor
    from hermes.policy.redaction.redactor import OwnSecrets


_EMPTY_JSON = msgspec.Raw()


class _ExportLine(Value, kw_only=True, frozen=True):
    seq: int
    kind: str
    event: msgspec.Raw = _EMPTY_JSON


class SecretRedactor:
    """Redacts texts and events. The patterns are loaded at the first use."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = loaded
        self._cleaner: EventRedactor | None = None
        self._own: OwnSecrets | None = None

    def __call__(self, text: str) -> str:
        return self._open().text(text)

    def clean_event(self, event: Event) -> Event:
        return self._open()(event)

    def clean_recorded(self, event: Event | UnknownEvent) -> Event | UnknownEvent:
        """Redact recorded events for an export: an older version may have kept a secret. Unreadable
        events stay as they are."""
        return event if isinstance(event, UnknownEvent) else self._open()(event)

    def clean_line(self, line: bytes) -> bytes:
        """A line of an export of the journal, redacted; the same bytes when there is no secret."""
        row = msgspec.json.decode(line, type=_ExportLine)
        if row.event == _EMPTY_JSON:
            return line
        event = decode_event(row.kind, bytes(row.event))
        cleaned = self.clean_recorded(event)
        if cleaned is event:
            return line
        return msgspec.json.encode({"seq": row.seq, "kind": row.kind, "event": cleaned})

    def find_secret(self, text: str, origin: str) -> str:
        """The name of a secret of ours in the text that is not configured for this origin."""
        from hermes.policy.redaction.redactor import OwnSecrets

        if self._own is None:
            self._own = OwnSecrets(own_secret_values(self._loaded))
        found = {name for _, _, name in self._own.spans(text)}
        if found and origin and self._loaded.settings.systems:
            from hermes.app.systems import secret_origins
            from hermes.tools.action_description import origin_of

            meant = secret_origins(self._loaded).items()
            found -= {name for name, url in meant if origin_of(url) == origin}
        return min(found, default="")

    def _open(self) -> "EventRedactor":
        if self._cleaner is None:
            from hermes.policy.redaction.event_redactor import EventRedactor
            from hermes.policy.redaction.redactor import Redactor

            self._cleaner = EventRedactor(Redactor(own_secret_values(self._loaded)).clean)
        return self._cleaner


def own_secret_values(loaded: LoadedSettings) -> dict[str, str]:
    """The values in `.env` except plain settings, and other variables that are named like a key."""
    secrets = loaded.secrets
    kept = {
        name: secrets[name]
        for name in secrets.kept
        if name in secrets
        and key_for_variable(name) is None
        and name not in (PROVIDER_VARIABLE, MODEL_VARIABLE)
    }
    return {**secrets.sensitive(), **kept, **_login_tokens(loaded)}


def _login_tokens(loaded: LoadedSettings) -> dict[str, str]:
    """The tokens of logins at MCP servers."""
    if not any((loaded.home / "mcp").glob("*/credentials.json")):
        return {}
    from hermes.integrations.mcp.logins import LoginStore

    return LoginStore(loaded.home).secrets()
