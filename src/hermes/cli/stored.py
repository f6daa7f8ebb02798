"""How a command reaches the journal: opened for one question, never made just to be looked at."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import anyio
import click

from hermes.core.errors import HermesError
from hermes.memory.opening import Place, ReadOnlyStore, Store, exists, open_journal
from hermes.memory.runs import RunSummary
from hermes.settings.load import Loaded

Answer = TypeVar("Answer")
EVERY = 1_000_000
INCOMPLETE = (
    "hermes: the home directory cannot be written: what has happened since then is not shown here, "
    "only in notifications"
)
RECENT = 50


class ListsRuns(Protocol):
    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]: ...


def existing_journal(loaded: Loaded) -> Place:
    place = loaded.store
    if not exists(place):
        raise HermesError(f"there is no journal yet: {place} appears with the first conversation")
    return place


def ask_journal(loaded: Loaded, question: Callable[[Store], Awaitable[Answer]]) -> Answer:
    """Raises `StoreError` when it cannot be opened, `HermesError` when there is none."""
    return anyio.run(partial(_ask, existing_journal(loaded), question))


async def _ask(place: Place, question: Callable[[Store], Awaitable[Answer]]) -> Answer:
    async with open_journal(place, or_read_only=True) as journal:
        if isinstance(journal, ReadOnlyStore):
            # A watch goes on from memory meanwhile, and nothing of that is in the file.
            click.echo(INCOMPLETE, err=True)
        return await question(journal)


def worth_a_line(run: RunSummary) -> bool:
    """Not a chat that was opened and left without a word."""
    return bool(run.messages > 1 or run.task or run.title)


async def run_to_resume(journal: ListsRuns, wanted: str, *, besides: str = "") -> str:
    """The id of `wanted`; of the latest when none is wanted, empty when there is none."""
    if wanted:
        return (await find_run(journal, wanted)).id
    runs = await journal.runs(limit=RECENT)
    return next((run.id for run in runs if worth_a_line(run) and run.id != besides), "")


async def find_run(journal: ListsRuns, wanted: str) -> RunSummary:
    """By id, the beginning or end of one, its title, or `latest`."""
    runs = await journal.runs(limit=EVERY, parent=None)
    if wanted == "latest" and runs:
        own = [run for run in runs if not run.parent] or runs
        return next(filter(worth_a_line, own), own[0])
    fitting = (
        lambda run: run.id == wanted,
        lambda run: run.title == wanted,
        lambda run: run.id.startswith(wanted) or run.id.endswith(wanted),
        lambda run: wanted.lower() in run.title.lower(),
    )
    for fits in fitting:
        found = [run for run in runs if fits(run)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(run.id for run in found[:5])
            raise HermesError(f"{wanted!r} may be {names}; say more of it")
    raise HermesError(f"there is no session {wanted!r}; `hermes sessions list` shows them")
