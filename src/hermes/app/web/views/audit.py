"""The audit log: what was decided, approved and done, in pages; and its verification."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase

import anyio.to_thread
from msgspec.structs import replace

from hermes.app.incidents.views import PlainObject
from hermes.app.journal.audit_verification import AuditReport, proof_of_home, verify_journal
from hermes.app.web.views.private_runs import PrivateRuns
from hermes.core.events.operations import CheckpointSigned
from hermes.core.protocols import JournalRecord
from hermes.memory.store import JournalStore, display_location
from hermes.policy.audit.head import head_file
from hermes.policy.audit.history import (
    AUDIT_EVENT_KINDS,
    AuditedAction,
    fold_audited_actions,
)
from hermes.settings.load import LoadedSettings

FIRST_WINDOW_EVENTS = 500
"""Events of the journal that are read for the newest rows; each step back reads twice as many."""
MAX_READ_EVENTS = 200_000
"""Where few rows match, the search ends after this many events; the next page continues."""
RESULT_EVENTS = 2_000
"""How far after a request its result is looked for."""

PRIVATE_TEXT = "in a private chat"


class JournalAudit:
    """Fulfils what the page of the audit shows and does."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded, self._journal = loaded, journal
        self._private_runs = PrivateRuns(journal)
        self._report: AuditReport | None = None
        self._verified_at: datetime | None = None

    async def actions(
        self,
        *,
        person: str,
        words: str = "",
        verdict: str = "",
        rule: str = "",
        run: str = "",
        limit: int,
        before: int = 0,
    ) -> PlainObject:
        """Actions that match, the newest first; `next`: the cursor of older ones, or 0.

        What was done in a private chat of another person is listed without its words.
        """
        may_read = await self._private_runs.readable_by(person)
        newest = await self._journal.last()
        end = min(before - 1, newest) if before else newest
        found: list[AuditedAction] = []
        size = FIRST_WINDOW_EVENTS
        read = 0
        while end > 0 and len(found) <= limit and read < MAX_READ_EVENTS:
            start = max(0, end - size)
            window = [
                each if may_read(each.run) else _without_words(each)
                for each in await self._window(start, end)
            ]
            matching = [each for each in window if _matches(each, words, verdict, rule, run)]
            found += reversed(matching)
            read, end, size = read + size, start, size * 2
        shown = found[:limit]
        more = len(found) > limit
        return {
            "actions": [describe_action(each) for each in shown],
            "next": shown[-1].seq if more else end + 1 if end > 0 else 0,
            "events": newest,
        }

    async def _window(self, start: int, end: int) -> list[AuditedAction]:
        """Actions that were requested after `start` and not after `end`."""
        records: list[JournalRecord] = []
        async for recorded in self._journal.read(after=start, kinds=AUDIT_EVENT_KINDS):
            if recorded.seq > end + RESULT_EVENTS:
                break
            records.append(recorded)
        folded = fold_audited_actions(records)
        return sorted((each for each in folded if start < each.seq <= end), key=lambda one: one.seq)

    async def verify(self) -> str:
        """Check every event against the chain, the signatures and the head."""
        loaded = self._loaded
        head = head_file(loaded.home, display_location(loaded.store))

        def work() -> AuditReport:
            return verify_journal(loaded.store, proof_of_home(loaded.home, head))

        self._report = await anyio.to_thread.run_sync(work)
        self._verified_at = datetime.now(UTC)
        return f"{self._report.events:,} events were checked: {self._report.status}"

    async def chain(self) -> PlainObject:
        """The last signature, and the last verification by this process."""
        signed: CheckpointSigned | None = None
        signed_seq, newest = 0, await self._journal.last()
        async for recorded in self._journal.read(
            after=max(0, newest - MAX_READ_EVENTS), kinds=("audit.signed",)
        ):
            if isinstance(recorded.event, CheckpointSigned):
                signed, signed_seq = recorded.event, recorded.seq
        report = self._report
        return {
            "events": newest,
            "signed_to": signed_seq,
            "signed_at": signed.at.isoformat() if signed is not None else None,
            "verified": {
                "status": report.status,
                "events": report.events,
                "signed_to": report.signed_to,
                "unsigned": report.unsigned,
                "checkpoints": report.checkpoints,
                "first_broken": report.first_broken,
                "problems": list(report.problems),
                "doubts": list(report.doubts),
                "at": self._verified_at.isoformat() if self._verified_at else None,
            }
            if report is not None
            else None,
        }


def _without_words(action: AuditedAction) -> AuditedAction:
    return replace(action, what=PRIVATE_TEXT, tainted="", reason="")


def _matches(action: AuditedAction, words: str, verdict: str, rule: str, run: str) -> bool:
    text = f"{action.tool} {action.what} {' '.join(action.people)} {action.origin}".casefold()
    return (
        verdict in ("", action.verdict)
        and (not rule or fnmatchcase(action.rule, rule))
        and (not run or action.run == run or action.run.startswith(f"{run}/"))
        and all(word in text for word in words.casefold().split())
    )


def describe_action(action: AuditedAction) -> PlainObject:
    return {
        "seq": action.seq,
        "at": action.at.isoformat(),
        "run": action.run,
        "origin": action.origin,
        "actor": action.actor,
        "who": action.who,
        "tool": action.tool,
        "what": action.what,
        "verdict": action.verdict,
        "rule": action.rule,
        "reason": action.reason,
        "effects": list(action.effects),
        "tainted": action.tainted,
        "people": list(action.people),
        "started": action.started,
        "result": action.result or ("unknown" if action.started else "not run"),
        "seconds": action.seconds,
    }
