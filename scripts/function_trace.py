"""Notes the functions of `hermes` through which the events of an incident pass."""

from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from hermes.core.events.base import BaseEvent
from hermes.core.incident import INCIDENT_KINDS

SOURCE = Path(__file__).resolve().parent.parent / "src" / "hermes"
TRACED_KINDS = frozenset({*INCIDENT_KINDS, "alert.raised"})
UNCOUNTED = ("core/messages.py", "core/events/", "core/incident.py", "core/protocols.py")


class FunctionTrace:
    """Notes functions while it is the profile function of the main thread."""

    def __init__(self) -> None:
        self.counted: dict[tuple[str, str], None] = {}
        self.all: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, value: object) -> None:
        name = function_of(frame)
        if name is None:
            return
        self.all.add(name)
        if event == "call" and name == ("core/bus.py", "Bus.publish"):
            if has_traced_event(frame.f_locals.get("events")):
                self._count(*reversed(list(stack_of(frame))))
        elif event == "return" and has_traced_event(value):
            self._count(name)

    def _count(self, *names: tuple[str, str]) -> None:
        for file, function in names:
            if not file.startswith(UNCOUNTED):
                self.counted[file, function] = None


def function_of(frame: FrameType) -> tuple[str, str] | None:
    """File and name; None for other packages, lambdas and comprehensions."""
    code = frame.f_code
    path = Path(code.co_filename)
    if not path.is_relative_to(SOURCE) or code.co_name.startswith("<"):
        return None
    return path.relative_to(SOURCE).as_posix(), code.co_qualname.replace("<locals>.", "")


def stack_of(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    while frame is not None:
        if (name := function_of(frame)) is not None:
            yield name
        frame = frame.f_back


def has_traced_event(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(map(has_traced_event, value))
    return isinstance(value, BaseEvent) and value.kind in TRACED_KINDS
