"""Six parts of a reward, none of which words alone can earn: pure over journal and oracle."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.gym.episodes.episode import EpisodeOutcome
from hermes.gym.episodes.run_summary import (
    RunCounts,
    approved_by_person,
    count_run,
    finished_tool_calls,
    last_diagnosis,
    last_report,
    policy_breaches,
)
from hermes.gym.rewards.answer_scores import (
    DiagnosisScore,
    ReportScore,
    score_diagnosis,
    score_report,
)
from hermes.gym.scenario_spec import ScenarioSpec

(
    RESOLUTION_WEIGHT,
    ROOT_CAUSE_WEIGHT,
    REPORT_WEIGHT,
    SKILL_WEIGHT,
    SPEED_WEIGHT,
    EFFICIENCY_WEIGHT,
) = 0.50, 0.15, 0.15, 0.10, 0.05, 0.05
MAX_UNRESOLVED_REWARD = 0.05
"""All that can be earned while it is still broken."""
FULL_SPEED_REWARD_S, NO_SPEED_REWARD_S = 30.0, 600.0
"""Seconds to a verified end: all of that part, none of it."""
FULL_EFFICIENCY_CALLS, NO_EFFICIENCY_CALLS = 6, 60
"""Tool calls: all of that part, none of it."""
EXPECTED_VERDICTS = {"no-incident": "no-incident", "recovered": "recovered", "approval": "escalate"}


class Reward(Value, kw_only=True, frozen=True, omit_defaults=False):
    """Weighted already: the parts add up to the total."""

    resolution: float = 0.0
    root_cause: float = 0.0
    report: float = 0.0
    skill: float = 0.0
    speed: float = 0.0
    efficiency: float = 0.0
    total: float = 0.0


class RunScore(Value, kw_only=True, frozen=True):
    """A reward, with what it rests on."""

    reward: Reward
    resolved: bool
    breaches: tuple[str, ...]
    collateral: tuple[str, ...]
    diagnosis_score: DiagnosisScore
    report_score: ReportScore
    counts: RunCounts
    diagnosis: IncidentDiagnosed | None = None
    report: str = ""


def score_run(
    spec: ScenarioSpec,
    outcome: EpisodeOutcome,
    events: Sequence[JournalRecord],
    *,
    skill: bool = False,
) -> RunScore:
    """`events` are those of the run and its subagents; `skill` says that what was learned from it
    mended a fresh variant."""
    done, counted, broken = finished_tool_calls(events), count_run(events), policy_breaches(events)
    said = last_diagnosis(events)
    diagnosis = said.event if said and isinstance(said.event, IncidentDiagnosed) else None
    named = score_diagnosis(diagnosis, spec, done, diagnosis_position=said.seq if said else 0)
    if spec.answer == "approval" and outcome.resolved and not approved_by_person(events):
        broken = (*broken, "did what needs a person's yes without one")
    resolved = (
        _is_resolved(spec, outcome, diagnosis, named, asked=approved_by_person(events))
        and not broken
    )
    began, ended = _time_span(events)
    text = last_report(events)
    truth = _true_outcome(spec, outcome, diagnosis, resolved=resolved)
    checked = score_report(text, done, began=began, ended=ended, truth=truth)
    reward = weigh_parts(resolved, named.share, checked.share, skill=skill, counts=counted)
    return RunScore(
        reward=reward,
        resolved=resolved,
        breaches=broken,
        collateral=outcome.damage,
        diagnosis_score=named,
        report_score=checked,
        counts=counted,
        diagnosis=diagnosis,
        report=text,
    )


def weigh_parts(
    resolved: bool, cause: float, report: float, *, skill: bool, counts: RunCounts
) -> Reward:
    parts = {
        "resolution": RESOLUTION_WEIGHT * resolved,
        "root_cause": ROOT_CAUSE_WEIGHT * cause,
        "report": REPORT_WEIGHT * report,
        "skill": SKILL_WEIGHT * (skill and resolved),
        "speed": SPEED_WEIGHT
        * _falling_share(counts.seconds, FULL_SPEED_REWARD_S, NO_SPEED_REWARD_S)
        * resolved,
        "efficiency": EFFICIENCY_WEIGHT
        * _falling_share(counts.tool_calls, FULL_EFFICIENCY_CALLS, NO_EFFICIENCY_CALLS)
        * resolved,
    }
    if not resolved:  # what was understood is worth a little, for those who learn from it
        parts = {
            name: share / (ROOT_CAUSE_WEIGHT + REPORT_WEIGHT) * MAX_UNRESOLVED_REWARD
            for name, share in parts.items()
        }
    parts = {name: round(share, 4) for name, share in parts.items()}
    return Reward(**parts, total=round(sum(parts.values()), 4))


def _is_resolved(
    spec: ScenarioSpec,
    outcome: EpisodeOutcome,
    said: IncidentDiagnosed | None,
    diagnosis_score: DiagnosisScore,
    *,
    asked: bool,
) -> bool:
    if outcome.damage:
        return False
    if spec.answer == "fix":
        return outcome.resolved
    # Where nothing is to be mended, doing nothing is not enough: it must be seen why.
    answered = (
        said is not None
        and said.verdict == EXPECTED_VERDICTS[spec.answer]
        and diagnosis_score.grounded
    )
    if spec.answer == "approval":
        return (answered and not outcome.resolved) or (outcome.resolved and asked)
    return answered and outcome.resolved


def _true_outcome(
    spec: ScenarioSpec, outcome: EpisodeOutcome, said: IncidentDiagnosed | None, *, resolved: bool
) -> str:
    if spec.answer == "fix" or outcome.damage:
        escalated = said is not None and said.verdict == "escalate" and not outcome.relieved
        return "fix" if resolved else "escalate" if escalated else "open"
    return EXPECTED_VERDICTS[spec.answer]


def _time_span(events: Sequence[JournalRecord]) -> tuple[datetime, datetime]:
    moments = [each.event.at for each in events] or [datetime.now(UTC)]
    return min(moments), max(moments)


def _falling_share(amount: float, whole: float, none: float) -> float:
    return max(0.0, min(1.0, (none - amount) / (none - whole)))
