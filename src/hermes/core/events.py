"""Everything that happens, as data.

An event is a past-tense fact. It is written to the journal first and then shown to every
reader: command line, gateway, dashboard, trajectories, rewards. Nobody calls a reader by name,
so no room needs to know another.

To add an event: add a class here with a `tag` of its own and name it in `Event`. Old journals
are read for ever, so fields are only ever added, each with a default; a changed meaning is a new
kind. A kind that this version does not know is read as `Unknown` and kept as it is.
"""

from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec
from msgspec import field

from hermes.core.messages import Message, Risk, ToolCall, ToolResult, Usage, Value

Origin = Literal["cli", "python", "chat", "cron", "subagent", "batch", "incident", "gym"]


class Happening(Value, kw_only=True, tag_field="kind", frozen=True):
    """What all events carry: when, and in which run (a session, an incident, an episode)."""

    run: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class RunStarted(Happening, tag="run.started", kw_only=True, frozen=True):
    origin: Origin
    parent: str = ""
    task: str = ""
    """The first words of what was asked, for listings."""
    model: str = ""
    directory: str = ""
    tools: tuple[str, ...] = ()
    unattended: bool = False
    """Nobody watches: after a crash it is picked up by itself."""


class RunRenamed(Happening, tag="run.renamed", kw_only=True, frozen=True):
    title: str


class RunDeleted(Happening, tag="run.deleted", kw_only=True, frozen=True):
    """A person no longer wants it. Its texts leave the store at the next compaction."""


class TurnStarted(Happening, tag="turn.started", kw_only=True, frozen=True):
    """A person, or the house, wants something of the agent."""

    turn: int


class TurnEnded(Happening, tag="turn.ended", kw_only=True, frozen=True):
    turn: int
    outcome: Literal["answered", "interrupted", "exhausted", "failed"]
    reason: str = ""


class TurnUndone(Happening, tag="turn.undone", kw_only=True, frozen=True):
    """The turn no longer counts as part of the conversation."""

    turn: int


class MessageAdded(Happening, tag="message.added", kw_only=True, frozen=True):
    """System, user and assistant messages. Tool results are `ToolFinished`: one copy each."""

    message: Message


class ModelAnswered(Happening, tag="model.answered", kw_only=True, frozen=True):
    """What an answer cost; the ledger of spending limits is the sum of these."""

    model: str
    usage: Usage
    seconds: float = 0.0


class ModelFailed(Happening, tag="model.failed", kw_only=True, frozen=True):
    """One attempt failed; `next` says what is tried instead, and after which wait."""

    model: str
    error: str
    next: str = ""
    wait: float = 0.0


class ModelSwitched(Happening, tag="model.switched", kw_only=True, frozen=True):
    model: str


class ContextCompressed(Happening, tag="context.compressed", kw_only=True, frozen=True):
    """Older messages gave way to a summary. `dropped` counts them from the first kept one on."""

    summary: str
    kept_first: int
    dropped: int
    tokens_before: int = 0
    tokens_after: int = 0


class ToolRequested(Happening, tag="tool.requested", kw_only=True, frozen=True):
    call: ToolCall
    risk: Risk = Risk.READ


class ToolDecided(Happening, tag="tool.decided", kw_only=True, frozen=True):
    call_id: str
    verdict: Literal["allow", "ask", "deny", "dry-run"]
    rule: str
    reason: str = ""
    effects: tuple[str, ...] = ()
    hash: str = ""
    """Of exactly this action, as the policy saw it."""


class ToolApproved(Happening, tag="tool.approved", kw_only=True, frozen=True):
    """Somebody answered; nobody answering is a no, by `nobody`."""

    call_id: str
    approved: bool
    by: str
    scope: Literal["once", "session"] = "once"


class ToolStarted(Happening, tag="tool.started", kw_only=True, frozen=True):
    """From here on the world may have changed, whether or not a result was ever written."""

    call_id: str
    risk: Risk


class ToolFinished(Happening, tag="tool.finished", kw_only=True, frozen=True):
    result: ToolResult
    seconds: float = 0.0


class ProcessStarted(Happening, tag="process.started", kw_only=True, frozen=True):
    process: str
    command: str
    environment: str


class ProcessMatched(Happening, tag="process.matched", kw_only=True, frozen=True):
    """A watched pattern appeared in the output."""

    process: str
    pattern: str
    line: str


class ProcessEnded(Happening, tag="process.ended", kw_only=True, frozen=True):
    process: str
    exit_code: int | None = None
    """None when nobody could see how it ended (a crash in between)."""
    reason: Literal["exited", "killed", "lost", "expired"] = "exited"
    tail: str = ""


class Unknown(Value, kw_only=True, frozen=True):
    """An event of a later version, kept untouched."""

    kind: str
    run: str
    at: datetime
    body: bytes


Event = (
    RunStarted
    | RunRenamed
    | RunDeleted
    | TurnStarted
    | TurnEnded
    | TurnUndone
    | MessageAdded
    | ModelAnswered
    | ModelFailed
    | ModelSwitched
    | ContextCompressed
    | ToolRequested
    | ToolDecided
    | ToolApproved
    | ToolStarted
    | ToolFinished
    | ProcessStarted
    | ProcessMatched
    | ProcessEnded
)

KINDS: dict[str, type[Event]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Event)}

DURABLE = frozenset({"tool.approved"})
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
