"""A tool call from the request to the result, and the background processes it may start."""

from typing import Literal

from hermes.core.events.base import BaseEvent
from hermes.core.messages import (
    OutgoingRequest,
    RemoteTarget,
    Risk,
    ToolCall,
    ToolDefinition,
    ToolResult,
)


class ToolRequested(BaseEvent, tag="tool.requested", kw_only=True, frozen=True):
    call: ToolCall
    risk: Risk = Risk.READ
    origin: str = ""
    environment: str = ""
    target: str = ""
    isolated: bool = False
    cwd: str = ""
    command: str = ""
    """The command line, when the tool runs a command."""
    actor: str = ""
    """For whom: the name of a person, or `channel:id` for one who has none."""
    remote: RemoteTarget | None = None
    """Where it acts, when that is not the environment."""
    request: OutgoingRequest | None = None
    """What it would send, when the tool sends one HTTP request."""
    definition: ToolDefinition | None = None
    """Which definition of the tool, when it is not part of this program."""


class ToolDecided(BaseEvent, tag="tool.decided", kw_only=True, frozen=True):
    call_id: str
    verdict: Literal["allow", "ask", "deny", "dry-run"]
    rule: str
    reason: str = ""
    effects: tuple[str, ...] = ()
    hash: str = ""
    """Hash of exactly this action, as the policy saw it."""
    tainted: str = ""
    """Its words that came from untrusted text."""
    audited: tuple[str, ...] = ()
    """Rules in audit mode that would have decided otherwise."""
    judged: str = ""
    """What the verdict allows: read-only, writing only to some paths, unrestricted."""
    enforced: str = ""
    """`yes`, `partly` or `no`: whether the kernel enforces that; empty when not known."""
    unenforced: str = ""
    """What is not enforced, or why nothing is."""


class ToolApproved(BaseEvent, tag="tool.approved", kw_only=True, frozen=True):
    """The answer to an approval request; no answer means no, by `nobody`."""

    call_id: str
    approved: bool
    by: str
    scope: Literal["once", "session", "always"] = "once"
    reason: str = ""
    """Why it does not run; empty for a plain no."""

    @property
    def answer(self) -> str:
        if self.approved:
            return f"approved by {self.by}"
        return f"refused: {self.reason}" if self.reason else f"refused by {self.by}"


class ToolStarted(BaseEvent, tag="tool.started", kw_only=True, frozen=True):
    """A tool call was started. From here on the system may have changed, whether or not a result
    was written."""

    call_id: str
    risk: Risk
    effects: tuple[str, ...] = ()
    """What the policy expects it to do, one word for each effect; empty where nothing is known."""


class ToolBlocked(BaseEvent, tag="tool.blocked", kw_only=True, frozen=True):
    """The kernel refused a command an access that its verdict does not cover."""

    call_id: str
    what: str
    """For example: write to /etc/hosts."""
    program: str = ""
    reason: str = ""
    command: str = ""
    judged: str = ""
    rule: str = ""
    optional: bool = False
    """Whether the program works the same without it."""


class ToolFinished(BaseEvent, tag="tool.finished", kw_only=True, frozen=True):
    result: ToolResult
    seconds: float = 0.0


class ProcessStarted(BaseEvent, tag="process.started", kw_only=True, frozen=True):
    process: str
    command: str
    environment: str


class ProcessMatched(BaseEvent, tag="process.matched", kw_only=True, frozen=True):
    """A watched pattern appeared in the output."""

    process: str
    pattern: str
    line: str


class ProcessReported(BaseEvent, tag="process.reported", kw_only=True, frozen=True):
    """A background process still runs; this is reported as often as was requested at its start."""

    process: str
    seconds: float = 0.0
    """Since it was started."""
    output: str = ""
    """The end of what it printed since the last report."""


class ProcessEnded(BaseEvent, tag="process.ended", kw_only=True, frozen=True):
    process: str
    exit_code: int | None = None
    """None when it is not known how it ended (a crash in between)."""
    reason: Literal["exited", "killed", "lost", "expired"] = "exited"
    tail: str = ""
