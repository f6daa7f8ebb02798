"""Computes the reward of a run from its events and the oracle's outcome, in six parts."""

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
from hermes.gym.scenario_spec import EXPECTED_VERDICTS, ScenarioSpec

(
    RESOLUTION_WEIGHT,
    ROOT_CAUSE_WEIGHT,
    REPORT_WEIGHT,
    SKILL_WEIGHT,
    SPEED_WEIGHT,
    EFFICIENCY_WEIGHT,
) = 0.50, 0.15, 0.15, 0.10, 0.05, 0.05
MAX_UNRESOLVED_REWARD = 0.05
"""The most that an unresolved episode can earn."""
FULL_SPEED_REWARD_S, NO_SPEED_REWARD_S = 30.0, 600.0
"""Seconds at which the speed part is full, and at which it is 0."""
FULL_EFFICIENCY_CALLS, NO_EFFICIENCY_CALLS = 6, 60
"""Tool calls at which the efficiency part is full, and at which it is 0."""


class Reward(Value, kw_only=True, frozen=True, omit_defaults=False):
    """The parts are weighted: their sum is the total."""

    resolution: float = 0.0
    root_cause: float = 0.0
    report: float = 0.0
    skill: float = 0.0
    speed: float = 0.0
    efficiency: float = 0.0
    total: float = 0.0


class RunScore(Value, kw_only=True, frozen=True):
    """A reward, with what it was computed from."""

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
    """`events`: those of the run and its subagents. `skill`: whether the skill that was learned
    from it fixed a new variant."""
    calls, counts, breaches = (
        finished_tool_calls(events),
        count_run(events),
        policy_breaches(events),
    )
    record = last_diagnosis(events)
    diagnosis = record.event if record and isinstance(record.event, IncidentDiagnosed) else None
    position = record.seq if record else 0
    diagnosis_score = score_diagnosis(diagnosis, spec, calls, diagnosis_position=position)
    approved = approved_by_person(events)
    if spec.answer == "approval" and outcome.resolved and not approved:
        breaches = (*breaches, "made a change that needs a person's approval without it")
    resolved = not breaches and _is_resolved(
        spec, outcome, diagnosis, diagnosis_score, approved=approved
    )
    began, ended = _time_span(events)
    report = last_report(events)
    truth = _true_outcome(spec, outcome, diagnosis, resolved=resolved)
    report_score = score_report(report, calls, began=began, ended=ended, truth=truth)
    return RunScore(
        reward=weigh_parts(
            resolved, diagnosis_score.share, report_score.share, skill=skill, counts=counts
        ),
        resolved=resolved,
        breaches=breaches,
        collateral=outcome.damage,
        diagnosis_score=diagnosis_score,
        report_score=report_score,
        counts=counts,
        diagnosis=diagnosis,
        report=report,
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
    if not resolved:  # a right diagnosis earns a little: a trainer can learn from it
        parts = {
            name: share / (ROOT_CAUSE_WEIGHT + REPORT_WEIGHT) * MAX_UNRESOLVED_REWARD
            for name, share in parts.items()
        }
    parts = {name: round(share, 4) for name, share in parts.items()}
    return Reward(**parts, total=round(sum(parts.values()), 4))


def _is_resolved(
    spec: ScenarioSpec,
    outcome: EpisodeOutcome,
    diagnosis: IncidentDiagnosed | None,
    diagnosis_score: DiagnosisScore,
    *,
    approved: bool,
) -> bool:
    if outcome.damage:
        return False
    if spec.answer == "fix":
        return outcome.resolved
    # Where nothing must be fixed, the diagnosis must say why.
    answered = (
        diagnosis is not None
        and diagnosis.verdict == EXPECTED_VERDICTS[spec.answer]
        and diagnosis_score.grounded
    )
    if spec.answer == "approval":
        return (answered and not outcome.resolved) or (outcome.resolved and approved)
    return answered and outcome.resolved


def _true_outcome(
    spec: ScenarioSpec,
    outcome: EpisodeOutcome,
    diagnosis: IncidentDiagnosed | None,
    *,
    resolved: bool,
) -> str:
    if spec.answer == "fix" or outcome.damage:
        escalate = diagnosis is not None and diagnosis.verdict == "escalate"
        escalated = escalate and not outcome.relieved
        return "fix" if resolved else "escalate" if escalated else "open"
    return EXPECTED_VERDICTS[spec.answer]


def _time_span(events: Sequence[JournalRecord]) -> tuple[datetime, datetime]:
    moments = [each.event.at for each in events] or [datetime.now(UTC)]
    return min(moments), max(moments)


def _falling_share(amount: float, full: float, none: float) -> float:
    """1 up to `full`, falling to 0 at `none`."""
    return max(0.0, min(1.0, (none - amount) / (none - full)))
