"""What a claim may point at: something that was really run, by the number of its result."""

import re
from collections.abc import Iterable, Sequence
from itertools import count

from hermes.core.errors import ToolError
from hermes.core.protocols import Journal, JournalRecord
from hermes.policy.taint.data_marks import mark_as_data
from hermes.sre.reports.actions import IncidentAction, list_actions
from hermes.sre.responders.host_facts import truncate_middle

FACTS_RUN = "facts"
"""The run of the fixed looks, below that of the incident."""
_REFERENCE_NUMBER = re.compile(r"#?(\d+)")
_CONTROL_CHARACTERS = re.compile(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]")


async def read_finished_actions(journal: Journal, runs: Iterable[str]) -> list[IncidentAction]:
    """What ended in these runs. Read run by run: models give the same ids to their calls."""
    found: list[IncidentAction] = []
    for run in runs:
        found += list_actions([each async for each in journal.read(run=run)])
    return sorted((deed for deed in found if deed.seq), key=lambda deed: deed.seq)


async def list_child_runs(journal: Journal, run: str, names: Iterable[str]) -> list[str]:
    """All that were ever begun under these names: a crash begins them anew."""
    found = []
    for name in names:
        for number in count(1):
            each = numbered_run(f"{run}/{name}", number)
            if not await _run_exists(journal, each):
                break
            found.append(each)
    return found


async def next_free_run(journal: Journal, run: str) -> str:
    """The run of this name, or the next one where a crash cut off the first."""
    for number in count(1):
        if not await _run_exists(journal, numbered_run(run, number)):
            return numbered_run(run, number)
    raise AssertionError  # numbers do not end


def numbered_run(run: str, number: int) -> str:
    return run if number == 1 else f"{run}-{number}"


async def _run_exists(journal: Journal, run: str) -> bool:
    events: list[JournalRecord] = [each async for each in journal.read(run=run)]
    return bool(events)


def resolve_references(
    references: Sequence[str | int], seen: Sequence[IncidentAction]
) -> tuple[int, ...]:
    """Raises `ToolError`, for the model, when one of them is nothing that was run."""
    return tuple(dict.fromkeys(_resolve_reference(str(each), seen) for each in references))


def _resolve_reference(reference: str, seen: Sequence[IncidentAction]) -> int:
    wanted = " ".join(reference.split())
    number = _REFERENCE_NUMBER.fullmatch(wanted)
    for deed in reversed(seen):
        if (number and int(number[1]) == deed.seq) or wanted == deed.call_id:
            return deed.seq
    for deed in reversed(seen):
        if len(wanted) > 2 and wanted in " ".join(deed.command.split()):
            return deed.seq
    known = ", ".join(f"#{deed.seq} ({deed.command[:40]})" for deed in seen[-4:])
    raise ToolError(
        f"evidence {reference[:100]!r} is nothing that was run: give the number of a look, as in "
        f"#12, or a command as you ran it. The last ones: {known or 'none yet'}"
    )


def render_evidence(
    numbers: Iterable[int], seen: Sequence[IncidentAction], key: str, *, max_chars: int = 600
) -> str:
    """What the evidence says, as data."""
    wanted = set(numbers)
    return "\n".join(
        f"#{deed.seq} $ {clean_line(deed.command, 160)}\n"
        + mark_as_data(truncate_middle(deed.output, max_chars), "evidence", key)
        for deed in seen
        if deed.seq in wanted
    )


def clean_line(text: str, max_chars: int = 400) -> str:
    """A model's words as they are kept: one short line without control characters."""
    return " ".join(_CONTROL_CHARACTERS.sub(" ", text).split())[:max_chars]
