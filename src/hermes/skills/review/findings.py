"""What failing runs have in common, said by code: no model is asked."""

from collections import Counter
from collections.abc import Mapping, Sequence

from hermes.core.events.skills import PlaybookEnded, SkillShown, SkillUsed
from hermes.core.protocols import Recorded
from hermes.skills.review.due import Due, most_alike

MOST = 3


def findings(due: Due, runs: Mapping[str, Sequence[Recorded]]) -> str:
    """In one line: how many failed, with which errors, and which skills had a part in it."""
    if not due.tasks:
        return "nothing failed"
    parts = [f"{len(due.tasks)} task{'s' if len(due.tasks) > 1 else ''} to look at"]
    error, met = most_alike(due.tasks)
    if len(met) > 1:
        parts.append(f"{len(met)} of them met {error!r}")
    seen = Counter(name for records in runs.values() for name in _skills(records))
    if seen:
        told = ", ".join(f"{name} ({count})" for name, count in seen.most_common(MOST))
        parts.append(f"skills that had a part in them: {told}")
    return "; ".join(parts)


def _skills(records: Sequence[Recorded]) -> set[str]:
    """Shown to a model, played without success, or used without holding."""
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
