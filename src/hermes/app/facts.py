"""The facts of a home as people handle them: opened, found and forgotten, from anywhere."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hermes.app.secret_redactor import SecretRedactor
from hermes.core.bus import Bus
from hermes.core.events.memory import FactForgotten
from hermes.core.run_ids import find_unique
from hermes.learning.session_memory import FACTS_FILE
from hermes.memory.facts.fact import Fact, FactQuery
from hermes.memory.facts.recorder import FactRecorder
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings

MEMORY_RUN = "memory"
"""The run of events that people record about facts."""
NO_FACT_LIMIT = -1


@dataclass(frozen=True)
class FactContext:
    """Open journal and facts, for one command or page."""

    loaded: LoadedSettings
    journal: JournalStore
    bus: Bus
    recorder: FactRecorder
    redact: Callable[[str], str]

    async def find_fact(self, wanted: str) -> Fact:
        """Find by id or its beginning; also ended and forgotten facts. Raises `HermesError`."""
        name = wanted if wanted.startswith("fact-") else f"fact-{wanted}"
        every = await self.recorder.facts.find(FactQuery(state=None, limit=NO_FACT_LIMIT))
        return find_unique(
            every,
            wanted,
            lambda fact: fact.id == name,
            lambda fact: fact.id.startswith(name),
            id_of=lambda fact: fact.id,
            kind="fact",
            list_command="hermes memory list",
        )

    async def forget(self, facts: Sequence[Fact], *, person: str) -> None:
        """Recall, search and lists leave them out, and rules do not note them again."""
        await self.bus.publish(
            *(FactForgotten(run=MEMORY_RUN, fact=fact.id, by=person) for fact in facts)
        )
        await self.recorder.facts.catch_up()


@asynccontextmanager
async def open_facts(loaded: LoadedSettings, journal: JournalStore) -> AsyncIterator[FactContext]:
    """The facts, up to date with the journal."""
    redactor = SecretRedactor(loaded)
    bus = Bus(journal, clean=redactor.clean_event)
    recorder = FactRecorder(loaded.home / FACTS_FILE, journal, bus.publish)
    try:
        await recorder.facts.catch_up()
        yield FactContext(loaded, journal, bus, recorder, redactor)
    finally:
        recorder.close()
