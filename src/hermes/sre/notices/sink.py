"""Where notices go. A chat channel is another one of these, and nothing else here changes."""

from typing import Protocol

from hermes.core.errors import HermesError
from hermes.core.events.incidents import Severity
from hermes.core.events.watching import NoticeKind, NoticeQueued
from hermes.core.messages import Value

GRAVEST_FIRST: tuple[Severity, ...] = ("P0", "P1", "P2", "P3")
REPEATED = " (repeated)"


class Undelivered(HermesError):
    """A try failed. `hopeless`: another one would, too; `unsure`: it may have arrived."""

    def __init__(self, message: str, *, hopeless: bool = False, unsure: bool = False) -> None:
        super().__init__(message)
        self.hopeless, self.unsure = hopeless, unsure


class Sink(Protocol):
    """Raises `Undelivered`; whatever else it raises counts as one, too."""

    name: str

    async def send(self, notice: NoticeQueued, repeated: bool) -> None: ...


class Wanted(Value, kw_only=True, frozen=True):
    """What one sink is told."""

    sink: str
    severity: Severity = "P3"
    """The least grave."""
    about: tuple[NoticeKind, ...] = ()
    """Empty: everything."""

    def takes(self, about: NoticeKind, severity: str) -> bool:
        if self.about and about not in self.about:
            return False
        return severity not in GRAVEST_FIRST or severity <= self.severity


def title_of(notice: NoticeQueued, repeated: bool) -> str:
    """After a crash it is told again rather than not at all, and says so."""
    return notice.title + (REPEATED if repeated else "")
