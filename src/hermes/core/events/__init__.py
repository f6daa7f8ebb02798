"""Everything that happens, as data.

An event is a past-tense fact. It is written to the journal first and then delivered to every
reader: command line, gateway, dashboard, trajectories, rewards. No code calls a reader by name, so
no package needs to know another.

To add an event: add a class to the file of its subject, with a `tag` of its own. Old journals stay
readable, so fields are only ever added, each with a default; a changed meaning is a new kind. A
kind that this version does not know is read as `UnknownEvent` and kept unchanged, and so is an
event with a value that this version does not know, such as a new origin of a run.
"""

from datetime import datetime
from typing import Any

import msgspec

from hermes.core.events import (
    access,
    approvals,
    changes,
    chats,
    experiments,
    incidents,
    jobs,
    mcp,
    memory,
    operations,
    people,
    runs,
    skills,
    tools,
)
from hermes.core.events.base import BaseEvent, UnknownEvent

Event = BaseEvent
EVENT_TYPES: dict[str, type[Event]] = {
    str(kind.__struct_config__.tag): kind
    for module in (
        runs,
        tools,
        approvals,
        memory,
        skills,
        incidents,
        experiments,
        operations,
        changes,
        access,
        people,
        jobs,
        chats,
        mcp,
    )
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}

DURABLE_KINDS = frozenset(
    {"tool.approved", "approval.answered", "grant.given", "alert.raised", "job.started"}
    | {"token.created", "token.revoked", "mcp.reviewed", "mcp.removed"}
    | {"mcp.logged_in", "mcp.logged_out"}
    | {"web.login", "web-session.started", "web-session.ended"}
    | {"person.added", "person.removed", "pairing.approved", "pairing.revoked", "chat.received"}
    | {"hook.trusted", "hook.untrusted"}
)
"""Kinds that must be on the disk, not only in the system's cache, before anyone acts on them."""

_UNKNOWN_VALUE_ERROR = "Invalid enum value"
"""How msgspec begins its error for a value that a Literal or an enum does not have."""

_EVENT_ENCODER = msgspec.json.Encoder()


def encode_event(event: Event) -> bytes:
    return _EVENT_ENCODER.encode(event)


def decode_event(kind: str, body: bytes | str) -> Event | UnknownEvent:
    """Read an event back. Raises `msgspec.DecodeError` when the body is damaged."""
    known = EVENT_TYPES.get(kind)
    if known is not None:
        try:
            return msgspec.json.decode(body, type=known)
        except msgspec.ValidationError as error:
            if not str(error).startswith(_UNKNOWN_VALUE_ERROR):
                raise
    raw: dict[str, Any] = msgspec.json.decode(body)
    return UnknownEvent(
        kind=kind,
        run=str(raw.get("run", "")),
        at=msgspec.convert(raw["at"], datetime),
        body=body.encode() if isinstance(body, str) else body,
    )
