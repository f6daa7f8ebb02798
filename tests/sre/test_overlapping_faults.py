"""A fix is judged by what it is about, also while other services fail for other reasons."""

from dataclasses import replace
from pathlib import Path

import pytest
from scripted_checks import Scripted, failed, of, passed

from hermes.core.bus import Bus
from hermes.core.events.incidents import AlertsJoined
from hermes.sre.baseline import add_later_failures, take_baseline
from hermes.sre.checks import CheckResult
from hermes.sre.context import IncidentContext, IncidentWork
from hermes.sre.triage.other_problems import NO_OTHER_PROBLEMS, OtherProblems
from hermes.sre.verify import VerificationResult, verify, watch_recovery

pytestmark = pytest.mark.anyio
DOWN, FINE = of("web", failed("http-80")), of("web", passed("http-80"))
DATABASE, DATABASE_FINE = of("db", failed("mysql-3306")), of("db", passed("mysql-3306"))
CACHE, CACHE_FINE = of("cache", failed("redis-6390")), of("cache", passed("redis-6390"))
CACHE_PROBLEM = OtherProblems(services=frozenset({"cache"}))


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


def knowing(context: IncidentContext, problems: OtherProblems) -> IncidentContext:
    return replace(context, other_problems=lambda details: problems)


async def verified(
    host: Scripted,
    *looks: list[CheckResult],
    problems: OtherProblems = NO_OTHER_PROBLEMS,
    component: str = "",
) -> VerificationResult:
    """Two looks before the change, then what the checks say after it."""
    host.looks = looks
    case = await host.open_incident()
    async with host.context() as context:
        work = IncidentWork(knowing(context, problems), case)
        baseline = await add_later_failures(work, await take_baseline(work))
        return await verify(work, baseline, 1, component=component)


async def test_what_another_service_failed_with_before_says_nothing_about_the_fix(
    scripted: Scripted,
) -> None:
    before = [DOWN, DATABASE]
    proof = await verified(scripted, before, before, [FINE, DATABASE], component="web")
    assert (proof.ok, proof.why) == (True, "")


async def test_a_service_with_an_incident_of_its_own_says_nothing_about_the_fix_of_another(
    scripted: Scripted,
) -> None:
    """People repair it meanwhile, and one of its addresses is gone."""
    before, after = [DOWN, CACHE_FINE], [FINE, CACHE]
    assert (await verified(scripted, before, before, after, problems=CACHE_PROBLEM)).ok
    scripted.asked = 0
    assert not (await verified(scripted, before, before, after)).ok


async def test_a_check_in_maintenance_says_nothing_unless_it_is_of_the_fixed_service(
    scripted: Scripted,
) -> None:
    before, window = [DOWN, DATABASE_FINE], OtherProblems(targets=("mysql-3306", "web"))
    assert (await verified(scripted, before, before, [FINE, DATABASE], problems=window)).ok
    scripted.asked = 0
    assert not (await verified(scripted, before, before, [DOWN, DATABASE], problems=window)).ok


async def test_what_belongs_to_the_incident_has_to_pass_and_what_is_healed_stays(
    scripted: Scripted,
) -> None:
    """A second service joined the incident: the fix of the first one is no fix of both."""
    scripted.looks = [[DOWN, DATABASE]] * 2 + [[FINE, DATABASE]]
    case = await scripted.open_incident()
    joined = AlertsJoined(
        run=case.run, incident=case.incident, count=1, fingerprints=("probe/web-1/mysql-3306",)
    )
    await Bus(scripted.journal).publish(joined)
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        baseline = await add_later_failures(work, await take_baseline(work))
        proof = await verify(work, baseline, 1)
    assert (proof.ok, proof.helped) == (False, True)


async def test_a_service_that_recovered_is_reported_as_such_while_another_one_fails(
    scripted: Scripted,
) -> None:
    scripted.looks = [[DOWN, DATABASE], [FINE, DATABASE]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        recovery = await watch_recovery(work, await take_baseline(work))
    assert (recovery.recovered, recovery.checks) == (True, ("http-80",))


async def test_without_a_check_of_the_service_all_that_failed_has_to_pass(
    scripted: Scripted,
) -> None:
    before = [DATABASE, CACHE]
    assert not (await verified(scripted, before, before, [DATABASE_FINE, CACHE])).ok
