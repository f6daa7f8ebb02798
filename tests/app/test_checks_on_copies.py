"""What a check says in a copy is judged by what it said on the host."""

from typing import Any

import pytest

from hermes.app.copies.copied_checks import reading_on_copy
from hermes.core.incident import IncidentDetails
from hermes.sre.cause import FailingCase
from hermes.sre.checks import CheckResult

RESTARTED = CheckResult(check="unit-api", ok=False, counter=True, detail="1 restarts; is active")


def case(passing: tuple[str, ...]) -> FailingCase:
    unused: Any = None
    details = IncidentDetails(incident="inc-1", run="run-1", title="it fails")
    return FailingCase(details, (), passing, unused, unused, 1)


@pytest.mark.parametrize(("passing", "ok"), [(("unit-api",), True), ((), False)])
def test_a_service_that_was_started_again_on_a_copy_has_failed_only_if_it_fails_on_the_host(
    passing: tuple[str, ...], ok: bool
) -> None:
    assert reading_on_copy(RESTARTED, case(passing)).ok is ok


def test_a_service_that_does_not_run_on_a_copy_has_failed() -> None:
    stopped = CheckResult(check="unit-api", ok=False, detail="inactive")
    assert not reading_on_copy(stopped, case(("unit-api",))).ok
