"""How a command reaches the lives of skills: the home, its journal, and who asks."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import click

from hermes.app.lifecycle import Lives
from hermes.app.veil import Veil
from hermes.cli.skills_desk import library_for
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.protocols import Model
from hermes.memory.opening import Store, open_journal
from hermes.settings.load import Loaded
from hermes.skills.library import Library
from hermes.skills.lifecycle.gate import Judgement
from hermes.skills.lifecycle.replay import Pair

Answer = TypeVar("Answer")


class Desk:
    """Open for one command."""

    def __init__(self, loaded: Loaded, library: Library, journal: Store) -> None:
        self.loaded, self.library, self.journal = loaded, library, journal
        self.publish = Bus(journal, clean=Veil(loaded).event).publish
        self.lives = Lives(loaded, journal, self.publish, lambda: library)


def at_lives(ctx: click.Context, work: Callable[[Desk], Awaitable[Answer]]) -> Answer:
    loaded, library = library_for(ctx)

    async def run() -> Answer:
        async with open_journal(loaded.store, patience=loaded.settings.store.patience) as journal:
            return await work(Desk(loaded, library, journal))

    return anyio.run(run)


@asynccontextmanager
async def strong_model(desk: Desk, reference: str = "") -> AsyncIterator[Model]:
    """The model of that name, or the one that is set for hard questions."""
    from hermes.app.models import Models
    from hermes.models.connections import Connections
    from hermes.models.reference import for_role

    async with Connections() as connections:
        models = Models(desk.loaded, connections, Bus(desk.journal))
        yield models.open(reference or for_role("strong", desk.loaded.settings.model))


def seeds_of(text: str) -> list[int]:
    """`1,2,5-8`. Raises `SettingsError`."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SettingsError(f"{text!r} are no seeds: write them as 1,2,5-8")
        found += range(int(first), int(last or first) + 1)
    return found


def pair_rows(pairs: list[Pair]) -> list[tuple[str, ...]]:
    """Each case with and without, as a table shows it."""
    return [
        (
            str(pair.case),
            _solved(pair.without.solved, pair.without.seconds, pair.without.turns),
            _solved(pair.using.solved, pair.using.seconds, pair.using.turns),
            "; ".join(pair.using.harm),
        )
        for pair in pairs
    ]


def judgement_lines(judgement: Judgement) -> list[str]:
    """What the gate counted, in words."""
    lines = [
        f"solved with it {judgement.solved_with}, without {judgement.solved_without}, "
        f"of {judgement.variants} variants"
    ]
    lines += [
        f"{each.name}: median ×{each.ratio:.2f}, at most ×{each.upper:.2f} (bootstrap, 95 %)"
        for each in judgement.measures
    ]
    lines += [f"not yet: {reason}" for reason in judgement.reasons]
    return lines


def _solved(solved: bool, seconds: float, turns: int) -> str:
    return f"{'solved' if solved else 'not solved'}, {seconds:.1f} s, {turns} calls"
