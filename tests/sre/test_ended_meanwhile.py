"""Before people are called or asked, the checks of the incident are asked once more."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import pytest
from incident_host import FIX, Host, events

from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.incidents import (
    ChangesUndone,
    IncidentClosed,
    IncidentDiagnosed,
)
from hermes.sre.attempts import Attempts
from hermes.sre.baseline import take_baseline
from hermes.sre.commander import Commander
from hermes.sre.context import IncidentWork
from hermes.sre.coordination import CauseClaims
from hermes.sre.responders.playbooks import PlaybookResponder
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

pytestmark = [pytest.mark.anyio, pytest.mark.command]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


async def test_what_passes_after_a_fix_was_undone_has_recovered_and_calls_nobody(
    host: Host,
) -> None:
    """A person repairs it while Hermes takes back a fix that did not help."""
    host.playbook("web", ("touch one", "rm one; touch well-web"))
    case = await host.open_incident()
    async with host.context() as context:
        ending = await Commander(context, case).run()
    assert events(host, ChangesUndone)
    assert ending.outcome == "recovered"
    assert not any(each.escalation for each in events(host, IncidentDiagnosed))
    assert [each.outcome for each in events(host, IncidentClosed)] == ["recovered"]


class Rules:
    """Looks are free; a person is asked about changes."""

    def decide(self, action: Action) -> Decision:
        asks: Literal["ask", "allow"] = (
            "ask" if "ledger" in str(action.call.arguments["command"]) else "allow"
        )
        return Decision(verdict=asks, rule="test", hash="x")


async def test_nobody_is_asked_about_a_problem_that_has_ended(host: Host) -> None:
    """It is repaired while the last signature is checked."""
    host.playbook("web", FIX)
    file = host.folder / "skills/web/playbook.yaml"
    file.write_text(file.read_text().replace("echo seen", "touch well-web && echo seen"))
    asked: list[str] = []

    async def person(action: Action, decision: Decision) -> Approval:
        asked.append(action.call.id)
        return Approval(approved=True, by="ann")

    case = await host.open_incident()
    async with host.context() as context:
        executor = Executor({"terminal": make_terminal()}, Rules(), person, context.bus)
        ending = await Commander(replace(context, executor=executor), case).run()
    assert (ending.outcome, asked, host.ledger) == ("recovered", [], [])


@pytest.mark.parametrize(
    ("approvers", "people"), [(("ann", "ben"), "ann or ben"), ((), "a person")]
)
async def test_whoever_waits_for_an_answer_of_people_says_so(
    host: Host, approvers: tuple[str, ...], people: str
) -> None:
    claims, entered = CauseClaims(), list[str]()
    claims.begin_fix("incident-2")
    question = ApprovalRequested(
        run="incident-2",
        approval="ask-1",
        call_id="c",
        tool="terminal",
        shown="chmod",
        approvers=approvers,
    )
    await Bus(host.journal).publish(question)

    async def enter(phase: str, attempt: int, detail: str) -> None:
        entered.append(detail)
        if detail.startswith("waits"):
            claims.end_fix("incident-2")

    case = await host.open_incident()
    async with host.context() as context, anyio.create_task_group() as group:
        work = IncidentWork(replace(context, claims=claims), case)
        playbooks = PlaybookResponder(work, group)
        await Attempts(work, await take_baseline(work), playbooks, enter).run(1)
    assert f"waits for incident-2, which waits for an answer of {people} (ask-1)" in entered


async def test_whoever_waits_for_a_fix_that_is_made_says_so(host: Host) -> None:
    claims, entered = CauseClaims(), list[str]()
    claims.begin_fix("incident-2")

    async def enter(phase: str, attempt: int, detail: str) -> None:
        entered.append(detail)
        if detail.startswith("waits"):
            claims.end_fix("incident-2")

    case = await host.open_incident()
    async with host.context() as context, anyio.create_task_group() as group:
        work = IncidentWork(replace(context, claims=claims), case)
        playbooks = PlaybookResponder(work, group)
        await Attempts(work, await take_baseline(work), playbooks, enter).run(1)
    assert "waits for incident-2, where a fix is under way" in entered
