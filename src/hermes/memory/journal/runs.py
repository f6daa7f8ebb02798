"""Shared by all journals: the filter of a reader, and the summary of a run in a list."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import NamedTuple

from hermes.core.events import Event
from hermes.core.events.base import RunOrigin, UnknownEvent
from hermes.core.events.runs import MessageAdded, ModelSwitched, RunDeleted, RunRenamed, RunStarted
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord


class EventFilter(NamedTuple):
    """Selects the events that a reader wants."""

    run: str | None = None
    kinds: tuple[str, ...] = ()
    since: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """As of a reader that follows everything."""
        return self.run is None and not self.kinds

    def matches(self, event: Event | UnknownEvent) -> bool:
        return (
            self.run in (None, event.run)
            and (not self.kinds or event.kind in self.kinds)
            and (self.since is None or event.at >= self.since)
        )


class SelectsEvents(ABC):
    """Gives each kind of journal the `read` of the protocol."""

    @abstractmethod
    def select(self, after: int, want: EventFilter) -> AsyncIterator[JournalRecord]: ...

    def read(
        self,
        *,
        after: int = 0,
        run: str | None = None,
        kinds: Sequence[str] = (),
        since: datetime | None = None,
    ) -> AsyncIterator[JournalRecord]:
        return self.select(after, EventFilter(run, tuple(dict.fromkeys(kinds)), since))


MAX_TASK_CHARS = 200
"""Characters of the first request."""


class RunSummary(Value, kw_only=True, frozen=True):
    id: str
    origin: RunOrigin
    parent: str = ""
    task: str = ""
    """Its task: as given at the start, else the first words of a person."""
    title: str = ""
    """The last name that it was given."""
    model: str = ""
    started_at: datetime
    last_at: datetime
    messages: int = 0
    deleted: bool = False


RUN_HEAD_KINDS = ("run.started", "run.renamed", "model.switched", "run.deleted")
"""Kinds that a summary is made from, besides the first message of a person."""
MESSAGE_KINDS = ("message.added", "message.imported")


def fold_runs(
    records: Sequence[JournalRecord], limit: int, parent: str | None, deleted: bool
) -> Sequence[RunSummary]:
    """The list of runs, from events in memory."""
    events: dict[str, list[Event | UnknownEvent]] = {}
    for recorded in records:
        events.setdefault(recorded.event.run, []).append(recorded.event)
    started = dict.fromkeys(
        recorded.event.run for recorded in records if isinstance(recorded.event, RunStarted)
    )
    listed = [
        summarize_run(
            events[run],
            messages=sum(event.kind in MESSAGE_KINDS for event in events[run]),
            last_at=events[run][-1].at,
        )
        for run in reversed(started)
    ]
    return [
        summary
        for summary in listed
        if summary is not None
        and parent in (None, summary.parent)
        and (deleted or not summary.deleted)
    ][:limit]


def summarize_run(
    events: Sequence[Event | UnknownEvent], *, messages: int, last_at: datetime
) -> RunSummary | None:
    """From the events of `RUN_HEAD_KINDS` and the first message of a person, in their order.

    None when only a later version can read how it started.
    """
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    if started is None:
        return None
    titles = [event.title for event in events if isinstance(event, RunRenamed)]
    models = [event.model for event in events if isinstance(event, ModelSwitched)]
    said = (event.message for event in events if isinstance(event, MessageAdded))
    asked = next((message.text for message in said if message.role == "user"), "")
    return RunSummary(
        id=started.run,
        origin=started.origin,
        parent=started.parent,
        task=started.task or asked[:MAX_TASK_CHARS],
        title=titles[-1] if titles else "",
        model=models[-1] if models else started.model,
        started_at=started.at,
        last_at=last_at,
        messages=messages,
        deleted=any(isinstance(event, RunDeleted) for event in events),
    )
