"""Before anything is touched: is anything wrong at all, and how is everything?

Both only look, as do the playbooks that search for their signatures meanwhile. Until both have
answered, nobody acts.
"""

from dataclasses import dataclass

import anyio

from hermes.core.events.incidents import IncidentAssessed
from hermes.sre.assessing.assess import Assessment, assess
from hermes.sre.case import Case
from hermes.sre.ground import Ground
from hermes.sre.incident import Incident
from hermes.sre.reflexes import Reflexes
from hermes.sre.verify import Baseline, look_once_more, take_baseline

RESUMABLE_S = 300.0
"""Seconds after a crash within which what was seen before it still counts."""
LOOKS, PAUSE_S = 6, 0.4
"""How often everything is looked at before anything is changed, and the time between."""


@dataclass(frozen=True)
class SizedUp:
    baseline: Baseline
    assessment: Assessment

    @property
    def all_clear(self) -> bool:
        """Nothing is wrong. Checks that fail see what the judgement did not."""
        return self.assessment.all_clear and not self.baseline.failing


async def size_up(
    ground: Ground,
    case: Case,
    earlier: frozenset[str] | None,
    reflexes: Reflexes,
    known: Assessment | None = None,
) -> SizedUp:
    """`earlier` are the checks that failed when a life of ours that ended too soon looked, `known`
    is what it found."""
    found: list[Assessment] = []
    baselines: list[Baseline] = []
    enough, measured = anyio.Event(), anyio.Event()

    async def alone() -> None:
        """What our own looks ask for could pass for work that goes on."""
        enough.set()
        await measured.wait()
        await reflexes.stand_back()

    async def judge() -> None:
        if known is None:
            found.append(await assess(case.facts, ground.road(case.run), alone=alone))
            await ground.bus.publish(_assessed(case, found[0]))
        enough.set()

    async def measure() -> None:
        try:
            baselines.append(await _sampled(ground, case, earlier, enough))
        finally:
            measured.set()

    async with anyio.create_task_group() as group:
        group.start_soon(measure)
        group.start_soon(judge)
        reflexes.look_ahead()
    return SizedUp(baselines[0], known or found[0])


def assessment_before(past: Incident | None, gap_s: float) -> Assessment | None:
    """What a life of ours that ended shortly before found; None when that is to be asked anew."""
    if past is None or past.assessed is None or gap_s > RESUMABLE_S:
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


def _assessed(case: Case, found: Assessment) -> IncidentAssessed:
    return IncidentAssessed(
        run=case.run,
        incident=case.incident,
        verdict=found.verdict,
        reasons=found.reasons,
        calls=found.evidence,
        component=found.component,
        mechanism=found.mechanism,
        value=found.value,
    )


async def _sampled(
    ground: Ground, case: Case, earlier: frozenset[str] | None, enough: anyio.Event
) -> Baseline:
    """Looks for as long as it is being judged: a symptom may come and go."""
    baseline = await take_baseline(ground, case, earlier)
    for _ in range(LOOKS - 1):
        with anyio.move_on_after(min(PAUSE_S, ground.settings.verify.every)):
            await enough.wait()
        if enough.is_set() or earlier is not None:
            break
        baseline = await look_once_more(ground, case, baseline)
    return baseline
