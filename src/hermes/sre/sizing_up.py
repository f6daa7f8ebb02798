"""Before anything is touched: is anything wrong at all, and how is everything?

Both only look, as do the playbooks that search for their signatures meanwhile. Until both have
answered, nobody acts.
"""

from dataclasses import dataclass

import anyio

from hermes.sre.assessing.assess import Assessment, assess
from hermes.sre.case import Case
from hermes.sre.ground import Ground
from hermes.sre.reflexes import Reflexes
from hermes.sre.verify import Baseline, take_baseline


@dataclass(frozen=True)
class SizedUp:
    baseline: Baseline
    assessment: Assessment

    @property
    def all_clear(self) -> bool:
        """Nothing is wrong. Checks that fail see what the judgement did not."""
        return self.assessment.all_clear and not self.baseline.failing


async def size_up(
    ground: Ground, case: Case, earlier: frozenset[str] | None, reflexes: Reflexes
) -> SizedUp:
    """`earlier` are the checks that failed when a life of ours that ended too soon looked."""
    found: list[Assessment] = []
    baselines: list[Baseline] = []

    async def judge() -> None:
        road = ground.road(case.run)
        found.append(await assess(case.facts, road, alone=reflexes.stand_back))

    async def measure() -> None:
        baselines.append(await take_baseline(ground, case, earlier))

    async with anyio.create_task_group() as group:
        group.start_soon(measure)
        group.start_soon(judge)
        reflexes.look_ahead()
    return SizedUp(baselines[0], found[0])
