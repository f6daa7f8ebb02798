"""What the API shows and does: views of the journal, and the actions of people."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from hermes.app.incidents.actions import (
    IncidentOutcome,
    acknowledge_incident,
    close_incident,
    reopen_incident,
    report_problem,
    tell_incident,
)
from hermes.app.incidents.approval_answers import answer_approval
from hermes.app.incidents.views import (
    find_approval_request,
    find_incident,
    summarize_incident,
    view_approval,
    view_approvals,
    view_incident,
)
from hermes.app.journal.search import root_run
from hermes.app.people import load_people
from hermes.core.errors import HermesError, PolicyDenied, StoreError
from hermes.core.events.base import RunOrigin
from hermes.core.events.runs import (
    MessageAdded,
    RunDeleted,
    RunStarted,
    TurnEnded,
    TurnStarted,
)
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings
from hermes.sre.reports.report_data import (
    STATE_KINDS,
    complete_incidents,
    list_incidents,
    read_earlier_incidents,
    read_incident_records,
)
from hermes.sre.reports.report_text import render_report
from hermes.sre.reports.statistics import compute_statistics
from hermes.sre.reports.timeline import build_timeline
from hermes.web.answer_types import (
    ApiRun,
    ApiRunDetail,
    ApprovalAnswer,
    ApprovalDetail,
    ApprovalOutcome,
    IncidentDetail,
    IncidentReport,
    IncidentSummary,
    IncidentTimeline,
    IncidentUpdate,
    ReportedIncident,
    RunTurn,
    StatisticsAnswer,
    TimelineRow,
)
from hermes.web.api_routes import UnknownIdError

VIA = "web"
TERMINAL_ORIGINS: frozenset[RunOrigin] = frozenset({"cli", "acp"})
"""Conversations at one screen: one person alone took part."""


class JournalViews:
    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded = loaded
        self._journal = journal
        self._private_runs: dict[str, str] = {}
        """Runs of private chats, terminals and editors, and whose they are."""
        self._read_to = 0

    async def may_read_run(self, run: str, person: str) -> bool:
        """Return whether this person may read a run: a private chat or a terminal is shown only to
        those who took part."""
        newest = await self._journal.last()
        async for recorded in self._journal.read(after=self._read_to, kinds=("run.started",)):
            if isinstance(event := recorded.event, RunStarted) and (
                event.audience or (event.by and event.origin in TERMINAL_ORIGINS)
            ):
                self._private_runs[event.run] = event.by
        self._read_to = newest
        return self._private_runs.get(root_run(run), person) == person

    async def incidents(
        self, *, only_open: bool, limit: int, before: str
    ) -> Sequence[IncidentSummary]:
        known = await list_incidents(self._journal, drills=False, kinds=STATE_KINDS)
        found = [each for each in known if not only_open or each.unresolved][::-1]
        if before:
            ids = [each.details.incident for each in found]
            if before not in ids:
                raise UnknownIdError(f"there is no incident {before!r}")
            found = found[ids.index(before) + 1 :]
        shown = await complete_incidents(self._journal, found[:limit])
        return [msgspec.convert(summarize_incident(each), IncidentSummary) for each in shown]

    async def incident(self, id: str) -> IncidentDetail:
        with unknown_ids():
            await find_incident(self._journal, id)
        return msgspec.convert(await view_incident(self._journal, id), IncidentDetail)

    async def incident_report(self, id: str) -> str:
        with unknown_ids():
            run = (await find_incident(self._journal, id)).run
        records = await read_incident_records(self._journal, run)
        earlier = await read_earlier_incidents(self._journal, records)
        return render_report(records, earlier=earlier)

    async def incident_timeline(self, id: str) -> IncidentTimeline:
        with unknown_ids():
            run = (await find_incident(self._journal, id)).run
        entries = build_timeline(await read_incident_records(self._journal, run))
        return IncidentTimeline(
            timeline=[TimelineRow(at=each.at.isoformat(), text=each.text) for each in entries]
        )

    async def approvals(self, *, everything: bool) -> Sequence[ApprovalDetail]:
        found = await view_approvals(self._loaded, self._journal, everything=everything)
        return [msgspec.convert(each, ApprovalDetail) for each in found]

    async def approval(self, id: str) -> ApprovalDetail:
        with unknown_ids():
            await find_approval_request(self._journal, id)
        found = await view_approval(self._loaded, self._journal, id)
        return msgspec.convert(found, ApprovalDetail)

    async def runs(self, *, limit: int, person: str) -> Sequence[ApiRun]:
        return [
            ApiRun(
                id=run.id,
                origin=run.origin,
                task=run.task,
                model=run.model,
                started_at=run.started_at,
            )
            for run in await self._journal.runs(limit=limit)
            if await self.may_read_run(run.id, person)
        ]

    async def run(self, id: str, *, person: str) -> ApiRunDetail:
        found = None
        if await self.may_read_run(id, person):
            found = await read_run(self._journal, id)
        if found is None:
            raise UnknownIdError(f"there is no run {id!r}")
        return found

    async def statistics(self, *, days: int) -> StatisticsAnswer:
        since = datetime.now(UTC) - timedelta(days=days)
        known = await list_incidents(self._journal, drills=False)
        recent = [each for each in known if each.details.opened_at >= since]
        return StatisticsAnswer(
            days=days, statistics=msgspec.to_builtins(compute_statistics(recent))
        )


async def read_run(journal: JournalStore, id: str) -> ApiRunDetail | None:
    """One run with its turns; None where there is none."""
    started: RunStarted | None = None
    turns: list[RunTurn] = []
    async for recorded in journal.read(run=id):
        event = recorded.event
        if isinstance(event, RunStarted):
            started = event
        elif isinstance(event, RunDeleted):
            return None
        elif isinstance(event, TurnStarted):
            turns.append(_begun_turn(event))
        elif isinstance(event, MessageAdded) and turns:
            turns[-1] = _with_message(turns[-1], event)
        elif isinstance(event, TurnEnded) and turns and turns[-1].turn == event.turn:
            turns[-1] = replace(turns[-1], outcome=event.outcome, reason=event.reason)
    if started is None:
        return None
    return ApiRunDetail(
        id=id,
        origin=started.origin,
        task=started.task,
        model=started.model,
        started_at=started.at,
        by=started.by,
        turns=turns,
    )


def _begun_turn(event: TurnStarted) -> RunTurn:
    return RunTurn(
        turn=event.turn, by=event.by, text="", answer="", outcome="", reason="", started_at=event.at
    )


def _with_message(turn: RunTurn, event: MessageAdded) -> RunTurn:
    if event.message.role == "user" and not turn.text:
        return replace(turn, text=event.message.text)
    said = event.message.role == "assistant" and event.message.text
    return replace(turn, answer=said) if said else turn


class PersonActions:
    """Every action names its person, and is refused as it would be in the terminal."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded = loaded
        self._journal = journal

    async def answer_approval(
        self, id: str, answer: ApprovalAnswer, *, person: str
    ) -> ApprovalOutcome:
        with unknown_ids():
            await find_approval_request(self._journal, id)
        outcome = await answer_approval(
            self._loaded,
            self._journal,
            id,
            answer.verb,
            person=person,
            via=VIA,
            hash=answer.hash,
            note=answer.note,
        )
        if not outcome.counts:
            raise PolicyDenied(outcome.text)
        return ApprovalOutcome(
            approval=outcome.approval,
            approved=outcome.approved,
            by=outcome.by,
            outcome=outcome.outcome,
            text=outcome.text,
        )

    async def report(self, report: IncidentReport, *, person: str) -> ReportedIncident:
        if problem := (await load_people(self._loaded, self._journal)).objection(person):
            raise PolicyDenied(problem)
        done = await report_problem(
            self._loaded,
            self._journal,
            report.text,
            service=report.service,
            severity=report.severity,
        )
        return ReportedIncident(
            alert=done.alert, incident=done.incident or None, watched=done.watched
        )

    async def acknowledge(self, id: str, *, person: str) -> IncidentUpdate:
        await self._find(id)
        return _update(await acknowledge_incident(self._loaded, self._journal, id, person=person))

    async def close(self, id: str, *, person: str, reason: str) -> IncidentUpdate:
        await self._find(id)
        done = await close_incident(self._loaded, self._journal, id, person=person, reason=reason)
        return _update(done)

    async def reopen(self, id: str, *, person: str, reason: str) -> IncidentUpdate:
        await self._find(id)
        done = await reopen_incident(self._loaded, self._journal, id, person=person, reason=reason)
        return _update(done)

    async def tell(self, id: str, *, person: str, text: str) -> IncidentUpdate:
        await self._find(id)
        return _update(await tell_incident(self._loaded, self._journal, id, text, person=person))

    async def _find(self, id: str) -> None:
        with unknown_ids():
            await find_incident(self._journal, id)


def _update(done: IncidentOutcome) -> IncidentUpdate:
    return IncidentUpdate(incident=done.incident, state=done.state, by=done.by, text=done.text)


@contextmanager
def unknown_ids() -> Iterator[None]:
    """A lookup fails with a text for people; for a program it is an id that is not there."""
    try:
        yield
    except StoreError:
        raise
    except HermesError as error:
        raise UnknownIdError(str(error)) from error
