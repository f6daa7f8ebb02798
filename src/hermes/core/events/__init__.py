"""Everything that happens, as data.

An event is a past-tense fact. It is written to the journal first and then shown to every
reader: command line, gateway, dashboard, trajectories, rewards. Nobody calls a reader by name,
so no room needs to know another.

To add an event: add a class to the file of its subject, with a `tag` of its own, and name it in the
union there. Old journals are read for ever, so fields are only ever added, each with a default; a
changed meaning is a new kind. A kind that this version does not know is read as `Unknown` and kept
as it is.
"""

from datetime import datetime
from typing import Any, get_args

import msgspec

from hermes.core.events.approvals import ApprovalEvent
from hermes.core.events.audit import CheckpointSigned
from hermes.core.events.happening import Unknown
from hermes.core.events.incidents import IncidentEvent
from hermes.core.events.memory import MemoryEvent
from hermes.core.events.runs import RunEvent
from hermes.core.events.skills import SkillEvent
from hermes.core.events.tools import ToolEvent
from hermes.core.events.watching import WatchEvent

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

KINDS: dict[str, type[Event]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Event)}

DURABLE = frozenset({"tool.approved", "approval.answered", "grant.given", "alert.raised"})
"""Kinds that must be on the disk, not only in the system's cache, before anyone acts on them."""

_encoder = msgspec.json.Encoder()


def encode(event: Event) -> bytes:
    return _encoder.encode(event)


def decode(kind: str, body: bytes | str) -> Event | Unknown:
    """Read an event back. Raises `msgspec.DecodeError` when the body is damaged."""
    known = KINDS.get(kind)
    if known is not None:
        return msgspec.json.decode(body, type=known)
    raw: dict[str, Any] = msgspec.json.decode(body)
    return Unknown(
        kind=kind,
        run=str(raw.get("run", "")),
        at=msgspec.convert(raw["at"], datetime),
        body=body.encode() if isinstance(body, str) else body,
    )
