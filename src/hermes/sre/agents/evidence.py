"""What a claim may point at: something that was really run, by the number of its result."""

import re
from collections.abc import Iterable, Sequence
from itertools import count

from hermes.core.errors import ToolError
from hermes.core.protocols import Journal, Recorded
from hermes.policy.data_marks import as_data
from hermes.sre.agents.facts import cut
from hermes.sre.report.told import Deed, deeds

FACTS = "facts"
"""The run of the fixed looks, below that of the incident."""
_NUMBER = re.compile(r"#?(\d+)")
_UNSEEN = re.compile(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]")


async def ran(journal: Journal, runs: Iterable[str]) -> list[Deed]:
    """What ended in these runs. Read run by run: models give the same ids to their calls."""
    found: list[Deed] = []
    for run in runs:
        found += deeds([each async for each in journal.read(run=run)])
    return sorted((deed for deed in found if deed.seq), key=lambda deed: deed.seq)


async def runs_below(journal: Journal, run: str, names: Iterable[str]) -> list[str]:
    """All that were ever begun under these names: a crash begins them anew."""
    found = []
    for name in names:
        for number in count(1):
            each = numbered(f"{run}/{name}", number)
            if not await _begun(journal, each):
                break
            found.append(each)
    return found


async def free_run(journal: Journal, run: str) -> str:
    """The run of this name, or the next one where a crash cut off the first."""
    for number in count(1):
        if not await _begun(journal, numbered(run, number)):
            return numbered(run, number)
    raise AssertionError  # numbers do not end


def numbered(run: str, number: int) -> str:
    return run if number == 1 else f"{run}-{number}"


async def _begun(journal: Journal, run: str) -> bool:
    events: list[Recorded] = [each async for each in journal.read(run=run)]
    return bool(events)


def numbers_in(references: Sequence[str | int], seen: Sequence[Deed]) -> tuple[int, ...]:
    """Raises `ToolError`, for the model, when one of them is nothing that was run."""
    return tuple(dict.fromkeys(_number(str(each), seen) for each in references))


def _number(reference: str, seen: Sequence[Deed]) -> int:
    wanted = " ".join(reference.split())
    number = _NUMBER.fullmatch(wanted)
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


def quoted(numbers: Iterable[int], seen: Sequence[Deed], key: str, *, most: int = 600) -> str:
    """What the evidence says, as data."""
    wanted = set(numbers)
    return "\n".join(
        f"#{deed.seq} $ {plain(deed.command, 160)}\n"
        + as_data(cut(deed.output, most), "evidence", key)
        for deed in seen
        if deed.seq in wanted
    )


def plain(text: str, most: int = 400) -> str:
    """A model's words as they are kept: one short line without control characters."""
    return " ".join(_UNSEEN.sub(" ", text).split())[:most]
