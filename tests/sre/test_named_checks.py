"""What the text of an alert names is checked, also where there are more probes than checks."""

from pathlib import Path

import pytest
from probe_house import this_host

from hermes.core.incident import IncidentDetails
from hermes.sre.checks import MAX_CHECKS, ProbeChecks, named_first, open_independent_checks
from hermes.sre.probes.probe import Probe


def pages(count: int) -> list[Probe]:
    return [
        Probe(
            name=f"http-{8000 + number}-health",
            kind="http",
            what=f"http://127.0.0.1:{8000 + number}/health",
            service="shop",
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "http-8030-health fails",
        "status 500 from http://127.0.0.1:8030/health, for users of shop",
        "see http://127.0.0.1:8030/health.",
    ],
)
@pytest.mark.anyio
async def test_a_probe_that_the_text_names_is_not_cut_off(tmp_path: Path, text: str) -> None:
    details = IncidentDetails(incident="i", run="r", title="shop fails", text=text, service="shop")
    async with this_host(tmp_path) as environment:
        checks = await open_independent_checks(details, environment, pages(40))
    assert isinstance(checks, ProbeChecks)
    assert len(checks.probes) == MAX_CHECKS
    assert checks.probes[0].name == "http-8030-health"


def test_a_longer_name_is_another_one() -> None:
    probes = [Probe(name="other", kind="command", what="true"), *pages(1)]
    assert named_first("http-8000-health-old and http-8000-healthy", probes)[0].name == "other"
