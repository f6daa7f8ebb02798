"""The fields and values that all events share."""

from datetime import UTC, datetime
from typing import Literal

from msgspec import field

from hermes.core.messages import Value

RunOrigin = Literal[
    "cli",
    "python",
    "chat",
    "cron",
    "subagent",
    "batch",
    "incident",
    "gym",
    "web",
    "hook",
    "mcp",
    "acp",
]
"""Where a run comes from. `mcp` is another program, `acp` a person at an editor."""
PROGRAM_ORIGINS: frozenset[RunOrigin] = frozenset({"mcp"})
"""Origins where another program speaks: its words are untrusted text."""


class BaseEvent(Value, kw_only=True, tag_field="kind", frozen=True):
    """The fields of all events: the time, and the run (a session, an incident, an episode)."""

    run: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class UnknownEvent(Value, kw_only=True, frozen=True):
    """An event of a later version, kept unchanged."""

    kind: str
    run: str
    at: datetime
    body: bytes
