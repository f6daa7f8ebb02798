"""Numbers over many incidents: whose they are, how they are spread, what comes back."""

from datetime import timedelta
from xml.etree import ElementTree

import pytest
from recorded_incident import BEGAN, IncidentRecorder

from hermes.core.events.incidents import ChangeBegan, IncidentAcknowledged
from hermes.core.incident import Incident, fold_incidents
from hermes.core.protocols import JournalRecord
from hermes.plumbing.units import ordinal
from hermes.sre.reports.statements import incident_times
from hermes.sre.reports.statistics import (
    WITH_SKILLS,
    WITHOUT_SKILLS,
    compute_statistics,
    duration_statistics,
    render_svg_chart,
    render_terminal_chart,
)

FIXERS = {"playbook": "disk-full", "model": "{}/remediator"}
"""By kind: whom its change names."""


def incident(number: int, by: str, seconds: float, *, title: str = "t", **more: object) -> Incident:
    """One that was opened a day after the other, and repaired so many seconds later."""
    name = f"incident-{number:03}"
    recorder = IncidentRecorder(name, BEGAN + timedelta(days=number))
    recorder.opened(title, **more)
    if by in FIXERS:
        recorder.add(
            ChangeBegan(
                run=name, incident=name, at=recorder.now, call_id="c1", command="fix", attempt=1,
                by=FIXERS[by].format(name),
            )
        )  # fmt: skip
    recorder.now += timedelta(seconds=seconds - 1)
    recorder.verified()
    recorder.closed("resolved", by)
    return fold_incidents(
        JournalRecord(n, event) for n, event in enumerate(recorder.events, start=1)
    )[name]


def test_times_are_measured_from_the_trouble_to_checks_that_hold() -> None:
    recorder = IncidentRecorder()
    recorder.opened()
    recorder.now += timedelta(seconds=9)
    recorder.add(
        IncidentAcknowledged(run=recorder.run, incident=recorder.run, at=recorder.at(), by="ann")
    )
    recorder.phase("assess")
    recorder.now += timedelta(seconds=48)
    recorder.verified()
    recorder.now += timedelta(hours=1)
    recorder.closed()
    found = fold_incidents(
        JournalRecord(n, event) for n, event in enumerate(recorder.events, start=1)
    )[recorder.run]
    times = incident_times(found)
    assert (times.detect, times.acknowledge, times.repair) == (42.0, 10.0, 60.0)


def test_an_open_incident_has_no_time_to_repair() -> None:
    recorder = IncidentRecorder()
    recorder.opened(since=None)
    found = fold_incidents(
        [JournalRecord(n, event) for n, event in enumerate(recorder.events, start=1)]
    )[recorder.run]
    assert incident_times(found).repair is None and incident_times(found).detect is None
    assert compute_statistics([found]).repair.count == 0


def test_playbooks_models_and_people_are_counted_apart() -> None:
    many = [
        incident(0, "model", 600),
        incident(1, "model", 800),
        incident(2, "person", 3_000),
        incident(8, "playbook", 10),
        incident(9, "playbook", 20),
    ]
    told = compute_statistics(many)
    assert told.answered_by == {"model": 2, "person": 1, "playbook": 2}
    assert told.repaired_by[WITH_SKILLS].median == 15.0
    assert told.repaired_by[WITHOUT_SKILLS].median == 800.0
    assert [f"{week.begins}" for week in told.weeks] == ["2026-03-02", "2026-03-09"]
    assert told.recurring[0].times == 5 and told.recurring[0].by_skill == 2
    assert (told.recurring[0].first, told.recurring[0].last) == (600.0, 20.0)


def test_what_was_no_incident_takes_no_repair() -> None:
    recorder = IncidentRecorder()
    recorder.opened()
    recorder.closed("no-incident")
    found = fold_incidents(
        JournalRecord(n, event) for n, event in enumerate(recorder.events, start=1)
    )
    assert compute_statistics(list(found.values())).repair.count == 0


def test_the_spread_of_few_is_between_them() -> None:
    assert duration_statistics([]).median is None
    assert duration_statistics([1.0, None, 3.0]).p90 == pytest.approx(2.8)
    assert duration_statistics([5.0]).p90 == 5.0


def test_the_picture_is_svg_and_no_title_breaks_it() -> None:
    many = [incident(n, "playbook" if n % 2 else "model", 10.0 ** (n % 5 + 1)) for n in range(40)]
    told = compute_statistics(many)
    root = ElementTree.fromstring(render_svg_chart(told, 'a <b> & "c"'))
    assert len(root.findall(".//{*}circle")) == sum(
        name in week.repaired for week in told.weeks for name in (WITH_SKILLS, WITHOUT_SKILLS)
    )
    drawn = render_terminal_chart(told)
    assert "█" in drawn and "░" in drawn
    assert ElementTree.fromstring(render_svg_chart(compute_statistics([]))) is not None
    assert "no incident was repaired" in render_terminal_chart(compute_statistics([]))


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_ordinals(number: int, said: str) -> None:
    assert ordinal(number) == said


def test_checks_that_do_not_hold_end_no_clock() -> None:
    recorder = IncidentRecorder()
    recorder.opened()
    recorder.verified(ok=False)
    recorder.closed("escalated", "nobody")
    found = fold_incidents(
        JournalRecord(n, event) for n, event in enumerate(recorder.events, start=1)
    )[recorder.run]
    assert incident_times(found).repair is None
