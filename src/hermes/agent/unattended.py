"""Finds runs that nobody watches and that a crash cut off, so that they can go on by themselves."""

from hermes.core.events.runs import RunDeleted, RunStarted, TurnEnded, TurnStarted, TurnUndone
from hermes.core.protocols import Journal

_KINDS = ("run.started", "run.deleted", "turn.started", "turn.ended", "turn.undone")


async def open_runs(journal: Journal) -> list[str]:
    """Unattended runs whose last turn has no end, oldest first.

    A run that another living process is working on looks the same from here: whoever carries
    these on must hold the home alone, or ask a lock first.
    """
    unattended: dict[str, bool] = {}
    async for recorded in journal.read(kinds=_KINDS):
        event = recorded.event
        if isinstance(event, RunStarted) and event.unattended:
            unattended[event.run] = False
        elif event.run not in unattended:
            continue
        elif isinstance(event, TurnStarted):
            unattended[event.run] = True
        elif isinstance(event, TurnEnded | TurnUndone | RunDeleted):
            unattended[event.run] = False
    return [run for run, is_open in unattended.items() if is_open]
