"""Events are read for ever: by older and newer versions than the one that wrote them."""

from datetime import UTC, datetime

import msgspec
import pytest

from hermes.core.events import EVENT_TYPES, decode_event, encode_event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.runs import MessageAdded
from hermes.core.events.tools import ToolStarted
from hermes.core.messages import Message, Risk


def test_every_kind_has_a_name_of_its_own_in_the_past_tense_of_a_noun() -> None:
    assert len(EVENT_TYPES) == len(set(EVENT_TYPES.values()))
    assert all(kind.count(".") == 1 for kind in EVENT_TYPES)


def test_an_event_comes_back_as_it_was() -> None:
    event = MessageAdded(run="r", message=Message(role="user", text="hello"))
    assert decode_event(event.kind, encode_event(event)) == event


def test_defaults_are_not_written() -> None:
    event = ToolStarted(run="r", call_id="c", risk=Risk.READ, at=datetime(2026, 1, 2, tzinfo=UTC))
    assert encode_event(event) == (
        b'{"kind":"tool.started","run":"r","at":"2026-01-02T00:00:00Z","call_id":"c","risk":"read"}'
    )


def test_a_field_of_a_later_version_is_ignored() -> None:
    body = b'{"kind":"run.renamed","title":"t","run":"r","at":"2026-01-02T00:00:00Z","colour":3}'
    assert decode_event("run.renamed", body).run == "r"


def test_a_kind_of_a_later_version_is_kept_untouched() -> None:
    body = b'{"kind":"moon.rose","run":"r","at":"2026-01-02T00:00:00Z","phase":3}'
    event = decode_event("moon.rose", body)
    assert isinstance(event, UnknownEvent)
    assert (event.kind, event.run, event.body) == ("moon.rose", "r", body)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("run.started", '"origin":"telepathy"'), ("tool.started", '"call_id":"c","risk":"cosmic"')],
)
def test_a_value_of_a_later_version_keeps_the_event_untouched(kind: str, value: str) -> None:
    body = f'{{"kind":"{kind}","run":"r","at":"2026-01-02T00:00:00Z",{value}}}'.encode()
    event = decode_event(kind, body)
    assert isinstance(event, UnknownEvent)
    assert (event.kind, event.run, event.body) == (kind, "r", body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"run.started","run":"r","at":"2026-01-02T00:00:00Z","origin":3}',
        b'{"kind":"run.renamed","run":"r","at":"2026-01-02T00:00:00Z","title":"another kind"}',
        b'{"kind":"run.started","run":"r","at":"yesterday","origin":"cli"}',
    ],
)
def test_a_value_of_a_wrong_type_is_damage_and_no_later_version(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_event("run.started", body)


@pytest.mark.parametrize("body", [b"", b"{", b'{"kind":"run.renamed"}', b"[]"])
def test_a_damaged_body_is_an_error_and_not_an_empty_event(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_event("run.renamed", body)
