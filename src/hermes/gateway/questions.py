"""Asks people in chats for approval, and says everywhere how it was settled.

A question goes to the chat that its run belongs to. One without a chat goes to the home chats.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import anyio
from anyio.abc import TaskStatus
from msgspec.structs import replace

from hermes.core.actions import why_not_always
from hermes.core.bus import Bus
from hermes.core.channels import Button, PressVerb, press_data
from hermes.core.errors import StoreError
from hermes.core.events.approvals import (
    ActionAnnounced,
    ApprovalEscalated,
    ApprovalRequested,
    ApprovalSettled,
)
from hermes.core.events.chats import ChatReceived
from hermes.core.events.experiments import FixTested
from hermes.core.events.incidents import IncidentOpened
from hermes.core.events.operations import NotificationQueued
from hermes.core.events.runs import RunStarted
from hermes.core.foreign_text import visible_line, visible_text
from hermes.core.protocols import JournalRecord
from hermes.gateway.markdown import code_block, code_words, escape_markdown
from hermes.plumbing.limited_table import LimitedTable

QUESTION_KINDS = (
    "run.started",
    "chat.received",
    "incident.opened",
    "fix.tested",
    "approval.requested",
    "approval.escalated",
    "approval.settled",
    "action.announced",
    "notice.queued",
)
QUESTION_HISTORY = timedelta(days=2)
MAX_RUNS = 5_000
MAX_LINE_CHARS, MAX_PURPOSE_CHARS = 300, 160
RETRY_PAUSE_S = 5.0
SETTLING_TIME = timedelta(minutes=1)
"""So long after its end a question is settled by the process that asked, if that still runs."""
LOST_NOTE = "Hermes ended before anybody answered"
SETTLED_TITLES = {
    "approved": "✅ APPROVED",
    "denied": "⛔ DENIED",
    "expired": "⌛ NOBODY ANSWERED IN TIME",
    "withdrawn": "↩️ NO LONGER ASKED",
    "changed": "⚠️ CHANGED SINCE IT WAS APPROVED: it did not run",
}
TEST_TEXTS = {
    "recovered": "on a copy of the host it worked",
    "failed": "on a copy of the host it did not help",
    "not-reproduced": "the fault did not appear on a copy of the host, so nothing was shown",
    "unclear": "on a copy of the host the result was unclear",
}
Question = ApprovalRequested | ActionAnnounced


class QuestionState:
    """Open questions, where each was asked, and what is known about their runs."""

    def __init__(self) -> None:
        self.open: dict[str, Question] = {}
        self.asked: dict[str, dict[str, str]] = {}
        """By approval: the destinations, each with the id of its notification."""
        self.settled: dict[str, tuple[Question, ApprovalSettled]] = {}
        self.approvers: dict[str, tuple[str, ...]] = {}
        """By approval: who may answer since it was escalated."""
        self.queued = LimitedTable[str, bool](MAX_RUNS)
        self.chats = LimitedTable[str, str](MAX_RUNS)
        self.incidents = LimitedTable[str, str](MAX_RUNS)
        self.tests = LimitedTable[str, FixTested](MAX_RUNS)
        self._drills = LimitedTable[str, bool](MAX_RUNS)

    def apply(self, recorded: JournalRecord) -> None:
        event = recorded.event
        run = event.run.partition("/")[0]
        match event:
            case RunStarted(origin="gym"):
                self._drills[run] = True
            case ChatReceived():
                self.chats[run] = event.to
            case IncidentOpened() if event.run == event.incident:
                self.incidents[run] = event.title
            case FixTested():
                self.tests[event.incident] = event
            case NotificationQueued():
                self.note_queued(event)
            case _ if run not in self._drills:
                self._apply_question(event)

    def _apply_question(self, event: object) -> None:
        match event:
            case ApprovalRequested() | ActionAnnounced():
                if event.approval and not event.prompted:
                    self.open[event.approval] = event
            case ApprovalEscalated():
                if event.approval in self.open:
                    self.approvers[event.approval] = event.to
            case ApprovalSettled():
                question = self.open.pop(event.approval, None)
                self.approvers.pop(event.approval, None)
                if question is not None and self.asked.get(event.approval):
                    self.settled[event.approval] = (question, event)
            case _:
                pass

    def note_queued(self, event: NotificationQueued) -> None:
        self.queued[event.notice] = True
        if event.about == "question" and event.approval and not event.edits:
            self.asked.setdefault(event.approval, {})[event.to] = event.notice

    def forget(self, approval: str) -> None:
        self.asked.pop(approval, None)
        self.settled.pop(approval, None)


class QuestionNotifier:
    """Queues questions and their ends. `homes`: channels whose home chats are asked."""

    def __init__(
        self,
        bus: Bus,
        homes: Sequence[str],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._bus, self._homes, self._now = bus, tuple(homes), now
        self._state = QuestionState()
        self._queueing = anyio.Lock()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Ask in chats until cancelled. Raises `StoreError` when the journal cannot be read."""
        last = await self._bus.journal.last()
        since = self._now() - QUESTION_HISTORY
        async for recorded in self._bus.journal.read(kinds=QUESTION_KINDS, since=since):
            if recorded.seq <= last:
                self._state.apply(recorded)
        await self._queue()
        task_status.started()
        async with anyio.create_task_group() as group:
            group.start_soon(self._look_for_lost)
            async for recorded in self._bus.follow(after=last, kinds=QUESTION_KINDS):
                self._state.apply(recorded)
                await self._queue()

    async def _look_for_lost(self) -> None:
        """Look for questions whose process has ended: no event says that."""
        while True:
            await anyio.sleep(SETTLING_TIME.total_seconds())
            await self._queue()

    async def _queue(self) -> None:
        async with self._queueing:  # else two tasks would queue the same
            await self._queue_due()

    async def _queue_due(self) -> None:
        """Retry until it is written: otherwise no person is asked."""
        due = [each for each in self._due() if each.notice not in self._state.queued]
        while due:
            try:
                await self._bus.publish(*due)
            except StoreError:
                await anyio.sleep(RETRY_PAUSE_S)
                continue
            for each in due:
                self._state.note_queued(each)
            return

    def _due(self) -> Iterator[NotificationQueued]:
        state = self._state
        for approval, question in state.open.items():
            asked = state.asked.get(approval, {})
            if self._is_over(question):
                for to, first in asked.items() if self._is_lost(question) else ():
                    yield replace(_lost_notice(question, to, first), at=self._now())
                continue
            for to in asked or self._destinations(question):
                yield self._question(question, to)
            if approval in state.approvers:
                for to, first in asked.items():
                    again = self._question(question, to)
                    yield replace(again, notice=f"{first}:escalated", edits=first)
        for approval, (question, settled) in list(state.settled.items()):
            for to, first in state.asked.get(approval, {}).items():
                notice = _settled_notice(question, settled, to, first)
                yield replace(notice, incident=self._incident(question))
            state.forget(approval)

    def _is_over(self, question: Question) -> bool:
        if isinstance(question, ApprovalRequested):
            return question.until is not None and question.until < self._now()
        return question.at + timedelta(seconds=question.seconds) < self._now()

    def _is_lost(self, question: Question) -> bool:
        """Return whether it was not settled in time because the process that asked has ended."""
        until = question.until if isinstance(question, ApprovalRequested) else None
        return until is not None and until + SETTLING_TIME < self._now()

    def _destinations(self, question: Question) -> tuple[str, ...]:
        chat = self._state.chats.get(question.run.partition("/")[0])
        return (chat,) if chat else self._homes

    def _incident(self, question: Question) -> str:
        run = question.run.partition("/")[0]
        return run if run in self._state.incidents else ""

    def _question(self, question: Question, to: str) -> NotificationQueued:
        incident = self._incident(question)
        lines = list(_facts(question, self._state.approvers.get(question.approval, ())))
        if tested := self._state.tests.get(incident):
            lines.insert(3, ("Tested", _test_text(tested)))
        if incident:
            lines.append(("Incident", f"{incident}: {self._state.incidents.get(incident)}"))
        return NotificationQueued(
            run=question.run,
            at=self._now(),
            notice=f"question:{question.approval}:{to}",
            about="question",
            title=_title(question),
            text=_text(question, lines),
            incident=incident,
            to=to,
            approval=question.approval,
            buttons=question_buttons(question),
        )


def question_buttons(question: Question) -> tuple[tuple[Button, ...], ...]:
    """Return the buttons that the question allows: "always" is not offered where it must not be."""
    labels: list[list[tuple[PressVerb, str]]]
    if isinstance(question, ActionAnnounced):
        labels = [[("go", "▶️ Go now"), ("stop", "⛔ Stop")]]
    else:
        yes: list[tuple[PressVerb, str]] = [("once", "✅ Once")]
        if not (question.tainted or question.variables):
            yes.append(("session", "This session"))
        if not why_not_always(question):
            yes.append(("always", "Always"))
        labels = [yes, [("deny", "⛔ Deny")]]
    return tuple(
        tuple(Button(label, press_data(verb, question.approval)) for verb, label in row)
        for row in labels
    )


def _title(question: Question) -> str:
    words = "❓ APPROVAL NEEDED"
    if isinstance(question, ActionAnnounced):
        words = f"⏱ IN {question.seconds:g} s UNLESS STOPPED"
    about = visible_line(question.purpose, MAX_PURPOSE_CHARS)
    return f"{words}: {about}" if about else words


def _facts(question: Question, approvers: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return what a person needs to decide, each with its label. No words of the model."""
    yield "Effects", ", ".join(question.effects) or "none known"
    yield "Where", question.place
    yield "Undo", question.undo or "none known"
    yield "Rule", " – ".join(p for p in (question.rule, getattr(question, "reason", "")) if p)
    if isinstance(question, ApprovalRequested):
        yield "⚠️ Untrusted", question.tainted
        yield "Asked by", question.requester
        who = ", ".join(approvers or question.approvers) or "anyone who may approve"
        if question.count > 1:
            who += f"; {question.count} different people"
        if question.barred:
            who += f"; not {', '.join(question.barred)}"
        yield "Who may answer", who
        if question.until is not None:
            yield "Until", f"{question.until:%Y-%m-%d %H:%M:%S} UTC"


def _text(question: Question, lines: Sequence[tuple[str, str]]) -> str:
    verb = "stop" if isinstance(question, ActionAnnounced) else "approve"
    shown = [
        f"**{label}:** {escape_markdown(visible_line(words, MAX_LINE_CHARS))}"
        for label, words in lines
        if words
    ]
    command = f"hermes approvals {verb} {question.approval}"
    shown.append(f"**In a terminal:** {code_words(command)}")
    return code_block(visible_text(question.shown)) + "\n" + "\n".join(shown)


def _test_text(tested: FixTested) -> str:
    detail = f" ({tested.detail})" if tested.detail else ""
    return f"{tested.fix}: {TEST_TEXTS[tested.outcome]}{detail}"


def _lost_notice(question: Question, to: str, first: str) -> NotificationQueued:
    over = getattr(question, "until", None) or question.at
    settled = ApprovalSettled(
        run=question.run, at=over, approval=question.approval, outcome="expired", note=LOST_NOTE
    )
    return replace(_settled_notice(question, settled, to, first), title="⌛ EXPIRED")


def _settled_notice(
    question: Question, settled: ApprovalSettled, to: str, first: str
) -> NotificationQueued:
    title = SETTLED_TITLES[settled.outcome]
    if isinstance(question, ActionAnnounced) and settled.outcome == "denied":
        title = "⛔ STOPPED"
    who = ", ".join(settled.by)
    via = f" ({settled.via})" if settled.via else ""
    lines = [
        f"**By:** {escape_markdown(visible_line(who, MAX_LINE_CHARS))}{escape_markdown(via)}"
        if who
        else "",
        f"**At:** {settled.at:%Y-%m-%d %H:%M:%S} UTC",
        f"**Note:** {escape_markdown(visible_line(settled.note, MAX_LINE_CHARS))}"
        if settled.note
        else "",
    ]
    text = "\n".join(line for line in lines if line)
    return NotificationQueued(
        run=question.run,
        notice=f"{first}:settled",
        about="question",
        title=title,
        text=f"{code_block(visible_text(question.shown))}\n{text}",
        to=to,
        approval=question.approval,
        edits=first,
    )
