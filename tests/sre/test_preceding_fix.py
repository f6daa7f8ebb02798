"""A recovery that follows a change for another incident is told with it, and no more is claimed."""

from datetime import timedelta

import pytest
from triage_harness import TriageHarness

from hermes.core.events.incidents import (
    ChangeBegan,
    ChangesUndone,
    IncidentDiagnosed,
    IncidentRecovered,
    IncidentVerified,
)
from hermes.core.incident import fold_incidents
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.preceding_fix import read_preceding_fix
from hermes.sre.reports.report_data import gather_report_data
from hermes.sre.reports.report_text import render_cause
from hermes.sre.reports.statements import cause_line


def two_outages() -> tuple[TriageHarness, str, str]:
    """The shop fails because of its database, and each has an incident; people have the shop."""
    harness = TriageHarness()
    shop = harness.open_incident("shop", service="shop", host="a").incident
    db = harness.open_incident("db", service="db", host="a").incident
    harness.close_incident(shop, "escalated")
    harness.wait(5)
    return harness, shop, db


def change(harness: TriageHarness, incident: str) -> None:
    harness.write(
        ChangeBegan(
            run=incident, at=harness.now, incident=incident, call_id="c", command="start db"
        )
    )
    harness.follow_journal()


def verify(harness: TriageHarness, incident: str) -> None:
    harness.write(IncidentVerified(run=incident, at=harness.now, incident=incident, ok=True))
    harness.follow_journal()


def recovery(harness: TriageHarness) -> IncidentRecovered:
    return harness.events(IncidentRecovered)[-1]


def text_of(harness: TriageHarness, title: str) -> str:
    return next(each.text for each in harness.notifications() if title in each.title)


def test_a_recovery_after_our_fix_of_another_service_names_it_everywhere() -> None:
    harness, shop, db = two_outages()
    change(harness, db)
    harness.wait(12)
    harness.resolve("db", service="db", host="a")
    harness.resolve("shop", service="shop", host="a")
    verify(harness, db)
    harness.wait(60)
    said = f"it recovered 12 s after our fix of db (incident {db})"
    assert f"cause: not proved; {said}" in text_of(harness, "RECOVERED").splitlines()
    found = harness.incidents()[shop]
    assert cause_line(found) == ("cause", f"not proved; {said}")
    own = [each for each in harness.journal if each.event.run == shop]
    assert said in render_cause(gather_report_data(own), 5)


def test_a_change_that_no_check_has_verified_is_no_fix() -> None:
    harness, _, db = two_outages()
    change(harness, db)
    harness.wait(12)
    harness.resolve("shop", service="shop", host="a")
    harness.wait(60)
    said = f"it recovered 12 s after our change for incident {db}, which is about db"
    assert said in text_of(harness, "RECOVERED")


@pytest.mark.parametrize("how", ["undone", "too early", "after the recovery", "before the outage"])
def test_a_change_that_cannot_have_helped_is_not_told(how: str) -> None:
    harness, _, db = two_outages()
    if how == "before the outage":
        harness = TriageHarness()
        db = harness.open_incident("db", service="db", host="a").incident
        change(harness, db)
        harness.wait(3)
        shop = harness.open_incident("shop", service="shop", host="a").incident
        harness.close_incident(shop, "escalated")
    elif how != "after the recovery":
        change(harness, db)
    if how == "undone":
        undone = ChangesUndone(run=db, at=harness.now, incident=db, calls=("c",))
        harness.write(undone)
    harness.wait(300 if how == "too early" else 12)
    harness.resolve("shop", service="shop", host="a")
    harness.wait(2)
    if how == "after the recovery":
        change(harness, db)
    harness.wait(60)
    assert recovery(harness).after_fix is None
    assert "after our" not in text_of(harness, "RECOVERED")


@pytest.mark.anyio
async def test_work_that_finds_its_problem_over_tells_the_fix_of_the_other_as_well() -> None:
    harness, shop, db = two_outages()
    harness.write(
        IncidentDiagnosed(run=shop, at=harness.now, incident=shop, verdict="escalate"),
    )
    change(harness, db)
    verify(harness, db)
    journal = InMemoryJournal()
    await journal.append(*(each.event for each in harness.journal))
    waiting = fold_incidents(harness.journal)[shop]
    found = await read_preceding_fix(journal, waiting, harness.now + timedelta(seconds=8))
    assert found is not None
    assert (found.incident, found.service, found.verified) == (db, "db", True)
