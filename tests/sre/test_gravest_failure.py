"""Of several failures of one service the gravest names the alert and the incident."""

import pytest
from triage_harness import TriageHarness

from hermes.core.events.incidents import IncidentGraded, IncidentOpened
from hermes.core.incident import fold_incidents
from hermes.sre.probes.learned.rules import RULES, judge_number
from hermes.sre.probes.learned.summaries import NumberSummary

SLOW = "shop: 0.9 s for an answer; usual is at most 0.02 s"
WRONG_TEXT = "shop: answers 200, but `items` is missing"
WRONG_STATUS = "shop: answers 500; it was 200 in 300 of 300 answers"


def learned(measure: str, severity: str) -> dict[str, str]:
    check = f"learned-http-8080-{measure}"
    return {"kind": "learned", "service": "shop", "check": check, "severity": severity}


def title(harness: TriageHarness) -> str:
    (incident,) = fold_incidents(harness.journal).values()
    return incident.details.title


def test_an_incident_about_a_slow_page_is_called_by_its_wrong_text_and_then_by_its_status() -> None:
    harness = TriageHarness()
    harness.open_incident("slow", SLOW, **learned("latency", "P3"))
    harness.raise_alert("text", WRONG_TEXT, **learned("shape", "P2"))
    harness.wait(60)
    assert title(harness) == WRONG_TEXT
    harness.raise_alert("status", WRONG_STATUS, **learned("status", "P2"))
    harness.wait(60)
    assert title(harness) == WRONG_STATUS
    (incident,) = fold_incidents(harness.journal).values()
    assert (incident.severity, incident.details.first_title) == ("P2", SLOW)
    assert "does not answer as it did while it was healthy" in incident.reason


def test_what_is_less_grave_changes_no_title() -> None:
    harness = TriageHarness()
    harness.open_incident("status", WRONG_STATUS, **learned("status", "P2"))
    harness.raise_alert("text", WRONG_TEXT, **learned("shape", "P2"))
    harness.raise_alert("slow", SLOW, **learned("latency", "P3"))
    harness.wait(60)
    assert title(harness) == WRONG_STATUS
    assert harness.events(IncidentGraded) == []


def test_of_alerts_that_arrive_together_the_gravest_opens_the_incident() -> None:
    harness = TriageHarness()
    harness.raise_alert("slow", SLOW, **learned("latency", "P3"))
    harness.raise_alert("text", WRONG_TEXT, **learned("shape", "P2"))
    harness.wait(5)
    assert [each.title for each in harness.events(IncidentOpened)] == [WRONG_TEXT]


def test_one_probe_whose_page_becomes_wrong_gives_its_incident_another_title() -> None:
    harness = TriageHarness()
    took = "shop: it took 3.1 s, longer than 2 s, for status 200 from http://a/"
    lacks = "shop: the body lacks: Book now, in the answer with status 200 from http://a/"
    opened = harness.open_incident("page", took, kind="http", service="shop")
    assert opened.severity == "P2"
    harness.resolve("page", kind="http", service="shop")
    harness.raise_alert("page", lacks, kind="http", service="shop")
    harness.wait(60)
    (incident,) = fold_incidents(harness.journal).values()
    assert (incident.severity, incident.details.title) == ("P1", lacks)


def test_a_title_is_given_once_also_after_a_restart_of_the_watch() -> None:
    harness = TriageHarness()
    harness.open_incident("slow", SLOW, **learned("latency", "P3"))
    harness.raise_alert("text", WRONG_TEXT, **learned("shape", "P2"))
    harness.wait(60)
    harness.restart()
    harness.raise_alert("text", f"{WRONG_TEXT} again", **learned("shape", "P2"))
    harness.wait(60)
    assert len(harness.events(IncidentGraded)) == 1


@pytest.mark.parametrize(("slow_s", "reported"), [(0.06, False), (0.2, False), (0.5, True)])
def test_a_quick_page_that_is_some_milliseconds_slower_is_not_reported(
    slow_s: float, reported: bool
) -> None:
    known, at = NumberSummary(), 1_800_000_000.0
    for minute in range(2 * 24 * 60):
        known.learn(0.005 + minute % 7 / 1000, at + 60.0 * minute)
    found = judge_number(RULES["latency"], known, None, slow_s, known.last_at + 60.0)
    assert (found is not None) == reported


@pytest.mark.parametrize("severity", ["P2", "P3"])
def test_a_graver_failure_in_a_later_round_is_notified_by_its_name(severity: str) -> None:
    harness = TriageHarness()
    harness.open_incident("slow", SLOW, **learned("latency", severity))
    harness.wait(25)
    harness.raise_alert("text", WRONG_TEXT, **learned("shape", "P2"))
    harness.wait(30)
    first, second = harness.notifications()
    assert first.title.endswith(SLOW) and "was called" not in first.text
    assert second.title == f"🚨 P2 INCIDENT DECLARED: {WRONG_TEXT}"
    lines = second.text.splitlines()
    assert f"was called: {SLOW}" in lines
    assert ("was: P3" in lines) == (severity == "P3")


def test_a_failure_that_was_notified_as_a_part_is_not_notified_again_as_the_title() -> None:
    harness = TriageHarness()
    harness.open_incident("log", "errors in the log of shop", kind="log", service="shop", host="a")
    harness.wait(300)
    harness.raise_alert("port", "shop: nothing answers", kind="http", service="shop", host="a")
    harness.wait(30)
    told = [each.title for each in harness.notifications() if "nothing answers" in each.title]
    assert len(told) == 1, told
