"""One drill: an alert, somebody who answers it, an oracle that looks, and a score."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

import anyio
import msgspec

from hermes.core.errors import HermesError, PlaceFailed, SettingsError
from hermes.core.events.incidents import (
    AlertRaised,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentOpened,
    IncidentVerified,
)
from hermes.core.messages import Value
from hermes.gym.box.carrier import Opener
from hermes.gym.box.here import open_here
from hermes.gym.conclude import of_run
from hermes.gym.dice import Split
from hermes.gym.episode import Episode, Outcome, open_episode
from hermes.gym.oracle import Found
from hermes.gym.reward import Reward, Scored, score
from hermes.gym.scenario import Scenario
from hermes.gym.stage import AnsweredBy, Responder, Stage
from hermes.gym.story import Story

Ending = Literal["resolved", "escalated", "no-incident", "recovered", "closed"]
Stages = Callable[[Episode], AbstractAsyncContextManager[Stage]]
SkillTrial = Callable[[Scenario, int, Stage], Awaitable[bool]]
"""Whether what was learned from a resolved drill, run alone on a fresh variant, resolves it."""


class Terms(Value, kw_only=True, frozen=True):
    """What a drill allows and how it is judged."""

    timeout: float = 600.0
    """Seconds that the responder has."""
    window: float = 5.0
    """Seconds for which everything must hold after the trigger was set off again."""
    patience: float = 5.0
    """Seconds that the symptoms may take to go once the responder has ended."""
    split: Split = "train"


class Diagnosis(Value, kw_only=True, frozen=True, omit_defaults=False):
    """What the responder said, whole."""

    verdict: str
    component: str = ""
    mechanism: str = ""
    value: str = ""
    evidence: tuple[int, ...] = ()
    confidence: float = 0.0


class Drilled(Value, kw_only=True, frozen=True, omit_defaults=False):
    """What came of it; the fields of `hermes drill run --json`."""

    scenario: str
    seed: int
    agent: str = ""
    resolved: bool = False
    reward: Reward = Reward()
    collateral: tuple[str, ...] = ()
    policy_breaches: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = None
    seconds: float = 0.0
    """From the alert to the last thing that the responder did."""
    tool_calls: int = 0
    model_calls: int = 0
    tokens: int = 0
    report: str = ""
    answered_by: AnsweredBy = "nobody"
    ended: str = "finished"
    """finished, out of time, or what stopped the responder."""
    run: str = ""
    void: str = ""
    """Why there was no episode to score; empty when there was."""
    window: float = 0.0
    whole_seconds: float = 0.0
    """With the making of the host and the judging."""
    checks: tuple[Found, ...] = ()
    """What the oracle found: symptoms, then after the trigger."""


async def run_drill(
    scenario: Scenario,
    seed: int,
    stages: Stages,
    respond: Callable[[Story], Responder],
    terms: Terms,
    *,
    agent: str = "",
    learned: SkillTrial | None = None,
    opener: Opener = open_here,
) -> Drilled:
    """Never raises for what happens inside: a host that could not be broken is a void drill."""
    started = time.monotonic()
    drilled = Drilled(scenario=scenario.name, seed=seed, agent=agent, window=terms.window)
    try:
        story = scenario.story(seed, terms.split)
    except SettingsError as error:
        return msgspec.structs.replace(drilled, void=str(error))
    try:
        async with (
            open_episode(scenario, story, opener=opener) as episode,
            stages(episode) as stage,
        ):
            drilled = await play(episode, stage, respond(story), terms, drilled, learned)
    except PlaceFailed as error:
        drilled = msgspec.structs.replace(drilled, void=str(error))
    whole = round(time.monotonic() - started, 3)
    return msgspec.structs.replace(drilled, whole_seconds=whole)


async def play(
    episode: Episode,
    stage: Stage,
    respond: Responder,
    terms: Terms,
    drilled: Drilled,
    learned: SkillTrial | None = None,
) -> Drilled:
    await raise_alert(episode, stage)
    answered_by, ended = await _answered(episode, stage, respond, terms)
    outcome = await judge(episode, terms)
    scored, answered_by = await settle(episode, stage, outcome, answered_by, terms)
    if scored.resolved and learned is not None and answered_by != "playbook":
        proved = await learned(episode.scenario, drilled.seed, stage)
        events = await of_run(stage.bus.journal, stage.run, after=stage.since)
        scored = score(episode.story, outcome, events, skill=proved)
    return told(drilled, scored, outcome, answered_by, ended, stage.run)


async def raise_alert(episode: Episode, stage: Stage) -> None:
    alert = episode.story.alert
    fingerprint = f"{episode.scenario.name}:{alert.labels.get('service', alert.title)}"
    await stage.bus.publish(
        AlertRaised(
            run=stage.run,
            fingerprint=fingerprint,
            title=alert.title,
            text=alert.text,
            source="gym",
            labels=tuple(sorted(alert.labels.items())),
        ),
        IncidentOpened(
            run=stage.run,
            incident=stage.incident,
            title=alert.title,
            severity=alert.severity,
            reason="as the monitor grades it",
            service=alert.labels.get("service", ""),
            fingerprint=fingerprint,
        ),
    )


async def _answered(
    episode: Episode, stage: Stage, respond: Responder, terms: Terms
) -> tuple[AnsweredBy, str]:
    try:
        with anyio.move_on_after(terms.timeout) as scope:
            return await respond(stage.scene(episode)), "finished"
    except HermesError as error:  # one episode's failure is its result, not the end of a batch
        return "nobody", f"failed: {error}"
    assert scope.cancelled_caught
    return "nobody", f"out of time after {terms.timeout:g} s"


async def judge(episode: Episode, terms: Terms) -> Outcome:
    """A host that cannot even be asked any more is not a host that was mended."""
    try:
        with anyio.fail_after(terms.window + 120.0):
            return await episode.judge(window=terms.window, patience=terms.patience)
    except (PlaceFailed, TimeoutError) as error:
        gone = Found(check="the host can be asked", ok=False, detail=str(error) or "no answer")
        return Outcome(resolved=False, symptoms=(gone,), collateral=(gone,))


async def settle(
    episode: Episode, stage: Stage, outcome: Outcome, answered_by: AnsweredBy, terms: Terms
) -> tuple[Scored, AnsweredBy]:
    """The oracle's word is written down, and everything is scored from what is written."""
    run, incident = stage.run, stage.incident
    await stage.bus.publish(
        IncidentVerified(
            run=run,
            incident=incident,
            ok=outcome.resolved,
            checks=tuple(f"{each.check}: {each.detail}" for each in _looked_at(outcome)),
            seconds=terms.window,
            by="oracle",
        )
    )
    events = await of_run(stage.bus.journal, run, after=stage.since)
    scored = score(episode.story, outcome, events)
    if answered_by == "nobody" and scored.tally.model_calls:  # it was cut off at work
        answered_by = "model"
    await stage.bus.publish(
        IncidentClosed(
            run=run,
            incident=incident,
            outcome=_ending(episode.story, resolved=scored.resolved),
            answered_by=answered_by,
            by="oracle",
        )
    )
    return scored, answered_by


def _ending(story: Story, *, resolved: bool) -> Ending:
    endings: dict[str, Ending] = {"no-incident": "no-incident", "recovered": "recovered"}
    return endings.get(story.answer, "resolved") if resolved else "escalated"


def told(
    drilled: Drilled,
    scored: Scored,
    outcome: Outcome,
    answered_by: AnsweredBy,
    ended: str,
    run: str,
) -> Drilled:
    return msgspec.structs.replace(
        drilled,
        resolved=scored.resolved,
        reward=scored.reward,
        collateral=scored.collateral,
        policy_breaches=scored.breaches,
        diagnosis=_diagnosis(scored.diagnosis),
        seconds=scored.tally.seconds,
        tool_calls=scored.tally.tool_calls,
        model_calls=scored.tally.model_calls,
        tokens=scored.tally.tokens,
        report=scored.report,
        answered_by=answered_by,
        ended=ended,
        run=run,
        checks=tuple(_looked_at(outcome)),
    )


def _diagnosis(said: IncidentDiagnosed | None) -> Diagnosis | None:
    if said is None:
        return None
    return Diagnosis(
        verdict=said.verdict,
        component=said.component,
        mechanism=said.mechanism,
        value=said.value,
        evidence=said.evidence,
        confidence=said.confidence,
    )


def _looked_at(outcome: Outcome) -> list[Found]:
    return [*outcome.symptoms, *outcome.cured]
