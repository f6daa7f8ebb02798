"""The agent's own hand on MEMORY.md and USER.md: within bounds, beside a person, nothing lost."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from hermes.core.errors import ToolError
from hermes.core.events.memory import NoteChanged
from hermes.core.events.tools import ToolFinished
from hermes.core.protocols import Journal
from hermes.core.remembering import NoteAction, NoteTarget
from hermes.memory.facts.fact import LONGEST, Candidate, one_line
from hermes.memory.facts.hostile import carried, commanding, seizes, visible
from hermes.memory.facts.keeping import FactKeeper
from hermes.memory.notes import changes, files
from hermes.memory.notes.blocks import entries, parse
from hermes.memory.notes.changes import Changed

FILES: Mapping[NoteTarget, str] = {"memory": "MEMORY.md", "user": "USER.md"}
QUARANTINED = (
    "not added: it repeats words of something that was read and would be a rule. It is kept as "
    "data, quarantined; a person can look at it with `hermes memory list --trust quarantined`"
)
HEARD = 400_000
"""Characters of outputs that an entry is compared with."""


class Notes:
    """Fulfils `core.remembering.KeepsNotes`."""

    def __init__(
        self,
        home: Path,
        limits: Mapping[NoteTarget, int],
        keeper: FactKeeper,
        journal: Journal,
        publish: Callable[..., Awaitable[Any]],
    ) -> None:
        self._home = home
        self._limits = limits
        self._keeper = keeper
        self._journal = journal
        self._publish = publish
        self._seen: dict[NoteTarget, list[str]] = {}

    def look(self, target: NoteTarget) -> files.Note:
        """The file as it is; from now on that is what the agent has seen."""
        note = files.read(self._home / FILES[target])
        self._seen[target] = entries(parse(note.text))
        return note

    async def change(
        self, run: str, action: NoteAction, target: NoteTarget, content: str, old_text: str
    ) -> str:
        if action == "read":
            note = self.look(target)
            return self._told(target, note.text, note.trouble or "as it is now:")
        entry = one_line(visible(content), LONGEST)
        if action != "remove":
            refused = await self._refused(run, entry)
            if refused:
                return refused
        if target not in self._seen:
            self.look(target)
        changed = await self._rewrite(action, target, entry, old_text)
        await self._record(run, target, changed)
        said = changed.said
        if changed.moved:
            moved = "; ".join(changed.moved)
            said += (
                f". To make room these went to long-term memory, where recall finds them: {moved}"
            )
        return self._told(target, changed.text, f"{said}:")

    async def _refused(self, run: str, entry: str) -> str:
        """Why an entry may not stand where every later session would go by it."""
        if not entry:
            raise ToolError("content is needed: one short sentence worth knowing in every session")
        borrowed = commanding(entry) and carried(entry, await self._heard(run))
        if not borrowed and not seizes(entry):
            return ""
        kept = Candidate(
            memory="episodic",
            text=entry,
            relation="asks-to-be-kept",
            trust="quarantined",
            actor="agent",
        )
        await self._keeper.keep(run, [kept])
        return QUARANTINED

    async def _rewrite(
        self, action: NoteAction, target: NoteTarget, entry: str, old: str
    ) -> Changed:
        path, seen = self._home / FILES[target], self._seen[target]
        own = await self._own(FILES[target])
        worth = await self._worth(entries(parse(files.read(path).text)))
        latest: list[Changed] = []

        def make(current: str) -> str:
            if action == "add":
                changed = changes.add(current, entry)
            elif action == "replace":
                changed = changes.replace(current, seen, old, entry)
            else:
                changed = changes.remove(current, seen, old)
            if changed.added:
                limit = self._limits[target]
                changed = changes.fit(changed, limit, own=own, worth=lambda e: worth.get(e, 0.0))
            latest.append(changed)
            return changed.text

        await anyio.to_thread.run_sync(partial(files.rewrite, path, make))
        return latest[-1]

    async def _record(self, run: str, target: NoteTarget, changed: Changed) -> None:
        own = await self._own(FILES[target])
        moved = [
            Candidate(
                memory="semantic",
                text=entry,
                trust="model" if entry in own else "person",
                actor="agent" if entry in own else "user",
                origin=FILES[target],
            )
            for entry in changed.moved
        ]
        await self._keeper.keep(run, moved)
        if changed.added or changed.removed:
            await self._publish(
                NoteChanged(
                    run=run,
                    file=FILES[target],
                    by="agent",
                    digest=files.digest(changed.text),
                    added=changed.added,
                    removed=changed.removed,
                )
            )
        self._seen[target] = entries(parse(changed.text))

    async def _own(self, file: str) -> set[str]:
        """Entries that the agent wrote itself."""
        own: set[str] = set()
        async for recorded in self._journal.read(kinds=("note.changed",)):
            event = recorded.event
            if isinstance(event, NoteChanged) and event.file == file and event.by == "agent":
                own.update(event.added)
        return own

    async def _worth(self, known: list[str]) -> dict[str, float]:
        """How much an entry was of use: how often what it says was seen or helped elsewhere."""
        worth: dict[str, float] = {}
        for entry in known:
            for fact in await self._keeper.facts.like(entry, limit=1):
                worth[entry] = fact.confirmations + fact.succeeded - 0.5 * fact.failed
        return worth

    async def _heard(self, run: str) -> str:
        texts: list[str] = []
        async for recorded in self._journal.read(run=run, kinds=("tool.finished",)):
            if isinstance(recorded.event, ToolFinished):
                texts.append(recorded.event.result.content)
        return "\n".join(texts)[-HEARD:]

    def _told(self, target: NoteTarget, text: str, said: str) -> str:
        size, limit = len(text.strip()), self._limits[target]
        listed = "\n".join(f"- {entry}" for entry in entries(parse(text))) or "(empty)"
        head = f"{said}\n{FILES[target]} [{round(100 * size / limit)}% — {size:,}/{limit:,}]"
        return f"{head}\n{listed}"
