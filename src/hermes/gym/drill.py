"""Runs one drill: raises an alert, lets a responder answer it, judges the hosts, and scores."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

import anyio
import msgspec

from hermes.core.errors import EnvironmentFailed, HermesError, SettingsError
from hermes.core.events.incidents import (
    AlertRaised,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentOpened,
    IncidentVerified,
)
from hermes.core.messages import Value
from hermes.declared.store import StateStore
from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_local_box
from hermes.gym.episodes.episode import Episode, EpisodeOutcome, OracleCheckResult, open_episode
from hermes.gym.episodes.responder_context import AnsweredBy, EpisodeResponder, EpisodeRun
from hermes.gym.episodes.run_summary import run_events
from hermes.gym.random_source import Split
from hermes.gym.reward import Reward, RunScore, score_run
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_spec import ScenarioSpec
from hermes.gym.supervisors.hosts import OWN_SYSTEMCTL

DrillEnding = Literal["resolved", "escalated", "no-incident", "recovered", "closed"]
SELF_CONTAINED = ("playbook", "experiment")
"""Responders from whose work no skill is learned."""
OpenEpisodeRun = Callable[[Episode], AbstractAsyncContextManager[EpisodeRun]]
SkillTrial = Callable[[Scenario, int, EpisodeRun], Awaitable[bool]]
"""Whether the skill learned from a resolved drill resolves a new variant on its own."""


class DrillTerms(Value, kw_only=True, frozen=True):
    responder_timeout_s: float = 600.0
    window_s: float = 5.0
    """How long all checks must succeed after the trigger was fired again."""
    symptom_timeout_s: float = 5.0
    """How long the symptoms may last after the responder has ended."""
    split: Split = "train"
    supervisor: str = OWN_SYSTEMCTL
    """One of `SUPERVISOR_KINDS`."""
    states: StateStore | None = None
    """Receives the known good states of the hosts, from before the fault."""


class DrillDiagnosis(Value, kw_only=True, frozen=True, omit_defaults=False):
    verdict: str
    component: str = ""
    mechanism: str = ""
    value: str = ""
    evidence: tuple[int, ...] = ()
    confidence: float = 0.0


class DrillResult(Value, kw_only=True, frozen=True, omit_defaults=False):
    """The fields of `hermes drill run --json`."""

    scenario: str
    seed: int
    agent: str = ""
    resolved: bool = False
    reward: Reward = Reward()
    collateral: tuple[str, ...] = ()
    policy_breaches: tuple[str, ...] = ()
    diagnosis: DrillDiagnosis | None = None
    seconds: float = 0.0
    """From the alert to the last result of a tool."""
    tool_calls: int = 0
    model_calls: int = 0
    tokens: int = 0
    report: str = ""
    claimed: str = ""
    """What the responder says came of it: resolved, escalated, no-incident, recovered, unresolved;
    empty when it says nothing. `resolved` is what the oracle says."""
    answered_by: AnsweredBy = "nobody"
    ended: str = "finished"
    """finished, out of time, or what stopped the responder."""
    run: str = ""
    void: str = ""
    """Why there was no episode to score; empty when there was one."""
    window: float = 0.0
    supervisor: str = OWN_SYSTEMCTL
    """What runs the services of the hosts."""
    whole_seconds: float = 0.0
    """With building the hosts and judging them."""
    checks: tuple[OracleCheckResult, ...] = ()
    """Of the symptoms, then of everything after the trigger."""


async def run_drill(
    scenario: Scenario,
    seed: int,
    open_run: OpenEpisodeRun,
    respond: Callable[[ScenarioSpec], EpisodeResponder],
    terms: DrillTerms,
    *,
    agent: str = "",
    skill_trial: SkillTrial | None = None,
    opener: BoxOpener = open_local_box,
) -> DrillResult:
    """A host that could not be built or broken gives a void result, not an error."""
    started = time.monotonic()
    result = DrillResult(
        scenario=scenario.name,
        seed=seed,
        agent=agent,
        window=terms.window_s,
        supervisor=terms.supervisor,
    )
    try:
        spec = scenario.draw_spec(seed, terms.split)
    except SettingsError as error:
        return msgspec.structs.replace(result, void=str(error))
    try:
        async with (
            open_episode(
                scenario, spec, opener=opener, supervisor=terms.supervisor, states=terms.states
            ) as episode,
            open_run(episode) as episode_run,
        ):
            result = await play_drill(
                episode, episode_run, respond(spec), terms, result, skill_trial
            )
    except EnvironmentFailed as error:
        result = msgspec.structs.replace(result, void=str(error))
    whole = round(time.monotonic() - started, 3)
    return msgspec.structs.replace(result, whole_seconds=whole)


async def play_drill(
    episode: Episode,
    episode_run: EpisodeRun,
    respond: EpisodeResponder,
    terms: DrillTerms,
    result: DrillResult,
    skill_trial: SkillTrial | None = None,
) -> DrillResult:
    await raise_alert(episode, episode_run)
    answered_by, ended = await _run_responder(episode, episode_run, respond, terms)
    outcome = await judge_episode(episode, terms)
    scored, answered_by = await record_and_score(episode, episode_run, outcome, answered_by, terms)
    if scored.resolved and skill_trial is not None and answered_by not in SELF_CONTAINED:
        proven = await skill_trial(episode.scenario, result.seed, episode_run)
        events = await run_events(episode_run.bus.journal, episode_run.run, after=episode_run.since)
        scored = score_run(episode.spec, outcome, events, skill=proven)
    return complete_result(result, scored, outcome, answered_by, ended, episode_run.run)


async def raise_alert(episode: Episode, episode_run: EpisodeRun) -> None:
    alert = episode.spec.alert
    fingerprint = f"{episode.scenario.name}:{alert.labels.get('service', alert.title)}"
    await episode_run.bus.publish(
        AlertRaised(
            run=episode_run.run,
            fingerprint=fingerprint,
            title=alert.title,
            text=alert.text,
            source="gym",
            labels=tuple(sorted(alert.labels.items())),
        ),
        IncidentOpened(
            run=episode_run.run,
            incident=episode_run.incident,
            title=alert.title,
            severity=alert.severity,
            reason="set by the monitor",
            service=alert.labels.get("service", ""),
            fingerprint=fingerprint,
        ),
    )


async def _run_responder(
    episode: Episode, episode_run: EpisodeRun, respond: EpisodeResponder, terms: DrillTerms
) -> tuple[AnsweredBy, str]:
    try:
        with anyio.move_on_after(terms.responder_timeout_s) as scope:
            return await respond(episode_run.responder_context(episode)), "finished"
    except HermesError as error:  # a failed responder must not end a batch
        return "nobody", f"failed: {error}"
    assert scope.cancelled_caught
    return "nobody", f"out of time after {terms.responder_timeout_s:g} s"


async def judge_episode(episode: Episode, terms: DrillTerms) -> EpisodeOutcome:
    """A host that no longer responds counts as not resolved."""
    try:
        with anyio.fail_after(terms.window_s + 120.0):
            return await episode.judge(
                window_s=terms.window_s, symptom_timeout_s=terms.symptom_timeout_s
            )
    except (EnvironmentFailed, TimeoutError) as error:
        failed = OracleCheckResult(
            check="the host responds", ok=False, detail=str(error) or "no reply"
        )
        return EpisodeOutcome(resolved=False, symptoms=(failed,), collateral=(failed,))


async def record_and_score(
    episode: Episode,
    episode_run: EpisodeRun,
    outcome: EpisodeOutcome,
    answered_by: AnsweredBy,
    terms: DrillTerms,
) -> tuple[RunScore, AnsweredBy]:
    """Records the outcome as events, and scores the run from its events."""
    run, incident = episode_run.run, episode_run.incident
    await episode_run.bus.publish(
        IncidentVerified(
            run=run,
            incident=incident,
            ok=outcome.resolved,
            checks=tuple(f"{each.check}: {each.detail}" for each in _oracle_checks(outcome)),
            seconds=terms.window_s,
            by="oracle",
        )
    )
    events = await run_events(episode_run.bus.journal, run, after=episode_run.since)
    scored = score_run(episode.spec, outcome, events)
    if answered_by == "nobody" and scored.counts.model_calls:  # stopped before it could return
        answered_by = "model"
    await episode_run.bus.publish(
        IncidentClosed(
            run=run,
            incident=incident,
            outcome=_drill_ending(episode.spec, resolved=scored.resolved),
            # An earlier version that reads this journal knows no experiments.
            answered_by="playbook" if answered_by == "experiment" else answered_by,
            by="oracle",
        )
    )
    return scored, answered_by


def _drill_ending(spec: ScenarioSpec, *, resolved: bool) -> DrillEnding:
    endings: dict[str, DrillEnding] = {"no-incident": "no-incident", "recovered": "recovered"}
    return endings.get(spec.answer, "resolved") if resolved else "escalated"


def complete_result(
    result: DrillResult,
    score: RunScore,
    outcome: EpisodeOutcome,
    answered_by: AnsweredBy,
    ended: str,
    run: str,
) -> DrillResult:
    return msgspec.structs.replace(
        result,
        resolved=score.resolved,
        reward=score.reward,
        collateral=score.collateral,
        policy_breaches=score.breaches,
        diagnosis=_diagnosis_from_event(score.diagnosis),
        seconds=score.counts.seconds,
        tool_calls=score.counts.tool_calls,
        model_calls=score.counts.model_calls,
        tokens=score.counts.tokens,
        report=score.report,
        claimed=score.claimed,
        answered_by=answered_by,
        ended=ended,
        run=run,
        checks=tuple(_oracle_checks(outcome)),
    )


def _diagnosis_from_event(diagnosis: IncidentDiagnosed | None) -> DrillDiagnosis | None:
    if diagnosis is None:
        return None
    return DrillDiagnosis(
        verdict=diagnosis.verdict,
        component=diagnosis.component,
        mechanism=diagnosis.mechanism,
        value=diagnosis.value,
        evidence=diagnosis.evidence,
        confidence=diagnosis.confidence,
    )


def _oracle_checks(outcome: EpisodeOutcome) -> list[OracleCheckResult]:
    return [*outcome.symptoms, *outcome.cured]
