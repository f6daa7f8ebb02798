"""How a command reaches the facts of a home: the journal opened, the table caught up."""

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
from hermes.core.errors import HermesError
from hermes.learning.session_memory import FACTS_FILE
from hermes.memory.facts.fact import Fact, FactQuery
from hermes.memory.facts.recorder import FactRecorder
from hermes.memory.store import JournalStore, open_journal
from hermes.settings.load import LoadedSettings

FactResult = TypeVar("FactResult")
MEMORY_RUN = "memory"
"""The run of what a person does to facts by command."""
NO_FACT_LIMIT = -1


@dataclass(frozen=True)
class FactContext:
    """What a command about facts works with."""

    loaded: LoadedSettings
    journal: JournalStore
    bus: Bus
    keeper: FactRecorder
    redact: Callable[[str], str]

    async def find_fact(self, wanted: str) -> Fact:
        """By id or the beginning of one; also what ended or was forgotten."""
        name = wanted if wanted.startswith("fact-") else f"fact-{wanted}"
        every = await self.keeper.facts.find(FactQuery(state=None, limit=NO_FACT_LIMIT))
        found = [fact for fact in every if fact.id == name]
        found = found or [fact for fact in every if fact.id.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(fact.id for fact in found[:5])
            raise HermesError(f"{wanted!r} may be {names}; say more of it")
        raise HermesError(f"there is no fact {wanted!r}; `hermes memory list` shows them")


def with_facts(
    ctx: click.Context,
    work: Callable[[FactContext], Awaitable[FactResult]],
    *,
    create: bool = False,
) -> FactResult:
    """Raises `HermesError` without a journal, unless the command may `make` one."""
    loaded = load_settings(ctx)
    if not create:
        require_journal(loaded)

    async def run() -> FactResult:
        async with _open_facts(loaded) as desk:
            return await work(desk)

    return anyio.run(run)


@asynccontextmanager
async def _open_facts(loaded: LoadedSettings) -> AsyncIterator[FactContext]:
    async with open_journal(loaded.store, timeout_s=loaded.settings.store.patience) as journal:
        veil = SecretRedactor(loaded)
        bus = Bus(journal, clean=veil.clean_event)
        keeper = FactRecorder(loaded.home / FACTS_FILE, journal, bus.publish)
        try:
            await keeper.facts.catch_up()
            if keeper.facts.rebuilt:
                note(
                    f"{loaded.home / FACTS_FILE} was damaged and has been made anew from the journal"
                )
            yield FactContext(loaded, journal, bus, keeper, veil)
        finally:
            keeper.close()
