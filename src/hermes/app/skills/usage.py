"""How often each skill was shown and run, counted from the journal."""

import statistics
from collections import Counter, defaultdict

from hermes.core.events.skills import PlaybookEnded, SkillShown
from hermes.core.messages import Value
from hermes.core.protocols import Journal

USAGE_EVENTS = ("playbook.ended", "skill.shown")


class SkillUsageRow(Value, kw_only=True, frozen=True):
    skill: str
    state: str = ""
    shown: int = 0
    played: int = 0
    """Without dry runs, and without runs that were declined or undone."""
    applied: int = 0
    declined: int = 0
    undone: int = 0
    seconds: float | None = None
    """Median of the applied runs."""


async def count_usage(journal: Journal) -> list[SkillUsageRow]:
    shown: Counter[str] = Counter()
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, list[float]] = defaultdict(list)
    async for recorded in journal.read(kinds=USAGE_EVENTS):
        event = recorded.event
        if isinstance(event, SkillShown):
            shown[event.skill] += 1
        elif isinstance(event, PlaybookEnded) and not event.dry:
            outcomes[event.skill][event.outcome] += 1
            if event.outcome == "applied":
                seconds[event.skill].append(event.seconds)
    return [
        SkillUsageRow(
            skill=name,
            shown=shown[name],
            played=outcomes[name].total() - outcomes[name]["declined"] - outcomes[name]["undone"],
            applied=outcomes[name]["applied"],
            declined=outcomes[name]["declined"],
            undone=outcomes[name]["undone"],
            seconds=statistics.median(seconds[name]) if seconds[name] else None,
        )
        for name in sorted({*shown, *outcomes})
    ]
