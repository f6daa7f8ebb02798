"""A fix of one service is not the end of an alert that names another one, too."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from incident_host import Host
from msgspec.structs import replace
from test_experiment_responder import PROVED, ProbedHost, ScriptedFinder

from hermes.core.incident import IncidentDetails
from hermes.declared.experiments.host_programs import HostPrograms, HostService
from hermes.sre.baseline import Baseline
from hermes.sre.cause import ServiceNames
from hermes.sre.checks import IndependentChecks, ProbeChecks, mentioned_services, relevant_probes
from hermes.sre.commander import Commander
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.probe import Probe
from hermes.sre.responders.experiments import unobserved_services

NO_ENVIRONMENT: Any = None
PROBES = [
    Probe(name="port-80", kind="port", what="80", service="shop"),
    Probe(name="unit-shop", kind="unit", what="shop", service="shop"),
    Probe(name="unit-billing", kind="unit", what="billing", service="billing"),
    Probe(name="port-90", kind="port", what="90", service="billing"),
    Probe(name="disk", kind="disk", what="/"),
]
WORDINGS = [
    "several checks red on web-1: shop and billing",
    "[FIRING:2] web-1: billing, shop",
    "MultipleAlerts web-1: shop unhealthy; billing unhealthy",
    "shop/billing down",
    "P1: shop and, maybe because of it, billing",
    "shop broke 5 min ago on web-1, billing did as well",
    "customers of shop complain. Those of billing too.",
    "shop is down (see also: Billing)",
    "after the deploy neither shop nor billing.service answers",
    "shop down\nsame time: `billing`\nhttp://billing.example.com/graph",
]
OTHERS = [
    "shop is down",
    "shop and billing-archive are slow",
    "shop cannot read /etc/billing/shop.conf",
    "shop: see https://wiki/billing",
    "shop: billing.example.com has no address",
]


def unobserved(title: str, *failing: str, known: tuple[str, ...] = ()) -> list[str]:
    details = IncidentDetails(incident="i", run="r", title=title, service="shop")
    checks = ProbeChecks(PROBES, NO_ENVIRONMENT)
    baseline = Baseline(independent_checks=checks, failing=frozenset(failing))
    return unobserved_services(details, baseline, ServiceNames(names=known))


@pytest.mark.parametrize("title", WORDINGS)
def test_an_alert_about_two_services_is_not_over_with_one(title: str) -> None:
    assert unobserved(title, "port-80") == ["billing"]
    assert unobserved(title, "port-80", "unit-billing") == []


@pytest.mark.parametrize("title", OTHERS)
def test_a_name_within_another_is_no_mention(title: str) -> None:
    assert unobserved(title, "port-80") == []


def test_a_service_of_the_host_without_any_check_counts_as_well() -> None:
    assert unobserved("shop and mailer fail", "port-80", known=("mailer", "shop")) == ["mailer"]


def test_without_a_failing_check_nothing_is_compared() -> None:
    assert unobserved("shop and billing are down") == []


@pytest.mark.parametrize("title", WORDINGS)
def test_each_service_that_the_alert_names_gets_its_own_checks(title: str) -> None:
    details = IncidentDetails(incident="i", run="r", title=title, service="shop")
    assert {"port-90", "unit-billing"} <= {each.name for each in relevant_probes(details, PROBES)}


@pytest.mark.parametrize("title", OTHERS)
def test_other_services_are_only_guarded(title: str) -> None:
    details = IncidentDetails(incident="i", run="r", title=title, service="shop")
    assert "port-90" not in {each.name for each in relevant_probes(details, PROBES)}


def test_a_short_name_is_not_found_in_a_longer_one() -> None:
    assert mentioned_services("the api-gateway and db_2", {"api", "gateway", "db"}) == frozenset()


def test_services_are_related_by_the_port_or_name_in_their_settings() -> None:
    programs = HostPrograms(
        services=(
            HostService(name="front", settings_text="port=80\nupstream=127.0.0.1:9001\n"),
            HostService(name="back", settings_text="server.bind((host, 80))\nport = 9001\n"),
            HostService(name="mailer", settings_text="port=9002\nmax=9001000\n"),
            HostService(name="report", unit_text="[Unit]\nAfter=front.service\n"),
        )
    )
    assert programs.related_to(["front"]) == ("back", "report")
    assert programs.related_to(["back"]) == ("front",)
    assert programs.related_to(["mailer"]) == ()
    assert programs.services[1].ports == ("9001",)
    assert HostService(name="a", unit_text="ExecStart=/bin/a --port 9003\n").ports == ("9003",)


class TwoServiceHost(ProbedHost):
    """`web` fails until it is fixed; the check of `billing` passes."""

    async def checks_for(self, case: IncidentDetails) -> IndependentChecks:
        checks = await super().checks_for(case)
        assert isinstance(checks, ProbeChecks)
        return checks.with_probes(
            [
                mark_admitted(Probe(name=name, kind="command", what=what, service=service))
                for name, what, service in (
                    ("web", f"test -f {self.folder}/well-web", "web"),
                    ("billing", "true", "billing"),
                )
            ]
        )


@pytest.mark.command
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("incidental", "outcome", "words"),
    [
        (("billing",), "resolved", ""),
        ((), "escalated", "no check has observed what fails there"),
    ],
)
async def test_an_incident_ends_when_each_named_service_was_observed(
    tmp_path: Path, incidental: tuple[str, ...], outcome: str, words: str
) -> None:
    async with AsyncExitStack() as stack:
        host = TwoServiceHost(tmp_path)
        host.stack = stack
        host.finder = finder = ScriptedFinder(PROVED)
        finder.services = ServiceNames(names=("web", "billing"), incidental=incidental)
        ending = await end_of(host, "web is down, so is billing")
    assert ending.outcome == outcome
    assert words in ending.reason
    assert host.ledger == ["revert"]


async def end_of(host: Host, title: str) -> Any:
    case = replace(await host.open_incident(), title=title)
    async with host.context() as context:
        return await Commander(context, case).run()
