"""Runs that nobody watches go on by themselves after a crash."""

from collections.abc import AsyncIterator
from pathlib import Path

from hermes.agent.history import recall
from hermes.agent.unattended import open_runs
from hermes.app.claims import RunTaken
from hermes.app.house import open_house
from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.memory.opening import open_journal
from hermes.settings.load import Loaded


class CarriedOn(Value, frozen=True, kw_only=True):
    run: str
    outcome: str
    """How its turn ended now, or why it could not go on."""


async def carry_on_unattended(loaded: Loaded) -> AsyncIterator[CarriedOn]:
    """Finish every turn that was cut off, one run after the other, each in its own folder.

    A run that another living process works on is left alone.
    """
    async with open_journal(loaded.store) as journal:
        waiting = [(run, (await recall(journal, run)).begun) for run in await open_runs(journal)]
    for run, begun in waiting:
        folder = Path(begun.directory) if begun and begun.directory else None
        try:
            async with open_house(loaded, directory=folder) as house:
                conversation = await house.resume(run)
                await conversation.carry_on()
                ended = conversation.ended
                yield CarriedOn(run=run, outcome=ended.outcome if ended else "nothing to do")
        except RunTaken:
            continue
        except HermesError as error:
            yield CarriedOn(run=run, outcome=f"failed: {error}")
