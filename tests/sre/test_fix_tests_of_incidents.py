"""A fix runs on the host only after its test on a copy, where there is one, and people see it."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest
from incident_host import FIX, Host, events, run_commander
from msgspec.structs import replace

from hermes.core.errors import EnvironmentFailed
from hermes.core.events.base import BaseEvent
from hermes.core.events.experiments import FixTested
from hermes.core.events.incidents import (
    ChangeBegan,
    IncidentAssessed,
    IncidentChecked,
    PhaseEntered,
)
from hermes.core.incident import read_incident
from hermes.core.protocols import Tool
from hermes.sre.cause import FailingCase, FixCandidate
from hermes.sre.commander import Commander
from hermes.sre.notifications.templates import render_ended
from hermes.sre.reports.report_data import read_incident_records
from hermes.sre.reports.report_text import render_report
from hermes.sre.reports.timeline import build_timeline

pytestmark = pytest.mark.anyio


class ScriptedTester:
    """Answers by the name of the fix."""

    def __init__(self, error: Exception | None = None, **outcomes: str) -> None:
        self._outcomes, self._error = outcomes, error
        self.asked: list[list[str]] = []
        self.available = True

    async def test(
        self, case: FailingCase, candidates: Sequence[FixCandidate]
    ) -> Sequence[FixTested]:
        self.asked.append([each.name for each in candidates])
        if self._error is not None:
            raise self._error
        return [
            FixTested(
                run=case.details.run,
                incident=case.details.incident,
                fix=each.name,
                by=each.by,
                outcome=self._outcomes[each.name.replace("-", "_")],  # type: ignore[arg-type]
                checks=("web",),
                detail="web: no answer",
                recovery_s=2.0,
                seconds=3.0,
            )
            for each in candidates
        ]

    def tool(self, case: FailingCase, record: Callable[[str, FixTested], Awaitable[None]]) -> Tool:
        raise NotImplementedError


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


async def test_a_fix_that_recovers_the_copy_runs_and_its_test_is_shown(host: Host) -> None:
    host.playbook("web", FIX)
    host.tester = ScriptedTester(web="recovered")
    assert (await run_commander(host)).outcome == "resolved"
    found = [type(each) for each in events(host, BaseEvent)]
    assert found.index(FixTested) < found.index(ChangeBegan)
    incident = await read_incident(host.journal, "incident-1")
    assert incident is not None
    text = "tested on a copy: web recovered in 2.0 s"
    assert text in render_ended(incident).text
    records = await read_incident_records(host.journal, "incident-1")
    assert text in render_report(records)
    assert any(text in moment.text for moment in build_timeline(records))


async def test_a_fix_that_fails_on_the_copy_never_touches_the_host(host: Host) -> None:
    host.playbook("web", ("touch damage", "rm damage"))
    host.playbook("web-is-down-otherwise", FIX)
    host.tester = ScriptedTester(web="failed", web_is_down_otherwise="recovered")
    assert (await run_commander(host)).outcome == "resolved"
    assert host.ledger == ["web-is-down-otherwise-1"]
    assert not (host.folder / "damage").exists()


async def test_a_refuted_fix_is_named_when_people_are_called(host: Host) -> None:
    host.playbook("web", FIX)
    host.tester = ScriptedTester(web="failed")
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert "web failed on a copy: web: no answer" in ending.reason
    assert not events(host, ChangeBegan)


@pytest.mark.parametrize("outcome", ["not-reproduced", "unclear", "helped"])
async def test_without_a_clear_result_the_fix_runs_as_before(host: Host, outcome: str) -> None:
    host.playbook("web", FIX)
    host.tester = ScriptedTester(web=outcome)
    assert (await run_commander(host)).outcome == "resolved"
    assert [each.outcome for each in events(host, FixTested)] == [outcome]


async def test_what_a_copy_does_not_show_is_not_tried_twice(host: Host) -> None:
    host.playbook("web", ("touch one", "rm one"))
    host.playbook("web-is-down-otherwise", FIX)
    host.tester = tester = ScriptedTester(
        web="not-reproduced", web_is_down_otherwise="not-reproduced"
    )
    assert (await run_commander(host)).outcome == "resolved"
    assert len(tester.asked) == 1


@pytest.mark.parametrize(
    ("outcome", "asked"), [("unclear", []), ("not-reproduced", []), ("recovered", [["web"]])]
)
async def test_a_test_without_a_clear_result_is_not_repeated_after_a_crash(
    host: Host, outcome: Literal["unclear", "not-reproduced", "recovered"], asked: list[list[str]]
) -> None:
    host.playbook("web", FIX)
    host.tester = tester = ScriptedTester(web=outcome)
    case = await host.open_incident()
    id = case.incident
    await host.journal.append(
        PhaseEntered(run=id, incident=id, phase="assess"),
        IncidentChecked(run=id, incident=id, check="web", ok=False, when="before"),
        IncidentAssessed(run=id, incident=id, verdict="unknown"),
        PhaseEntered(run=id, incident=id, phase="reflex", attempt=1),
        FixTested(run=id, incident=id, fix="web", by="playbook", outcome=outcome),
    )
    async with host.context() as context:
        ending = await Commander(context, case).run()
    assert (ending.outcome, tester.asked) == ("resolved", asked)


async def test_a_copy_that_fails_does_not_stop_the_work(host: Host) -> None:
    host.playbook("web", FIX)
    host.tester = ScriptedTester(EnvironmentFailed("no room for a copy"))
    assert (await run_commander(host)).outcome == "resolved"
    assert [each.detail for each in events(host, FixTested)] == ["no room for a copy"]


async def test_nothing_is_tested_where_it_is_switched_off(host: Host) -> None:
    host.playbook("web", FIX)
    host.tester = tester = ScriptedTester(web="failed")
    host.settings = replace(host.settings, test_fixes="off")
    assert (await run_commander(host)).outcome == "resolved"
    assert not tester.asked


async def test_what_acts_on_running_processes_is_not_tested_on_a_copy(host: Host) -> None:
    """A copy has other processes: the fix would fail there, whatever it does on the host."""
    host.playbook("web", FIX)
    file = host.folder / "skills" / "web" / "playbook.yaml"
    file.write_text(f"{file.read_text()}testable: false\n")
    host.tester = tester = ScriptedTester(web="failed")
    assert (await run_commander(host)).outcome == "resolved"
    assert not tester.asked
