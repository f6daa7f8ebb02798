"""Everything that happens, as data.

An event is a past-tense fact. It is written to the journal first and then delivered to every
reader: command line, gateway, dashboard, trajectories, rewards. No code calls a reader by name, so
no package needs to know another.

To add an event: add a class to the file of its subject, with a `tag` of its own, and name it in the
union there. Old journals stay readable, so fields are only ever added, each with a default; a
changed meaning is a new kind. A kind that this version does not know is read as `UnknownEvent` and
kept unchanged.
"""

from datetime import datetime
from typing import Any, get_args

import msgspec

from hermes.core.events.approvals import ApprovalEvent
from hermes.core.events.base import UnknownEvent
from hermes.core.events.incidents import IncidentEvent
from hermes.core.events.memory import MemoryEvent
from hermes.core.events.operations import CheckpointSigned, WatchEvent
from hermes.core.events.runs import RunEvent
from hermes.core.events.skills import SkillEvent
from hermes.core.events.tools import ToolEvent

Event = (
    RunEvent
    | ToolEvent
    | ApprovalEvent
    | MemoryEvent
    | SkillEvent
    | IncidentEvent
    | WatchEvent
    | CheckpointSigned
)

EVENT_TYPES: dict[str, type[Event]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(Event)
}

DURABLE_KINDS = frozenset({"tool.approved", "approval.answered", "grant.given", "alert.raised"})
"""Kinds that must be on the disk, not only in the system's cache, before anyone acts on them."""

_EVENT_ENCODER = msgspec.json.Encoder()


def encode_event(event: Event) -> bytes:
    return _EVENT_ENCODER.encode(event)


def decode_event(kind: str, body: bytes | str) -> Event | UnknownEvent:
    """Read an event back. Raises `msgspec.DecodeError` when the body is damaged."""
    known = EVENT_TYPES.get(kind)
    if known is not None:
        return msgspec.json.decode(body, type=known)
    raw: dict[str, Any] = msgspec.json.decode(body)
    return UnknownEvent(
        kind=kind,
        run=str(raw.get("run", "")),
        at=msgspec.convert(raw["at"], datetime),
        body=body.encode() if isinstance(body, str) else body,
    )
