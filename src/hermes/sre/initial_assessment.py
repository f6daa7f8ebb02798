"""Before anything is touched: is anything wrong at all, and how is everything?

Both only look, as do the playbooks that search for their signatures meanwhile. Until both have
answered, nobody acts.
"""

from dataclasses import dataclass

import anyio

from hermes.core.events.incidents import IncidentAssessed
from hermes.sre.assessment.assess import Assessment, assess_host
from hermes.sre.context import IncidentContext
from hermes.sre.incident import Incident, IncidentDetails
from hermes.sre.responders.playbooks import PlaybookResponder
from hermes.sre.verify import Baseline, extend_baseline, take_baseline

MAX_RESUME_GAP_S = 300.0
"""Seconds after a crash within which what was seen before it still counts."""
BASELINE_SAMPLES, BASELINE_PAUSE_S = 6, 0.4
"""How often everything is looked at before anything is changed, and the time between."""


@dataclass(frozen=True)
class InitialAssessment:
    baseline: Baseline
    assessment: Assessment

    @property
    def all_clear(self) -> bool:
        """Nothing is wrong. Checks that fail see what the judgement did not."""
        return self.assessment.all_clear and not self.baseline.failing


async def assess_incident(
    context: IncidentContext,
    details: IncidentDetails,
    earlier: frozenset[str] | None,
    reflexes: PlaybookResponder,
    known: Assessment | None = None,
) -> InitialAssessment:
    """`earlier` are the checks that failed when a life of ours that ended too soon looked, `known`
    is what it found."""
    found: list[Assessment] = []
    baselines: list[Baseline] = []
    enough, measured = anyio.Event(), anyio.Event()

    async def alone() -> None:
        """What our own looks ask for could pass for work that goes on."""
        enough.set()
        await measured.wait()
        await reflexes.discard_scan()

    async def judge() -> None:
        if known is None:
            found.append(
                await assess_host(details.facts, context.execute_for_run(details.run), alone=alone)
            )
            await context.bus.publish(_assessed_event(details, found[0]))
        enough.set()

    async def measure() -> None:
        try:
            baselines.append(await _sample_baseline(context, details, earlier, enough))
        finally:
            measured.set()

    async with anyio.create_task_group() as group:
        group.start_soon(measure)
        group.start_soon(judge)
        reflexes.start_scan()
    return InitialAssessment(baselines[0], known or found[0])


def earlier_assessment(past: Incident | None, gap_s: float) -> Assessment | None:
    """What a life of ours that ended shortly before found; None when that is to be asked anew."""
    if past is None or past.assessed is None or gap_s > MAX_RESUME_GAP_S:
        return None
    event = past.assessed
    return Assessment(
        verdict=event.verdict,
        evidence=event.calls,
        reasons=event.reasons,
        component=event.component,
        mechanism=event.mechanism,
        value=event.value,
    )


def _assessed_event(details: IncidentDetails, found: Assessment) -> IncidentAssessed:
    return IncidentAssessed(
        run=details.run,
        incident=details.incident,
        verdict=found.verdict,
        reasons=found.reasons,
        calls=found.evidence,
        component=found.component,
        mechanism=found.mechanism,
        value=found.value,
    )


async def _sample_baseline(
    context: IncidentContext,
    details: IncidentDetails,
    earlier: frozenset[str] | None,
    enough: anyio.Event,
) -> Baseline:
    """Looks for as long as it is being judged: a symptom may come and go."""
    baseline = await take_baseline(context, details, earlier)
    for _ in range(BASELINE_SAMPLES - 1):
        with anyio.move_on_after(min(BASELINE_PAUSE_S, context.settings.verify.every)):
            await enough.wait()
        if enough.is_set() or earlier is not None:
            break
        baseline = await extend_baseline(context, details, baseline)
    return baseline
