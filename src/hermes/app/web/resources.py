"""What the API shows and does: views of the journal, and the actions of people."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

from hermes.app.actions import acknowledge_incident, answer_approval, close_incident
from hermes.app.journal_search import root_run
from hermes.app.views import (
    find_approval_request,
    find_incident,
    summarize_incident,
    view_approval,
    view_approvals,
    view_incident,
)
from hermes.core.errors import HermesError, PolicyDenied, StoreError
from hermes.core.events.runs import RunStarted
from hermes.gateway.answers import AnswerVerb
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
from hermes.web.resources import JsonObject, UnknownIdError

VIA = "web"


class JournalViews:
    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded = loaded
        self._journal = journal
        self._private_runs: dict[str, str] = {}
        """Runs of private chats, and whose they are."""
        self._read_to = 0

    async def may_read_run(self, run: str, person: str) -> bool:
        """What was said in a private chat is shown to the person who was there alone."""
        newest = await self._journal.last()
        async for recorded in self._journal.read(after=self._read_to, kinds=("run.started",)):
            if isinstance(event := recorded.event, RunStarted) and event.audience:
                self._private_runs[event.run] = event.by
        self._read_to = newest
        return self._private_runs.get(root_run(run), person) == person

    async def incidents(self, *, only_open: bool, limit: int, before: str) -> Sequence[JsonObject]:
        known = await list_incidents(self._journal, drills=False, kinds=STATE_KINDS)
        found = [each for each in known if not only_open or each.unresolved][::-1]
        if before:
            ids = [each.details.incident for each in found]
            if before not in ids:
                raise UnknownIdError(f"there is no incident {before!r}")
            found = found[ids.index(before) + 1 :]
        shown = await complete_incidents(self._journal, found[:limit])
        return [summarize_incident(each) for each in shown]

    async def incident(self, id: str) -> JsonObject:
        with _unknown_ids():
            await find_incident(self._journal, id)
        return await view_incident(self._journal, id)

    async def incident_report(self, id: str) -> str:
        with _unknown_ids():
            run = (await find_incident(self._journal, id)).run
        records = await read_incident_records(self._journal, run)
        earlier = await read_earlier_incidents(self._journal, records)
        return render_report(records, earlier=earlier)

    async def incident_timeline(self, id: str) -> Sequence[JsonObject]:
        with _unknown_ids():
            run = (await find_incident(self._journal, id)).run
        entries = build_timeline(await read_incident_records(self._journal, run))
        return [{"at": entry.at.isoformat(), "text": entry.text} for entry in entries]

    async def approvals(self, *, everything: bool) -> Sequence[JsonObject]:
        return await view_approvals(self._loaded, self._journal, everything=everything)

    async def approval(self, id: str) -> JsonObject:
        with _unknown_ids():
            await find_approval_request(self._journal, id)
        return await view_approval(self._loaded, self._journal, id)

    async def runs(self, *, limit: int, person: str) -> Sequence[JsonObject]:
        return [
            {
                "id": run.id,
                "origin": run.origin,
                "task": run.task,
                "model": run.model,
                "started_at": run.started_at.isoformat(),
            }
            for run in await self._journal.runs(limit=limit)
            if await self.may_read_run(run.id, person)
        ]

    async def statistics(self, *, days: int) -> JsonObject:
        since = datetime.now(UTC) - timedelta(days=days)
        known = await list_incidents(self._journal, drills=False)
        recent = [each for each in known if each.details.opened_at >= since]
        return {"days": days, "statistics": compute_statistics(recent)}


class PersonActions:
    """Every action names its person, and is refused as it would be in the terminal."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded = loaded
        self._journal = journal

    async def answer_approval(
        self, id: str, verb: str, *, person: str, hash: str, note: str
    ) -> JsonObject:
        with _unknown_ids():
            await find_approval_request(self._journal, id)
        outcome = await answer_approval(
            self._loaded,
            self._journal,
            id,
            cast("AnswerVerb", verb),
            person=person,
            via=VIA,
            hash=hash,
            note=note,
        )
        if not outcome.counts:
            raise PolicyDenied(outcome.text)
        return {
            "approval": outcome.approval,
            "approved": outcome.approved,
            "by": outcome.by,
            "outcome": outcome.outcome,
            "text": outcome.text,
        }

    async def acknowledge(self, id: str, *, person: str) -> JsonObject:
        with _unknown_ids():
            await find_incident(self._journal, id)
        done = await acknowledge_incident(self._loaded, self._journal, id, person=person)
        return {"incident": done.incident, "state": done.state, "by": done.by, "text": done.text}

    async def close(self, id: str, *, person: str, reason: str) -> JsonObject:
        with _unknown_ids():
            await find_incident(self._journal, id)
        done = await close_incident(self._loaded, self._journal, id, person=person, reason=reason)
        return {"incident": done.incident, "state": done.state, "by": done.by, "text": done.text}


@contextmanager
def _unknown_ids() -> Iterator[None]:
    """A lookup fails with a text for people; for a program it is an id that is not there."""
    try:
        yield
    except StoreError:
        raise
    except HermesError as error:
        raise UnknownIdError(str(error)) from error
