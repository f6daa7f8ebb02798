"""Whether a review is due, as the journal tells it: light, as every goodbye asks."""

from collections.abc import AsyncIterator

from hermes.core.events.skills import SkillsReviewed
from hermes.core.protocols import Journal, Recorded
from hermes.settings.load import Loaded
from hermes.skills.review.due import Due, FinishedTask, due, finished_tasks

KINDS = ("run.started", "turn.ended", "tool.finished", "incident.verified")


async def when_due(journal: Journal, loaded: Loaded, *, anyway: bool = False) -> Due | None:
    """What there is to read; with `anyway` also before its time, or what was only counted."""
    settings = loaded.settings.skills
    last, records = await _since(journal)
    found = due(records, every=settings.review_every, same=settings.same_errors)
    if found is not None or not anyway:
        return found
    tasks = finished_tasks(records)
    if not any(task.failed or task.errors for task in tasks) and last is not None:
        seen = () if last.changed else last.runs
        again = [each for run in seen async for each in _of_run(journal, run)]
        tasks = finished_tasks(again)
    failing = [task for task in tasks if task.failed or task.errors]
    return Due(why="asked for", tasks=tuple(failing[-10:])) if failing else None


async def tasks_since(journal: Journal) -> list[FinishedTask]:
    """Finished since the last review."""
    return finished_tasks((await _since(journal))[1])


async def _since(journal: Journal) -> tuple[SkillsReviewed | None, list[Recorded]]:
    """The last review, and what there is to count since: the rest is never read again."""
    last: Recorded | None = None
    async for recorded in journal.read(kinds=("skill.reviewed",)):
        last = recorded
    after = last.seq if last is not None else 0
    records = [each async for each in journal.read(after=after, kinds=KINDS)]
    event = last.event if last is not None else None
    return event if isinstance(event, SkillsReviewed) else None, records


def _of_run(journal: Journal, run: str) -> AsyncIterator[Recorded]:
    return journal.read(run=run, kinds=KINDS)
