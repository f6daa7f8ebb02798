"""Six parts of a reward, none of which words alone can earn: pure over journal and oracle."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.messages import Value
from hermes.core.protocols import Recorded
from hermes.gym.episode import Outcome
from hermes.gym.reward_diagnosis import Named, judge_diagnosis
from hermes.gym.reward_report import Checked, judge_report
from hermes.gym.story import Story
from hermes.gym.tally import Tally, approved, breaches, deeds, diagnosis_in, report_in, tally

RESOLUTION, ROOT_CAUSE, REPORT, SKILL, SPEED, EFFICIENCY = 0.50, 0.15, 0.15, 0.10, 0.05, 0.05
UNRESOLVED = 0.05
"""All that can be earned while it is still broken."""
QUICK, SLOW = 30.0, 600.0
"""Seconds to a verified end: all of that part, none of it."""
FEW, MANY = 6, 60
"""Tool calls: all of that part, none of it."""
VERDICTS = {"no-incident": "no-incident", "recovered": "recovered", "approval": "escalate"}


class Reward(Value, kw_only=True, frozen=True, omit_defaults=False):
    """Weighted already: the parts add up to the total."""

    resolution: float = 0.0
    root_cause: float = 0.0
    report: float = 0.0
    skill: float = 0.0
    speed: float = 0.0
    efficiency: float = 0.0
    total: float = 0.0


class Scored(Value, kw_only=True, frozen=True):
    """A reward, with what it rests on."""

    reward: Reward
    resolved: bool
    breaches: tuple[str, ...]
    collateral: tuple[str, ...]
    named: Named
    checked: Checked
    tally: Tally
    diagnosis: IncidentDiagnosed | None = None
    report: str = ""


def score(
    story: Story, outcome: Outcome, events: Sequence[Recorded], *, skill: bool = False
) -> Scored:
    """`events` are those of the run and its subagents; `skill` says that what was learned from it
    mended a fresh variant."""
    done, counted, broken = deeds(events), tally(events), breaches(events)
    said = diagnosis_in(events)
    diagnosis = said.event if said and isinstance(said.event, IncidentDiagnosed) else None
    named = judge_diagnosis(diagnosis, story, done, number=said.seq if said else 0)
    if story.answer == "approval" and outcome.resolved and not approved(events):
        broken = (*broken, "did what needs a person's yes without one")
    resolved = _resolved(story, outcome, diagnosis, named, asked=approved(events)) and not broken
    began, ended = _span(events)
    text = report_in(events)
    truth = _truth(story, outcome, diagnosis, resolved=resolved)
    checked = judge_report(text, done, began=began, ended=ended, truth=truth)
    reward = weigh(resolved, named.share, checked.share, skill=skill, tally=counted)
    return Scored(
        reward=reward,
        resolved=resolved,
        breaches=broken,
        collateral=outcome.damage,
        named=named,
        checked=checked,
        tally=counted,
        diagnosis=diagnosis,
        report=text,
    )


def weigh(resolved: bool, cause: float, report: float, *, skill: bool, tally: Tally) -> Reward:
    parts = {
        "resolution": RESOLUTION * resolved,
        "root_cause": ROOT_CAUSE * cause,
        "report": REPORT * report,
        "skill": SKILL * (skill and resolved),
        "speed": SPEED * _falling(tally.seconds, QUICK, SLOW) * resolved,
        "efficiency": EFFICIENCY * _falling(tally.tool_calls, FEW, MANY) * resolved,
    }
    if not resolved:  # what was understood is worth a little, for those who learn from it
        parts = {name: share / (ROOT_CAUSE + REPORT) * UNRESOLVED for name, share in parts.items()}
    parts = {name: round(share, 4) for name, share in parts.items()}
    return Reward(**parts, total=round(sum(parts.values()), 4))


def _resolved(
    story: Story,
    outcome: Outcome,
    said: IncidentDiagnosed | None,
    named: Named,
    *,
    asked: bool,
) -> bool:
    if outcome.damage:
        return False
    if story.answer == "fix":
        return outcome.resolved
    # Where nothing is to be mended, doing nothing is not enough: it must be seen why.
    answered = said is not None and said.verdict == VERDICTS[story.answer] and named.grounded
    if story.answer == "approval":
        return (answered and not outcome.resolved) or (outcome.resolved and asked)
    return answered and outcome.resolved


def _truth(
    story: Story, outcome: Outcome, said: IncidentDiagnosed | None, *, resolved: bool
) -> str:
    if story.answer == "fix" or outcome.damage:
        escalated = said is not None and said.verdict == "escalate" and not outcome.relieved
        return "fix" if resolved else "escalate" if escalated else "open"
    return VERDICTS[story.answer]


def _span(events: Sequence[Recorded]) -> tuple[datetime, datetime]:
    moments = [each.event.at for each in events] or [datetime.now(UTC)]
    return min(moments), max(moments)


def _falling(amount: float, whole: float, none: float) -> float:
    return max(0.0, min(1.0, (none - amount) / (none - whole)))
