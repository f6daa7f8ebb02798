"""The agent's access to MEMORY.md and USER.md: within limits, and without losing a person's
edits."""

import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from hermes.core.errors import StoreError, ToolError
from hermes.core.events.base import PROGRAM_ORIGINS
from hermes.core.events.memory import NoteChanged
from hermes.core.events.runs import MessageAdded, RunStarted
from hermes.core.events.tools import ToolFinished
from hermes.core.foreign_text import one_line, strip_hidden_characters
from hermes.core.knowledge import NoteAction, NoteTarget
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.memory.facts.fact import MAX_FACT_CHARS, FactCandidate
from hermes.memory.facts.prompt_injection import (
    is_imperative,
    is_standing_order,
    is_takeover_attempt,
    repeats_source,
    repeats_words,
)
from hermes.memory.facts.recorder import FactRecorder
from hermes.memory.notes import entries
from hermes.memory.notes.entries import NoteEdit, entry_texts, parse_blocks
from hermes.plumbing.files import FileLock, temporary_copy

MAX_NOTE_BYTES = 256 * 1024
_MAX_WRITE_ATTEMPTS = 20


class NoteText(Value, frozen=True):
    text: str = ""
    problem: str = ""
    """Why there is no text, for a person; empty also when there is no file."""


def read_note(path: Path) -> NoteText:
    """Never raises and never waits: a session starts without a file that cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return NoteText()
    except OSError as error:
        return _unreadable_note(path, f"cannot be read: {error.strerror}")
    try:
        kind = os.fstat(descriptor)
        if not stat.S_ISREG(kind.st_mode):
            return _unreadable_note(path, "is not a plain file")
        if kind.st_size > MAX_NOTE_BYTES:
            return _unreadable_note(path, f"has {kind.st_size:,} bytes, far too many for notes")
        data = os.read(descriptor, MAX_NOTE_BYTES + 1)
    finally:
        os.close(descriptor)
    if b"\0" in data:
        return _unreadable_note(path, "is not text")
    try:
        return NoteText(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError:
        return _unreadable_note(path, "is not UTF-8 text")


def note_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def rewrite_note(path: Path, change: Callable[[str], str]) -> tuple[str, str]:
    """Replace the file by the result of `change`; returns its text before and after.

    No reader sees half of it. When a person saves in between, `change` is called again with what
    they saved. Raises `StoreError`.
    """
    real = path.resolve()  # a link into a folder of dotfiles stays a link
    try:
        with FileLock(path.with_name(f".{path.name}.lock")):
            for _ in range(_MAX_WRITE_ATTEMPTS):
                before = _read_current(real)
                after = change(before)
                if after == before or _replace_if_unchanged(real, before, after):
                    return before, after
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
    raise StoreError(f"{path} is being changed by another program all the time; try again")


def _read_current(path: Path) -> str:
    note = read_note(path)
    if note.problem:
        raise StoreError(f"{note.problem}; nothing was written")
    return note.text


def _replace_if_unchanged(path: Path, before: str, after: str) -> bool:
    """Return False when the file was written by others since it was read."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    with temporary_copy(path, after.encode(errors="replace"), mode=mode) as partial:
        if read_note(path).text != before:
            return False
        partial.replace(path)
        return True


def _unreadable_note(path: Path, why: str) -> NoteText:
    return NoteText(problem=f"{path} {why}; going on without it")


NOTE_FILE_NAMES: Mapping[NoteTarget, str] = {"memory": "MEMORY.md", "user": "USER.md"}
QUARANTINED_MESSAGE = (
    "not added: it repeats words of something that was read and would be a rule. It is kept as "
    "data, quarantined; a person can look at it with `hermes memory list --trust quarantined`"
)
ORDER_MESSAGE = (
    "not added: it orders something for later sessions, says that something is approved, that "
    "people are not to hear of something, how the agent is guarded, or that code or secrets go "
    "over the network, or has a command that loses data, and the person did not say so here. Note "
    "what is so instead, or ask them to say it. It is kept as data, quarantined"
)
MAX_COMPARED_CHARS = 400_000
"""Characters of outputs that an entry is compared with."""


class AgentNotes:
    """Fulfils `core.knowledge.KeepsNotes`."""

    def __init__(
        self,
        home: Path,
        limits: Mapping[NoteTarget, int],
        facts: FactRecorder,
        journal: Journal,
        publish: Callable[..., Awaitable[Any]],
    ) -> None:
        self._home = home
        self._limits = limits
        self._facts = facts
        self._journal = journal
        self._publish = publish
        self._last_seen: dict[NoteTarget, list[str]] = {}

    def read(self, target: NoteTarget) -> NoteText:
        """The file as it is now; from now on that is what the agent has seen."""
        note = read_note(self._home / NOTE_FILE_NAMES[target])
        self._last_seen[target] = entry_texts(parse_blocks(note.text))
        return note

    async def change(
        self, run: str, action: NoteAction, target: NoteTarget, content: str, old_text: str
    ) -> str:
        if action == "read":
            note = self.read(target)
            return self._render(target, note.text, note.problem or "as it is now:")
        entry = one_line(strip_hidden_characters(content), MAX_FACT_CHARS)
        if action != "remove":
            refused = await self._refusal(run, entry)
            if refused:
                return refused
        if target not in self._last_seen:
            self.read(target)
        changed = await self._rewrite(action, target, entry, old_text)
        await self._record(run, target, changed)
        message = changed.message
        if changed.moved_out:
            moved = "; ".join(changed.moved_out)
            message += (
                f". To make room these went to long-term memory, where recall finds them: {moved}"
            )
        return self._render(target, changed.text, f"{message}:")

    async def _refusal(self, run: str, entry: str) -> str:
        """Return why an entry may not be in the notes, which every later session follows."""
        if not entry:
            raise ToolError("content is needed: one short sentence worth knowing in every session")
        borrowed = is_imperative(entry) and repeats_source(entry, await self._tool_outputs(run))
        ordered = is_standing_order(entry) and not repeats_words(entry, await self._said(run))
        hostile = borrowed or is_takeover_attempt(entry)
        if not hostile and not ordered:
            return ""
        kept = FactCandidate(
            memory="episodic",
            text=entry,
            relation="asks-to-be-kept",
            trust="quarantined",
            actor="agent",
        )
        await self._facts.record(run, [kept])
        return QUARANTINED_MESSAGE if hostile else ORDER_MESSAGE

    async def _rewrite(
        self, action: NoteAction, target: NoteTarget, entry: str, old: str
    ) -> NoteEdit:
        path, last_seen = self._home / NOTE_FILE_NAMES[target], self._last_seen[target]
        own = await self._agent_entries(NOTE_FILE_NAMES[target])
        worth = await self._entry_usefulness(entry_texts(parse_blocks(read_note(path).text)))
        latest: list[NoteEdit] = []

        def make(current: str) -> str:
            if action == "add":
                changed = entries.add_entry(current, entry)
            elif action == "replace":
                changed = entries.replace_entry(current, last_seen, old, entry)
            else:
                changed = entries.remove_entry(current, last_seen, old)
            if changed.added:
                limit = self._limits[target]
                changed = entries.fit_to_limit(
                    changed, limit, agent_entries=own, usefulness=lambda e: worth.get(e, 0.0)
                )
            latest.append(changed)
            return changed.text

        await anyio.to_thread.run_sync(partial(rewrite_note, path, make))
        return latest[-1]

    async def _record(self, run: str, target: NoteTarget, changed: NoteEdit) -> None:
        own = await self._agent_entries(NOTE_FILE_NAMES[target])
        moved = [
            FactCandidate(
                memory="semantic",
                text=entry,
                trust="model" if entry in own else "person",
                actor="agent" if entry in own else "user",
                origin=NOTE_FILE_NAMES[target],
            )
            for entry in changed.moved_out
        ]
        await self._facts.record(run, moved)
        if changed.added or changed.removed:
            await self._publish(
                NoteChanged(
                    run=run,
                    file=NOTE_FILE_NAMES[target],
                    by="agent",
                    digest=note_digest(changed.text),
                    added=changed.added,
                    removed=changed.removed,
                )
            )
        self._last_seen[target] = entry_texts(parse_blocks(changed.text))

    async def _agent_entries(self, file: str) -> set[str]:
        """Entries that the agent wrote itself."""
        own: set[str] = set()
        async for recorded in self._journal.read(kinds=("note.changed",)):
            event = recorded.event
            if isinstance(event, NoteChanged) and event.file == file and event.by == "agent":
                own.update(event.added)
        return own

    async def _entry_usefulness(self, note_entries: list[str]) -> dict[str, float]:
        """Return how useful an entry was: how often its content was found or helped elsewhere."""
        worth: dict[str, float] = {}
        for entry in note_entries:
            for fact in await self._facts.facts.like(entry, limit=1):
                worth[entry] = fact.confirmations + fact.succeeded - 0.5 * fact.failed
        return worth

    async def _tool_outputs(self, run: str) -> str:
        texts: list[str] = []
        async for recorded in self._journal.read(run=run, kinds=("tool.finished",)):
            if isinstance(recorded.event, ToolFinished):
                texts.append(recorded.event.result.content)
        return "\n".join(texts)[-MAX_COMPARED_CHARS:]

    async def _said(self, run: str) -> str:
        """Return what a person said in a conversation; requests to subagents are words of an
        agent."""
        root = run.partition("/")[0]
        texts: list[str] = []
        async for recorded in self._journal.read(run=root, kinds=("run.started", "message.added")):
            event = recorded.event
            if isinstance(event, RunStarted) and event.origin in PROGRAM_ORIGINS:
                return ""
            if (
                isinstance(event, MessageAdded)
                and event.run == root
                and event.message.role == "user"
            ):
                texts.append(event.message.text)
        return "\n".join(texts)[-MAX_COMPARED_CHARS:]

    def _render(self, target: NoteTarget, text: str, headline: str) -> str:
        size, limit = len(text.strip()), self._limits[target]
        listed = "\n".join(f"- {entry}" for entry in entry_texts(parse_blocks(text))) or "(empty)"
        used = f"{round(100 * size / limit)}% — {size:,}/{limit:,}"
        return f"{headline}\n{NOTE_FILE_NAMES[target]} [{used}]\n{listed}"
