"""When a review is due: after so many finished tasks, or so many that failed in the same way."""

from collections.abc import Iterable

from hermes.core.events.incidents import IncidentVerified
from hermes.core.events.runs import RunStarted, TurnEnded
from hermes.core.events.skills import SkillsReviewed
from hermes.core.events.tools import ToolFinished
from hermes.core.messages import Value
from hermes.core.protocols import Recorded
from hermes.skills.review.trouble import error_signature


class FinishedTask(Value, kw_only=True, frozen=True):
    run: str
    task: str = ""
    failed: bool = False
    errors: tuple[str, ...] = ()
    """Signatures of what went wrong in it, each once."""


class Due(Value, kw_only=True, frozen=True):
    why: str
    tasks: tuple[FinishedTask, ...] = ()
    """Those that failed, which are worth reading."""


def finished_tasks(records: Iterable[Recorded]) -> list[FinishedTask]:
    """Since the last review; of subagents, their parents count."""
    ended: dict[str, bool] = {}
    named: dict[str, str] = {}
    errors: dict[str, dict[str, None]] = {}
    for recorded in records:
        event = recorded.event
        run = event.run.partition("/")[0]
        if isinstance(event, SkillsReviewed):
            ended, errors = {}, {}
        elif isinstance(event, RunStarted):
            named.setdefault(run, event.task)
        elif isinstance(event, ToolFinished) and event.result.status == "error":
            _note(errors, run, event.result.content)
        elif isinstance(event, TurnEnded) and "/" not in event.run:
            ended[run] = ended.get(run, False) or event.outcome in ("failed", "exhausted")
            if event.outcome == "failed" and event.reason:
                _note(errors, run, event.reason)
        elif isinstance(event, IncidentVerified):
            ended[run] = ended.get(run, False) or not event.ok
    return [
        FinishedTask(
            run=run,
            task=named.get(run, ""),
            failed=failed,
            errors=tuple(errors.get(run, ())),
        )
        for run, failed in ended.items()
    ]


def due(records: Iterable[Recorded], *, every: int = 15, same: int = 3) -> Due | None:
    tasks = finished_tasks(records)
    error, met = most_alike(tasks)
    if met and len(met) >= same:
        return Due(why=f"{len(met)} tasks met the same error: {error}", tasks=_of(met))
    if len(tasks) >= every:
        failing = [task for task in tasks if task.failed or task.errors]
        return Due(
            why=f"{len(tasks)} tasks were finished since the last review", tasks=_of(failing)
        )
    return None


def most_alike(tasks: Iterable[FinishedTask]) -> tuple[str, list[FinishedTask]]:
    """The error that most tasks met, and these tasks."""
    shared: dict[str, list[FinishedTask]] = {}
    for task in tasks:
        for error in task.errors:
            shared.setdefault(error, []).append(task)
    return max(shared.items(), key=lambda pair: len(pair[1]), default=("", []))


def _of(tasks: list[FinishedTask]) -> tuple[FinishedTask, ...]:
    return tuple(tasks[-10:])


def _note(errors: dict[str, dict[str, None]], run: str, text: str) -> None:
    if signature := error_signature(text):
        errors.setdefault(run, {})[signature] = None
