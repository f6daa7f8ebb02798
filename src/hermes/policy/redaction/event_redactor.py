"""Removes secrets from events before they are written to the journal and published.

Every text of an event is cleaned, so that new event types need no code here. Only identifiers are
kept: an id that looks random is no secret.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from hermes.core.events import Event
from hermes.policy.redaction.redactor import REDACTION_MARK, redaction_marker
from hermes.policy.redaction.secret_heuristics import SECRET_WORD_STEMS

MIN_SECRET_CHARS = 6
"""A shorter text is no secret."""
UNREDACTED_FIELDS = frozenset(
    {
        *("run", "parent", "id", "call_id", "approval", "grant", "process", "fact", "artifact"),
        *("hash", "action", "digest", "previous", "signature"),
        *("model", "directory", "cwd", "environment", "target", "origin", "file"),
        *("key", "keys", "reference", "quoted", "sender", "press", "pressed", "session", "to"),
        *("chat", "thread", "notice"),
        "wire",  # signed by the provider, which needs it unchanged
    }
)
MAX_CACHED_TEXTS, MAX_CACHED_TEXT_CHARS = 64, 16_384
"""The cache of cleaned texts: a call is written three times, and the executor cleans a result
before it gets here."""

AnyValue = TypeVar("AnyValue")


class EventRedactor:
    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._recent_texts: OrderedDict[str, str] = OrderedDict()

    def __call__(self, event: Event) -> Event:
        """The same object when there is nothing to remove."""
        return self._struct(event)

    def text(self, text: str) -> str:
        if len(text) < MIN_SECRET_CHARS:
            return text
        known = self._recent_texts.get(text)
        if known is not None:
            return text if known == text else known  # callers use `is` to detect a change
        cleaned = self._clean(text)
        if len(text) <= MAX_CACHED_TEXT_CHARS:
            for one in {text, cleaned}:
                self._recent_texts[one] = cleaned
            while len(self._recent_texts) > MAX_CACHED_TEXTS:
                self._recent_texts.popitem(last=False)
        return text if cleaned == text else cleaned

    def _struct(self, value: AnyValue) -> AnyValue:
        assert isinstance(value, msgspec.Struct)
        changed = {}
        for name in value.__struct_fields__:
            if name not in UNREDACTED_FIELDS:
                before = getattr(value, name)
                after = self._value(before)
                if after is not before:
                    changed[name] = after
        return msgspec.structs.replace(value, **changed) if changed else value

    def _value(self, value: Any) -> Any:
        if type(value) is str:
            return self.text(value)
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if type(value) is dict:
            return self._mapping(value)
        if type(value) in (tuple, list):
            cleaned = [self._value(one) for one in value]
            same = all(after is before for after, before in zip(cleaned, value, strict=True))
            return value if same else type(value)(cleaned)
        return value

    def _mapping(self, value: dict[str, Any]) -> dict[str, Any]:
        """Arguments and similar data: only the name may show that a value is a secret."""
        cleaned = {self.text(name): self._named(name, inner) for name, inner in value.items()}
        same = len(cleaned) == len(value) and all(
            cleaned.get(name, value) is inner for name, inner in value.items()
        )
        return value if same else cleaned

    def _named(self, name: str, value: Any) -> Any:
        after = self._value(value)
        if type(value) is not str or after is not value or len(value) < 4:
            return after
        lower = name.lower()
        if any(stem in lower for stem in SECRET_WORD_STEMS) and REDACTION_MARK not in value:
            beside = self._clean(f'"{name}": "{value}"')
            if REDACTION_MARK in beside and value not in beside:
                return redaction_marker(name[:40])
        return value
