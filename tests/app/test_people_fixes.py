"""The checks of a draft from people's changes fit the next host as well."""

import pytest

from hermes.app.incidents.people_fixes import check_command
from hermes.sre.probes.probe import Probe

PAGE = Probe(name="page", kind="http", what="http://127.0.0.1:8080/facts")


@pytest.mark.parametrize("failure", ["status 503", "nothing answers", "status is 500"])
def test_another_host_need_not_have_the_page_but_its_server_must_answer(failure: str) -> None:
    command = check_command(PAGE, failure)
    assert command.endswith("http://127.0.0.1:8080/facts | grep -q '^[1-4]'")


def test_a_page_that_was_refused_must_be_served() -> None:
    assert "-fsS" in check_command(PAGE, "status is 403")


def test_a_unit_must_be_active() -> None:
    unit = Probe(name="unit-api", kind="unit", what="api.service")
    assert check_command(unit, "failed") == "systemctl is-active api"
