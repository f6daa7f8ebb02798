"""The summary of a run in a list of sessions."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from hermes.core.events.base import RunOrigin
from hermes.core.events.runs import MessageAdded, ModelSwitched, RunDeleted, RunRenamed, RunStarted
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord

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


def fold_runs(
    records: Iterable[JournalRecord], limit: int, parent: str | None, deleted: bool
) -> Sequence[RunSummary]:
    """The same list from events in memory."""
    of: dict[str, list[JournalRecord]] = {}
    for recorded in records:
        of.setdefault(recorded.event.run, []).append(recorded)
    first = [
        (recorded.seq, recorded.event, own)
        for own in of.values()
        for recorded in own
        if isinstance(recorded.event, RunStarted)
    ]
    listed: dict[str, RunSummary] = {}
    for _, started, own in sorted(first, key=lambda item: item[0]):
        listed.setdefault(started.run, _summary_from_events(started, own))
    return [
        summary
        for summary in reversed(listed.values())
        if parent in (None, summary.parent) and (deleted or not summary.deleted)
    ][:limit]


def _summary_from_events(started: RunStarted, records: Sequence[JournalRecord]) -> RunSummary:
    events = [recorded.event for recorded in records]
    titles = [event.title for event in events if isinstance(event, RunRenamed)]
    models = [event.model for event in events if isinstance(event, ModelSwitched)]
    messages = (event.message for event in events if isinstance(event, MessageAdded))
    asked = next((message.text for message in messages if message.role == "user"), "")
    return build_run_summary(
        started,
        task=started.task or asked[:MAX_TASK_CHARS],
        title=titles[-1] if titles else "",
        model=models[-1] if models else started.model,
        last_at=events[-1].at,
        messages=sum(event.kind in ("message.added", "message.imported") for event in events),
        deleted=any(isinstance(event, RunDeleted) for event in events),
    )


def build_run_summary(
    started: RunStarted,
    *,
    task: str,
    title: str,
    model: str,
    last_at: datetime,
    messages: int,
    deleted: bool,
) -> RunSummary:
    return RunSummary(
        id=started.run,
        origin=started.origin,
        parent=started.parent,
        task=task,
        title=title,
        model=model,
        started_at=started.at,
        last_at=last_at,
        messages=messages,
        deleted=deleted,
    )
