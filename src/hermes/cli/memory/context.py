"""Opens the journal and the facts of a home for the `hermes memory` commands."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio
import click

from hermes.app.secret_redactor import SecretRedactor
from hermes.cli.context import load_settings, require_journal
from hermes.cli.output import note
from hermes.core.bus import Bus
from hermes.core.run_ids import find_unique
from hermes.learning.session_memory import FACTS_FILE
from hermes.memory.facts.fact import Fact, FactQuery
from hermes.memory.facts.recorder import FactRecorder
from hermes.memory.store import JournalStore, open_journal
from hermes.settings.load import LoadedSettings

FactResult = TypeVar("FactResult")
MEMORY_RUN = "memory"
"""The run of events that these commands record."""
NO_FACT_LIMIT = -1


@dataclass(frozen=True)
class FactContext:
    """Open journal and facts, for one command."""

    loaded: LoadedSettings
    journal: JournalStore
    bus: Bus
    recorder: FactRecorder
    redact: Callable[[str], str]

    async def find_fact(self, wanted: str) -> Fact:
        """Find by id or its beginning; also ended and forgotten facts."""
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


def with_facts(
    ctx: click.Context,
    work: Callable[[FactContext], Awaitable[FactResult]],
    *,
    create: bool = False,
) -> FactResult:
    """Raises `HermesError` without a journal, unless `create` is set."""
    loaded = load_settings(ctx)
    if not create:
        require_journal(loaded)

    async def run() -> FactResult:
        async with _open_facts(loaded) as context:
            return await work(context)

    return anyio.run(run)


@asynccontextmanager
async def _open_facts(loaded: LoadedSettings) -> AsyncIterator[FactContext]:
    async with open_journal(loaded.store, timeout_s=loaded.settings.store.patience) as journal:
        redactor = SecretRedactor(loaded)
        bus = Bus(journal, clean=redactor.clean_event)
        recorder = FactRecorder(loaded.home / FACTS_FILE, journal, bus.publish)
        try:
            await recorder.facts.catch_up()
            if recorder.facts.rebuilt:
                note(f"{loaded.home / FACTS_FILE} was damaged and was rebuilt from the journal")
            yield FactContext(loaded, journal, bus, recorder, redactor)
        finally:
            recorder.close()
