"""How a command reaches the facts of a home: the journal opened, the table caught up."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio
import click

from hermes.app.remembering import FACTS
from hermes.app.veil import Veil
from hermes.cli.loading import settings_for
from hermes.cli.output import note
from hermes.cli.stored import existing_journal
from hermes.core.bus import Bus
from hermes.core.errors import HermesError
from hermes.memory.facts.fact import Fact
from hermes.memory.facts.keeping import FactKeeper
from hermes.memory.facts.store import Wanted
from hermes.memory.opening import Store, open_journal
from hermes.settings.load import Loaded

Answer = TypeVar("Answer")
RUN = "memory"
"""The run of what a person does to facts by command."""
EVERY = -1


@dataclass(frozen=True)
class Desk:
    """What a command about facts works with."""

    loaded: Loaded
    journal: Store
    bus: Bus
    keeper: FactKeeper
    redact: Callable[[str], str]

    async def find(self, wanted: str) -> Fact:
        """By id or the beginning of one; also what ended or was forgotten."""
        name = wanted if wanted.startswith("fact-") else f"fact-{wanted}"
        every = await self.keeper.facts.find(Wanted(state=None, limit=EVERY))
        found = [fact for fact in every if fact.id == name]
        found = found or [fact for fact in every if fact.id.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(fact.id for fact in found[:5])
            raise HermesError(f"{wanted!r} may be {names}; say more of it")
        raise HermesError(f"there is no fact {wanted!r}; `hermes memory list` shows them")


def at_desk(
    ctx: click.Context, work: Callable[[Desk], Awaitable[Answer]], *, make: bool = False
) -> Answer:
    """Raises `HermesError` without a journal, unless the command may `make` one."""
    loaded = settings_for(ctx)
    if not make:
        existing_journal(loaded)

    async def run() -> Answer:
        async with _open(loaded) as desk:
            return await work(desk)

    return anyio.run(run)


@asynccontextmanager
async def _open(loaded: Loaded) -> AsyncIterator[Desk]:
    async with open_journal(loaded.store, patience=loaded.settings.store.patience) as journal:
        veil = Veil(loaded)
        bus = Bus(journal, clean=veil.event)
        keeper = FactKeeper(loaded.home / FACTS, journal, bus.publish)
        try:
            await keeper.facts.catch_up()
            if keeper.facts.rebuilt:
                note(f"{loaded.home / FACTS} was damaged and has been made anew from the journal")
            yield Desk(loaded, journal, bus, keeper, veil)
        finally:
            keeper.close()
