"""A fix of one service is not the end of an alert that names another one as failing, too."""

from typing import Any

import pytest

from hermes.core.incident import IncidentDetails
from hermes.sre.checks import ProbeChecks
from hermes.sre.probes.probe import Probe
from hermes.sre.responders.experiments import unobserved_services
from hermes.sre.verify import Baseline

NO_ENVIRONMENT: Any = None
PROBES = [
    Probe(name="port-80", kind="port", what="80", service="shop"),
    Probe(name="unit-shop", kind="unit", what="shop", service="shop"),
    Probe(name="unit-billing", kind="unit", what="billing", service="billing"),
    Probe(name="disk", kind="disk", what="/"),
]


def unobserved(title: str, *failing: str) -> list[str]:
    details = IncidentDetails(incident="i", run="r", title=title, service="shop")
    checks = ProbeChecks(PROBES, NO_ENVIRONMENT)
    return unobserved_services(
        details, Baseline(independent_checks=checks, failing=frozenset(failing))
    )


@pytest.mark.parametrize(
    "title",
    [
        "several checks red on web-1: shop and billing",
        "[FIRING:2] web-1: billing, shop",
        "MultipleAlerts web-1: shop unhealthy; billing unhealthy",
        "shop/billing down",
    ],
)
def test_an_alert_about_two_services_is_not_over_with_one(title: str) -> None:
    assert unobserved(title, "port-80") == ["billing"]
    assert unobserved(title, "port-80", "unit-billing") == []


@pytest.mark.parametrize(
    "title",
    [
        "shop is down",
        "shop cannot connect to billing, retrying",
        "shop: requests from billing time out, 30 in a minute",
        "shop and billing-archive are slow",
    ],
)
def test_a_service_that_is_named_otherwise_is_not_expected_to_fail(title: str) -> None:
    assert unobserved(title, "port-80") == []


def test_without_a_failing_check_nothing_is_compared() -> None:
    assert unobserved("shop and billing are down") == []
