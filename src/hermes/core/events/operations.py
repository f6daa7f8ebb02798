"""Events of the watch itself: probe rounds, outages of the journal, maintenance, notifications,
channels, hooks."""

from datetime import datetime
from typing import Literal

from hermes.core.channels import Button
from hermes.core.events.base import BaseEvent

NotificationKind = Literal[
    "declared", "update", "approval-needed", "resolved", "escalated", "briefing", "health",
    "reply", "question", "result",
]  # fmt: skip
"""The last three are parts of conversations: an answer to a person, a question of the agent or of
the policy that belongs to no incident, and what a scheduled job has to say."""

HOOKS_RUN, HOOKS_FOLDER = "hooks", "hooks"
"""The run of events about hooks and of the calls that run them; their folder in the home."""
HookOutcome = Literal["ran", "failed", "timed-out", "denied"]


class WatchStarted(BaseEvent, tag="watch.started", kw_only=True, frozen=True):
    """`quiet` is how long no watch was running, by the last recorded event; None for the first
    start."""

    by: str = ""
    quiet: float | None = None
    probes: int = 0


class WatchStopped(BaseEvent, tag="watch.stopped", kw_only=True, frozen=True):
    reason: str = ""


class HealthChecked(BaseEvent, tag="health.checked", kw_only=True, frozen=True):
    """A round of all probes has ended, on schedule or by hand."""

    ok: bool
    checks: int = 0
    failing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Could not be checked: not the same as healthy."""
    about_host: tuple[str, ...] = ()
    """Those of the failing that say how busy or full the host is: load, memory, disks."""
    seconds: float = 0.0
    due: datetime | None = None
    """When it should have begun."""


class HealthMissed(BaseEvent, tag="health.missed", kw_only=True, frozen=True):
    """Rounds that were due and did not happen."""

    rounds: int
    since: datetime
    why: str = ""


class JournalInterrupted(BaseEvent, tag="journal.interrupted", kw_only=True, frozen=True):
    """The journal could not be written from `since` on; the watch continued from memory."""

    since: datetime
    reason: str = ""


class JournalResumed(BaseEvent, tag="journal.resumed", kw_only=True, frozen=True):
    """The journal can be written again, and the events held in memory are in it."""

    since: datetime
    held: int = 0
    """Events that waited in memory and were recorded afterwards."""
    dropped: int = 0
    """Events that did not fit into memory and are lost."""
    again: int = 0
    """Events that had been recorded, were lost by the disk, and were recorded again."""


class ReserveReleased(BaseEvent, tag="reserve.released", kw_only=True, frozen=True):
    """The disk of the journal is full; the space reserved for this is in use."""

    left_bytes: int = 0
    size_bytes: int = 0


class ReserveRestored(BaseEvent, tag="reserve.restored", kw_only=True, frozen=True):
    """There is space again, and the reserve is allocated again."""

    size_bytes: int = 0


class MaintenanceAdded(BaseEvent, tag="maintenance.added", kw_only=True, frozen=True):
    """Until then, alerts that match `target` are received and not acted upon."""

    window: str
    target: str
    begins: datetime
    until: datetime
    by: str = ""
    reason: str = ""


class MaintenanceEnded(BaseEvent, tag="maintenance.ended", kw_only=True, frozen=True):
    window: str
    by: str = ""


class NotificationQueued(BaseEvent, tag="notice.queued", kw_only=True, frozen=True):
    """A notification to deliver. Kept until every sink has it, whatever happens in between."""

    notice: str
    about: NotificationKind
    title: str
    text: str = ""
    incident: str = ""
    severity: str = ""
    sinks: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    """Ids of the notifications that it replaces: a storm is sent as one."""
    to: str = ""
    """An address such as `telegram:-100123:42`; `telegram` alone is its home chat."""
    approval: str = ""
    """The request that it is about."""
    buttons: tuple[tuple[Button, ...], ...] = ()
    """Rows of buttons, where the channel has any."""
    edits: str = ""
    """Id of the notification whose message it replaces; where that is gone, it is a new message."""
    reply_to: str = ""
    """Reference of the message that it answers."""
    files: tuple[str, ...] = ()
    """Paths of files to send with it."""


class NotificationSent(BaseEvent, tag="notice.sent", kw_only=True, frozen=True):
    notice: str
    sink: str
    repeated: bool = False
    """It may have arrived before: Hermes died between sending and recording it."""
    tries: int = 1
    reference: str = ""
    """What the platform calls the message; empty where it has no names."""
    thread: str = ""
    """Address of the thread that was opened for it."""


class NotificationAttempted(BaseEvent, tag="notice.tried", kw_only=True, frozen=True):
    """Written before each attempt, and again with `error` when it failed."""

    notice: str
    sink: str
    error: str = ""
    given_up: bool = False
    by: str = ""
    """The process of the watch: two of them do not send the same notification twice."""
    unsure: bool = False
    """It failed, but may have arrived."""
    wait: float = 0.0
    """Seconds that the platform asks for before the next attempt."""
    pieces: int = 0
    """Pieces of a long text that arrived before it failed: the next attempt goes on after them."""


class ChannelOpened(BaseEvent, tag="channel.opened", kw_only=True, frozen=True):
    """A process can send through the channel from now on."""

    channel: str
    by: str = ""
    """The process."""
    listens: bool = False
    """It receives messages, too."""


class ChannelClosed(BaseEvent, tag="channel.closed", kw_only=True, frozen=True):
    channel: str
    by: str = ""
    error: str = ""
    """Why; empty when the process ended as planned."""
    again_in: float = 0.0
    """Seconds until it is opened again; 0: it is not."""


class GatewayStarted(BaseEvent, tag="gateway.started", kw_only=True, frozen=True):
    """A process receives from these chat channels now."""

    channels: tuple[str, ...] = ()
    by: str = ""
    """The process."""


class HookTrusted(BaseEvent, tag="hook.trusted", kw_only=True, frozen=True):
    """A person lets the hook run for every event after this one, as long as its files have this
    digest."""

    hook: str
    digest: str
    by: str = ""


class HookUntrusted(BaseEvent, tag="hook.untrusted", kw_only=True, frozen=True):
    hook: str
    by: str = ""
    """Empty: Hermes itself, because its files changed."""
    reason: str = ""


class HookEnded(BaseEvent, tag="hook.ended", kw_only=True, frozen=True):
    """A hook was run for an event. Without this event it is run again, with the same number."""

    hook: str
    event: str
    """Such as `incident:opened`."""
    number: int
    """The number of the event in the journal; 0 for a test."""
    outcome: HookOutcome = "ran"
    seconds: float = 0.0
    detail: str = ""
    """Why it did not run, or the exit code."""
    output: str = ""
    """The end of what it printed."""


class HookCursorMoved(BaseEvent, tag="hook.cursor", kw_only=True, frozen=True):
    """Every event up to these numbers is done."""

    cursors: tuple[tuple[str, int], ...] = ()
    """Hook and number."""


class CheckpointSigned(BaseEvent, tag="audit.signed", kw_only=True, frozen=True):
    """At this time the event with number `seq`, the one right before this, had `digest`."""

    seq: int
    digest: str
    previous: str
    """Digest of the previous checkpoint, so that none can be left out."""
    key: str
    """Fingerprint of the public key."""
    signature: str
