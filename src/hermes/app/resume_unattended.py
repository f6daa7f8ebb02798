"""Resumes unattended runs after a crash."""

from collections.abc import AsyncIterator
from pathlib import Path

from hermes.agent.history import find_interrupted_runs, rebuild_history
from hermes.app.application import open_application
from hermes.app.run_locks import RunLocked
from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.memory.store import open_journal
from hermes.settings.load import LoadedSettings


class ResumedRun(Value, frozen=True, kw_only=True):
    run: str
    outcome: str
    """How its turn ended now, or why it could not continue."""


async def resume_unattended_runs(loaded: LoadedSettings) -> AsyncIterator[ResumedRun]:
    """Finish every interrupted turn, one run after the other, each in its own folder.

    A run that another living process works on is skipped.
    """
    async with open_journal(loaded.store) as journal:
        waiting = [
            (run, (await rebuild_history(journal, run)).begun)
            for run in await find_interrupted_runs(journal)
        ]
    for run, begun in waiting:
        folder = Path(begun.directory) if begun and begun.directory else None
        try:
            async with open_application(loaded, directory=folder) as application:
                conversation = await application.resume(run)
                await conversation.carry_on()
                ended = conversation.ended
                yield ResumedRun(run=run, outcome=ended.outcome if ended else "nothing to do")
        except RunLocked:
            continue
        except HermesError as error:
            yield ResumedRun(run=run, outcome=f"failed: {error}")
