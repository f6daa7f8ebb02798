"""What must not be kept or shown, for one house: our own values, and what looks like a secret."""

from typing import TYPE_CHECKING

import msgspec

from hermes.core.events import Event, decode
from hermes.core.events.happening import Unknown
from hermes.core.messages import Value
from hermes.settings.load import Loaded
from hermes.settings.variables import MODEL, PROVIDER, WAITING, key_for

if TYPE_CHECKING:
    from hermes.policy.event_cleaning import EventCleaner


_NOTHING = msgspec.Raw()


class _Line(Value, kw_only=True, frozen=True):
    seq: int
    kind: str
    event: msgspec.Raw = _NOTHING


class Veil:
    """Takes secrets out of texts and events. The patterns are loaded with the first of them."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._cleaner: EventCleaner | None = None

    def __call__(self, text: str) -> str:
        return self._open().text(text)

    def event(self, event: Event) -> Event:
        return self._open()(event)

    def recorded(self, event: Event | Unknown) -> Event | Unknown:
        """For exports: what an older version kept in the clear. What we cannot read stays."""
        return event if isinstance(event, Unknown) else self._open()(event)

    def line(self, line: bytes) -> bytes:
        """A line of an export of the journal, cleaned; the same bytes when there is no need."""
        told = msgspec.json.decode(line, type=_Line)
        if told.event == _NOTHING:
            return line
        event = decode(told.kind, bytes(told.event))
        cleaned = self.recorded(event)
        if cleaned is event:
            return line
        return msgspec.json.encode({"seq": told.seq, "kind": told.kind, "event": cleaned})

    def _open(self) -> "EventCleaner":
        if self._cleaner is None:
            from hermes.policy.event_cleaning import EventCleaner
            from hermes.policy.redaction import Redactor

            self._cleaner = EventCleaner(Redactor(own_values(self._loaded)).clean)
        return self._cleaner


def own_values(loaded: Loaded) -> dict[str, str]:
    """What stands in our `.env`, but for plain settings, and whatever else is named like a key."""
    secrets = loaded.secrets
    kept = {
        name: secrets[name]
        for name in secrets.kept
        if name in secrets and key_for(name) is None and name not in (PROVIDER, MODEL, *WAITING)
    }
    return {**secrets.sensitive(), **kept}
