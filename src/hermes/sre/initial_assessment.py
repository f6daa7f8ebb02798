"""Assesses the host and runs all checks before anything is changed.

Both only read, and playbooks look for their signatures at the same time. Nothing is changed before
both have ended.
"""

from dataclasses import dataclass

import anyio

from hermes.core.events.incidents import IncidentAssessed
from hermes.core.incident import Incident, IncidentDetails
from hermes.sre.assessment.assess import Assessment, assess_host
from hermes.sre.context import IncidentWork
from hermes.sre.responders.playbooks import PlaybookResponder
from hermes.sre.verify import Baseline, extend_baseline, take_baseline

MAX_RESUME_GAP_S = 300.0
"""Seconds after a crash within which the earlier assessment is still valid."""
BASELINE_SAMPLES, BASELINE_PAUSE_S = 6, 0.4
"""How often all checks are run before anything is changed, and the pause between."""


@dataclass(frozen=True)
class InitialAssessment:
    baseline: Baseline
    assessment: Assessment

    @property
    def all_clear(self) -> bool:
        """The assessment finds nothing wrong, and no check fails."""
        return self.assessment.all_clear and not self.baseline.failing


async def assess_incident(
    work: IncidentWork,
    earlier: frozenset[str] | None,
    playbooks: PlaybookResponder,
    known: Assessment | None = None,
) -> InitialAssessment:
    """`earlier`: checks that failed before a crash; `known`: the assessment from before it."""
    found: list[Assessment] = [known] if known is not None else []
    baselines: list[Baseline] = []
    enough, measured = anyio.Event(), anyio.Event()

    async def wait_until_alone() -> None:
        """Wait for our own checks to end: their requests would look like those of users."""
        enough.set()
        await measured.wait()
        await playbooks.discard_scan()

    async def judge() -> None:
        if known is None:
            found.append(
                await assess_host(
                    work.details.facts, work.execute, wait_until_alone=wait_until_alone
                )
            )
            await work.publish(_assessed_event(work.details, found[0]))
        enough.set()

    async def measure() -> None:
        try:
            baselines.append(await _sample_baseline(work, earlier, enough))
        finally:
            measured.set()

    async with anyio.create_task_group() as group:
        group.start_soon(measure)
        group.start_soon(judge)
        playbooks.start_scan()
    return InitialAssessment(baselines[0], found[0])


def earlier_assessment(recorded: Incident, gap_s: float) -> Assessment | None:
    """The assessment from before a crash; None when it is too old or there is none."""
    event = recorded.assessed
    if event is None or gap_s > MAX_RESUME_GAP_S:
        return None
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
    work: IncidentWork, earlier: frozenset[str] | None, enough: anyio.Event
) -> Baseline:
    """Run the checks several times while the host is assessed: a symptom may be intermittent."""
    baseline = await take_baseline(work, earlier)
    for _ in range(BASELINE_SAMPLES - 1):
        with anyio.move_on_after(min(BASELINE_PAUSE_S, work.settings.verify.every)):
            await enough.wait()
        if enough.is_set() or earlier is not None:
            break
        baseline = await extend_baseline(work, baseline)
    return baseline
