"""Which playbook an incident runs: what it has found of its own service comes first."""

from dataclasses import replace
from pathlib import Path

import pytest
from incident_host import FIX, Host

from hermes.sre.commander import Commander, IncidentResult
from hermes.sre.triage.other_problems import NO_OTHER_PROBLEMS, OtherProblems

pytestmark = [pytest.mark.anyio, pytest.mark.command]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """The playbook whose words fit the alert best finds a fault of another service."""
    host = Host(tmp_path)
    host.playbook("web", ("touch well-cache", "rm well-cache"), fixes="cache")
    return host


async def run(host: Host, problems: OtherProblems = NO_OTHER_PROBLEMS) -> IncidentResult:
    case = await host.open_incident()
    async with host.context() as context:
        context = replace(context, other_problems=lambda details: problems)
        return await Commander(context, case).run()


async def test_a_fault_of_the_service_itself_is_fixed_before_one_of_another(host: Host) -> None:
    host.playbook("another", FIX)
    assert ((await run(host)).outcome, host.ledger) == ("resolved", ["another-1"])


async def test_a_fault_of_another_service_is_fixed_where_nothing_else_is_found(host: Host) -> None:
    await run(host)
    assert host.ledger[0] == "web-1"


async def test_a_fault_of_a_service_is_left_to_the_incident_that_it_has(host: Host) -> None:
    ending = await run(host, OtherProblems(services=frozenset({"cache"})))
    assert (ending.outcome, host.ledger) == ("escalated", [])
    assert "a fault of cache, which has an incident of its own" in ending.reason
