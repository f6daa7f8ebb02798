"""Decides when failed tasks are due for review, and describes what they have in common."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hermes.core.events.incidents import IncidentVerified
from hermes.core.events.runs import RunStarted, TurnEnded
from hermes.core.events.skills import PlaybookEnded, SkillShown, SkillsReviewed, SkillUsed
from hermes.core.events.tools import ToolFinished
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.plumbing.patterns import lazy_pattern

_VARIABLE_PARTS = (
    (lazy_pattern(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I), "·"),
    (lazy_pattern(r"https?://\S+"), "·"),
    (lazy_pattern(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`"), "·"),
    (lazy_pattern(r"(?<![\w.])/[\w./@%+~-]+"), "·"),
    (lazy_pattern(r"\b(?=[0-9a-f]*\d)[0-9a-f]{6,}\b", re.I), "·"),
    (lazy_pattern(r"\b\w*\d[\w.:-]*"), "·"),
    (lazy_pattern(r"\s+"), " "),
)
_ERROR_WORDS = lazy_pattern(
    r"error|fail|denied|refused|not found|no such|cannot|exception|timed out|invalid|unknown", re.I
)
MAX_SIGNATURE_CHARS = 160
MAX_SKILLS_LISTED, MAX_TASKS_REVIEWED = 3, 10


class FinishedTask(Value, kw_only=True, frozen=True):
    run: str
    task: str = ""
    failed: bool = False
    errors: tuple[str, ...] = ()
    """Its distinct errors, normalized."""


class DueReview(Value, kw_only=True, frozen=True):
    why: str
    tasks: tuple[FinishedTask, ...] = ()
    """The failed tasks to review."""


def list_finished_tasks(records: Iterable[JournalRecord]) -> list[FinishedTask]:
    """Since the last review; subagents belong to the task of their parent."""
    ended: dict[str, bool] = {}
    task_texts: dict[str, str] = {}
    errors: dict[str, dict[str, None]] = {}
    for recorded in records:
        event = recorded.event
        run = event.run.partition("/")[0]
        if isinstance(event, SkillsReviewed):
            ended, errors = {}, {}
        elif isinstance(event, RunStarted):
            task_texts.setdefault(run, event.task)
        elif isinstance(event, ToolFinished) and event.result.status == "error":
            _add_error(errors, run, event.result.content)
        elif isinstance(event, TurnEnded) and "/" not in event.run:
            ended[run] = ended.get(run, False) or event.outcome in ("failed", "exhausted")
            if event.outcome == "failed" and event.reason:
                _add_error(errors, run, event.reason)
        elif isinstance(event, IncidentVerified):
            ended[run] = ended.get(run, False) or not event.ok
    return [
        FinishedTask(
            run=run,
            task=task_texts.get(run, ""),
            failed=failed,
            errors=tuple(errors.get(run, ())),
        )
        for run, failed in ended.items()
    ]


def check_review_due(
    records: Iterable[JournalRecord], *, every: int = 15, same: int = 3
) -> DueReview | None:
    tasks = list_finished_tasks(records)
    error, affected = find_most_common_error(tasks)
    if affected and len(affected) >= same:
        why = f"{len(affected)} tasks met the same error: {error}"
        return DueReview(why=why, tasks=tuple(affected[-MAX_TASKS_REVIEWED:]))
    if len(tasks) >= every:
        failing = [task for task in tasks if task.failed or task.errors]
        why = f"{len(tasks)} tasks were finished since the last review"
        return DueReview(why=why, tasks=tuple(failing[-MAX_TASKS_REVIEWED:]))
    return None


def find_most_common_error(tasks: Iterable[FinishedTask]) -> tuple[str, list[FinishedTask]]:
    """The error that most tasks had, and these tasks."""
    shared: dict[str, list[FinishedTask]] = {}
    for task in tasks:
        for error in task.errors:
            shared.setdefault(error, []).append(task)
    return max(shared.items(), key=lambda pair: len(pair[1]), default=("", []))


def normalize_error(text: str) -> str:
    """The last line with an error word, without the parts that differ between runs."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_WORDS.search(line)]
    line = (errors or lines or [""])[-1]
    for pattern, replacement in _VARIABLE_PARTS:
        line = pattern.sub(replacement, line)
    return line.strip().lower()[:MAX_SIGNATURE_CHARS]


def _add_error(errors: dict[str, dict[str, None]], run: str, text: str) -> None:
    if signature := normalize_error(text):
        errors.setdefault(run, {})[signature] = None


def describe_failures(due: DueReview, runs: Mapping[str, Sequence[JournalRecord]]) -> str:
    """One line: how many failed, with which errors, and which skills were involved."""
    if not due.tasks:
        return "nothing failed"
    parts = [f"{len(due.tasks)} task{'s' if len(due.tasks) > 1 else ''} to review"]
    error, affected = find_most_common_error(due.tasks)
    if len(affected) > 1:
        parts.append(f"{len(affected)} of them had {error!r}")
    involved = Counter(name for records in runs.values() for name in _involved_skills(records))
    if involved:
        names = ", ".join(
            f"{name} ({count})" for name, count in involved.most_common(MAX_SKILLS_LISTED)
        )
        parts.append(f"skills involved: {names}")
    return "; ".join(parts)


def _involved_skills(records: Sequence[JournalRecord]) -> set[str]:
    """Skills that were shown to a model, whose playbook failed, or whose use was not verified."""
    found: set[str] = set()
    for recorded in records:
        match recorded.event:
            case SkillShown() as event:
                found.add(event.skill)
            case PlaybookEnded() as event if event.outcome not in ("applied", "declined"):
                found.add(event.skill)
            case SkillUsed() as event if not event.verified:
                found.add(event.skill)
    return found
