"""Resolves references to evidence: each must be a call that was really run."""

import re
from collections.abc import Iterable, Sequence
from itertools import count

from hermes.core.errors import ToolError
from hermes.core.foreign_text import clean_line, shorten_middle
from hermes.core.protocols import Journal, JournalRecord
from hermes.policy.taint.data_marks import mark_as_data
from hermes.sre.reports.actions import IncidentAction, list_actions

FACTS_RUN = "facts"
"""The name of the run of the fact collectors, below that of the incident."""
_REFERENCE_NUMBER = re.compile(r"#?(\d+)")


async def read_finished_actions(journal: Journal, runs: Iterable[str]) -> list[IncidentAction]:
    """Finished calls of these runs. Read run by run: call ids of models are not unique."""
    found: list[IncidentAction] = []
    for run in runs:
        found += list_actions([each async for each in journal.read(run=run)])
    return sorted((action for action in found if action.seq), key=lambda action: action.seq)


async def list_child_runs(journal: Journal, run: str, names: Iterable[str]) -> list[str]:
    """All runs with these names, also those that were started again after a crash."""
    found = []
    for name in names:
        for number in count(1):
            each = numbered_run(f"{run}/{name}", number)
            if not await _run_exists(journal, each):
                break
            found.append(each)
    return found


async def next_free_run(journal: Journal, run: str) -> str:
    """The run of this name, or with the next number where it exists already."""
    for number in count(1):
        if not await _run_exists(journal, numbered_run(run, number)):
            return numbered_run(run, number)
    raise AssertionError  # unreachable


def numbered_run(run: str, number: int) -> str:
    return run if number == 1 else f"{run}-{number}"


async def _run_exists(journal: Journal, run: str) -> bool:
    events: list[JournalRecord] = [each async for each in journal.read(run=run)]
    return bool(events)


def resolve_references(
    references: Sequence[str | int], actions: Sequence[IncidentAction]
) -> tuple[int, ...]:
    """Raises `ToolError`, for the model, for a reference to something that was not run."""
    return tuple(dict.fromkeys(_resolve_reference(str(each), actions) for each in references))


def _resolve_reference(reference: str, actions: Sequence[IncidentAction]) -> int:
    wanted = " ".join(reference.split())
    number = _REFERENCE_NUMBER.fullmatch(wanted)
    for action in reversed(actions):
        if (number and int(number[1]) == action.seq) or wanted == action.call_id:
            return action.seq
    for action in reversed(actions):
        if len(wanted) > 2 and wanted in " ".join(action.command.split()):
            return action.seq
    known = ", ".join(f"#{action.seq} ({action.command[:40]})" for action in actions[-4:])
    raise ToolError(
        f"evidence {reference[:100]!r} was not run: give the number of a result, as in "
        f"#12, or a command as you ran it. The last ones: {known or 'none yet'}"
    )


def render_evidence(
    numbers: Iterable[int], actions: Sequence[IncidentAction], key: str, *, max_chars: int = 600
) -> str:
    """The commands and outputs of the evidence, marked as data."""
    wanted = set(numbers)
    return "\n".join(
        f"#{action.seq} $ {clean_line(action.command, 160)}\n"
        + mark_as_data(shorten_middle(action.output, max_chars), "evidence", key)
        for action in actions
        if action.seq in wanted
    )
