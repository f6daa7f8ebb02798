"""Whether a review is due, according to the journal. Fast: asked at the end of every chat."""

from hermes.core.events.skills import SkillsReviewed
from hermes.core.protocols import Journal, JournalRecord
from hermes.settings.load import LoadedSettings
from hermes.skills.lifecycle.review import (
    MAX_TASKS_REVIEWED,
    DueReview,
    FinishedTask,
    check_review_due,
    list_finished_tasks,
)

REVIEW_EVENT_KINDS = ("run.started", "turn.ended", "tool.finished", "incident.verified")


async def find_due_review(
    journal: Journal, loaded: LoadedSettings, *, anyway: bool = False
) -> DueReview | None:
    """Return what there is to review; with `anyway` also before its time, or what was only
    counted."""
    settings = loaded.settings.skills
    last, records = await _since_last_review(journal)
    found = check_review_due(records, every=settings.review_every, same=settings.same_errors)
    if found is not None or not anyway:
        return found
    tasks = list_finished_tasks(records)
    if not any(task.failed or task.errors for task in tasks) and last is not None:
        earlier = () if last.changed else last.runs
        again = [
            each
            for run in earlier
            async for each in journal.read(run=run, kinds=REVIEW_EVENT_KINDS)
        ]
        tasks = list_finished_tasks(again)
    failing = [task for task in tasks if task.failed or task.errors]
    return (
        DueReview(why="asked for", tasks=tuple(failing[-MAX_TASKS_REVIEWED:])) if failing else None
    )


async def list_unreviewed_tasks(journal: Journal) -> list[FinishedTask]:
    """Finished since the last review."""
    return list_finished_tasks((await _since_last_review(journal))[1])


async def _since_last_review(journal: Journal) -> tuple[SkillsReviewed | None, list[JournalRecord]]:
    """The last review, and the runs to count since: older events are not read."""
    last: JournalRecord | None = None
    async for recorded in journal.read(kinds=("skill.reviewed",)):
        last = recorded
    after = last.seq if last is not None else 0
    records = [each async for each in journal.read(after=after, kinds=REVIEW_EVENT_KINDS)]
    event = last.event if last is not None else None
    return event if isinstance(event, SkillsReviewed) else None, records
