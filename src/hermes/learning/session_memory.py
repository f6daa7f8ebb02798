"""The memory of sessions: notes at the start, recall for each request, learning at the end.

A home without memories does not pay for it: nothing is imported until there is something to recall
or to learn.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

import anyio
from anyio.abc import TaskGroup

from hermes.agent.dependencies import AgentDependencies
from hermes.core.bus import Bus
from hermes.core.errors import BudgetExceeded, ModelError, StoreError
from hermes.core.events import Event
from hermes.core.events.memory import RunSummarised
from hermes.core.events.runs import MessageAdded, RunStarted, TurnStarted
from hermes.core.events.tools import ToolFinished
from hermes.core.knowledge import SYSTEM_NOTE_PREFIX, NoteAction, NoteTarget, RecallsLines
from hermes.core.protocols import JournalRecord
from hermes.memory.settings import MemorySettings
from hermes.memory.store import JournalStore

if TYPE_CHECKING:
    from hermes.memory.facts.fact import FactCandidate
    from hermes.memory.facts.recorder import FactRecorder
    from hermes.memory.notes.notes import AgentNotes

FACTS_FILE = "memory.db"
NOTE_FILES = ("MEMORY.md", "USER.md")
PRIVATE_NOTES_FOLDER = "notes"
"""Has a folder for each person with the notes that private chats made."""
FACT_WORDS = (
    "remember", "note", "keep in mind", "memori", "forget", "never", "always", "from now on",
    "ever", "circumstances", "no,", "no ", "nope", "wrong", "actually", "not quite", "correction",
    "that's", "that’s", "that is", "that was", "depends on", "connects to", "talks to",
)  # fmt: skip
"""Words without which no rule finds anything in what a person says."""
RECALL_TIMEOUT_S = 5.0
"""Seconds after which a turn begins without recalled text: a store may have to be rebuilt."""
LEARN_TIMEOUT_S = 15.0
"""Seconds that learning by rule may take at the end: it takes milliseconds."""


class SessionMemory:
    """Fulfils `KeepsNotes`. Lives as long as the application; learns from its runs at the end."""

    def __init__(
        self, home: Path, settings: MemorySettings, journal: JournalStore, bus: Bus
    ) -> None:
        self.session_recall: RecallsLines | None = None
        """Search over all sessions, if an index exists."""
        self.warnings: list[str] = []
        self._home = home
        self._settings = settings
        self._journal = journal
        self._bus = bus
        self._dependencies: AgentDependencies | None = None
        self._runs: dict[str, int] = {}
        self._busy = anyio.Lock()
        self._group: TaskGroup | None = None
        self._recorder: FactRecorder | None = None
        self._notes: dict[str, AgentNotes] = {}
        self._known = False

    async def __aenter__(self) -> Self:
        self.sections()  # so that problems with a file are reported before a run begins
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        succeeded = kind is None
        timeout_s = LEARN_TIMEOUT_S + (self._settings.model_seconds if succeeded else 0.0)
        try:
            with anyio.move_on_after(timeout_s, shield=True):
                for run in list(self._runs):
                    await self._learn(run, with_model=succeeded)
        finally:
            if self._group is not None:
                if not succeeded:
                    self._group.cancel_scope.cancel()
                await self._group.__aexit__(None, None, None)  # else it would wrap the error
            if self._recorder is not None:
                self._recorder.close()

    def set_dependencies(self, dependencies: AgentDependencies) -> None:
        """Sets the models and limits that learning uses."""
        self._dependencies = dependencies

    def learn_from_run(self, run: str) -> None:
        """Learn from this run when it ends, and from time to time before."""
        if self._settings.learn:
            self._runs.setdefault(run, 0)

    async def release_run(self, run: str) -> None:
        """The run is given back: learn from it now, as at the end of the application."""
        if self._runs.pop(run, None) is not None:
            with anyio.move_on_after(LEARN_TIMEOUT_S + self._settings.model_seconds):
                await self._learn(run, with_model=True)

    def sections(self, private_to: str = "") -> tuple[str, ...]:
        """The parts of the prompt made from the note files, as they are now.

        `private_to`: who alone takes part; their private notes are shown as well.
        """
        shared = self._section("")
        return (*shared, *self._section(private_to)) if private_to else shared

    def _section(self, private_to: str) -> tuple[str, ...]:
        folder = self._notes_folder(private_to)
        if not self._settings.notes or not any((folder / name).exists() for name in NOTE_FILES):
            return ()
        from hermes.memory.notes.prompt_section import render_section

        settings, notes = self._settings, self._open_notes(private_to)
        found = {"MEMORY.md": notes.read("memory"), "USER.md": notes.read("user")}
        limits = dict(zip(NOTE_FILES, (settings.memory_chars, settings.user_chars), strict=True))
        shown = render_section(
            [(name, note.text, limits[name]) for name, note in found.items()], settings.core_tokens
        )
        problems = (note.problem for note in found.values() if note.problem)
        self.warnings = [*dict.fromkeys((*self.warnings, *problems, *shown.warnings))]
        return (shown.text,) if shown.text else ()

    async def change(
        self, run: str, action: NoteAction, target: NoteTarget, content: str, old_text: str
    ) -> str:
        """Change the notes. A private chat's notes are shown only in private chats of the same
        person."""
        notes = self._open_notes(await self._private_person(run))
        return await notes.change(run, action, target, content, old_text)

    async def _private_person(self, run: str) -> str:
        """Whose private chat it is; empty when others may hear it."""
        root = run.partition("/")[0]
        async for recorded in self._journal.read(run=root, kinds=("run.started",)):
            if isinstance(recorded.event, RunStarted) and recorded.event.audience:
                return private_person(recorded.event.by, recorded.event.audience)
        return ""

    async def recall(self, run: str, text: str) -> tuple[Event, ...]:
        """Return what is known about a request, to be shown below it. An error here stops no
        turn."""
        self._learn_in_background(run)
        if not self._settings.recall or "/" in run:
            return ()
        try:
            session_recall = self.session_recall if self._settings.recall_sessions else None
            if not await self._has_facts() and session_recall is None:
                return ()
            from hermes.learning.recall_injection import recall_for_request

            facts = self._open_recorder().facts if self._known else None
            with anyio.move_on_after(RECALL_TIMEOUT_S):
                return await recall_for_request(
                    run, text, facts, session_recall, tokens=self._settings.recall_tokens
                )
            return ()
        except StoreError as error:
            self._warn(f"nothing was recalled: {error}")
            return ()

    async def note(self, run: str, lines: Sequence[str]) -> None:
        """Record facts that checks have established, in the words of their source."""
        from hermes.memory.facts import entities
        from hermes.memory.facts.fact import FactCandidate
        from hermes.memory.facts.statements import statement_key

        if self._settings.learn and lines:
            facts = [
                FactCandidate(
                    memory="semantic",
                    text=line,
                    about=entities.entities_in(line),
                    key=statement_key(line),
                )
                for line in lines
            ]
            await self._open_recorder().record(run, facts)

    def _learn_in_background(self, run: str) -> None:
        """After a number of turns, learn from what happened so far, in the background."""
        if run in self._runs and self._settings.nudge_turns and self._group is not None:
            self._runs[run] += 1
            if self._runs[run] % self._settings.nudge_turns == 0:
                self._group.start_soon(self._learn_now, run)

    async def _learn_now(self, run: str) -> None:
        with anyio.move_on_after(LEARN_TIMEOUT_S + self._settings.model_seconds):
            await self._learn(run, with_model=True)

    async def _learn(self, run: str, *, with_model: bool) -> None:
        try:
            async with self._busy:
                records = [recorded async for recorded in self._journal.read(run=run)]
                if worth_learning(records) and not is_private(records):
                    await self._learn_from(run, records, with_model=with_model)
        except StoreError as error:  # the events are in the journal: it can learn later
            self._warn(f"nothing was learned from {run}: {error}")

    async def _learn_from(
        self, run: str, records: Sequence[JournalRecord], *, with_model: bool
    ) -> None:
        from hermes.agent.run_summary import build_summary_event

        summary_text = ""
        picked: list[FactCandidate] = []
        if with_model and self._settings.learn_with_model:
            summary_text, picked = await self._ask_model(run, records)
        recorder = self._open_recorder()
        await recorder.learn(run, records, picked)
        for subagent in await self._journal.runs(parent=run, limit=100):
            subagent_records = [recorded async for recorded in self._journal.read(run=subagent.id)]
            await recorder.learn(subagent.id, subagent_records)
        summary = build_summary_event(run, records, summary_text)
        if summary is not None:
            await self._bus.publish(summary)

    async def _ask_model(
        self, run: str, records: Sequence[JournalRecord]
    ) -> tuple[str, "list[FactCandidate]"]:
        """Facts in a model's words, if a model answers in time."""
        from hermes.agent.budget import SpendingBudget
        from hermes.agent.history import ConversationHistory
        from hermes.agent.run_summary import pick_facts, summarize_with_model
        from hermes.agent.session import ConversationSession

        summary_text = ""
        picked: list[FactCandidate] = []
        dependencies = self._dependencies
        if dependencies is None or dependencies.summary_model is None:
            return summary_text, picked
        budget = dependencies.budget or SpendingBudget(self._journal, dependencies.settings.limits)
        session = ConversationSession(
            run, dependencies, ConversationHistory(), dependencies.executor, budget
        )
        with anyio.move_on_after(self._settings.model_seconds):
            with suppress(ModelError, BudgetExceeded):
                picked = await pick_facts(session, dependencies.summary_model, records)
            with suppress(ModelError, BudgetExceeded):
                summary_text = await summarize_with_model(
                    session, dependencies.summary_model, records
                )
        return summary_text, picked

    async def _has_facts(self) -> bool:
        if not self._known:
            async for _ in self._journal.read(kinds=("memory.noted",)):
                self._known = True
                break
        return self._known

    def _open_recorder(self) -> "FactRecorder":
        if self._recorder is None:
            from hermes.memory.facts.recorder import FactRecorder

            self._recorder = FactRecorder(self._home / FACTS_FILE, self._journal, self._bus.publish)
        return self._recorder

    def _notes_folder(self, private_to: str) -> Path:
        if not private_to:
            return self._home
        return self._home / PRIVATE_NOTES_FOLDER / f"@{quote(private_to, safe='')}"

    def _open_notes(self, private_to: str) -> "AgentNotes":
        if private_to not in self._notes:
            from hermes.memory.notes.notes import AgentNotes

            limits: dict[NoteTarget, int] = {
                "memory": self._settings.memory_chars,
                "user": self._settings.user_chars,
            }
            folder, recorder = self._notes_folder(private_to), self._open_recorder()
            if private_to:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._notes[private_to] = AgentNotes(
                folder, limits, recorder, self._journal, self._bus.publish
            )
        return self._notes[private_to]

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def private_person(by: str, audience: str) -> str:
    """Whom private notes belong to: a person, or a chat whose person is not known."""
    return by or audience


def is_private(records: Sequence[JournalRecord]) -> bool:
    """Return whether it is a direct chat or a private thread: facts of it would be visible to
    everyone."""
    return any(
        isinstance(recorded.event, RunStarted) and recorded.event.audience for recorded in records
    )


def worth_learning(records: Sequence[JournalRecord]) -> bool:
    """Return whether anything since the last summary may contain a fact that rules can find."""
    upto = max((r.event.upto for r in records if isinstance(r.event, RunSummarised)), default=0)
    new = [recorded.event for recorded in records if recorded.seq > upto]
    if not any(isinstance(event, TurnStarted | MessageAdded | ToolFinished) for event in new):
        return False
    if any(isinstance(event, ToolFinished) for event in new):
        return True
    if sum(isinstance(recorded.event, TurnStarted) for recorded in records) > 1:
        return True
    return any(map(_may_hold_fact, new))


def _may_hold_fact(event: object) -> bool:
    if not isinstance(event, MessageAdded) or event.message.role != "user":
        return False
    text = event.message.text[:20_000]
    return not text.startswith(SYSTEM_NOTE_PREFIX) and any(
        word in text.casefold() for word in FACT_WORDS
    )
