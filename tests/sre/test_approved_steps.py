"""What people have approved in an incident runs, and what is told about their answers is true."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from incident_host import Host, events

from hermes.core.actions import Action, Approval, Decision
from hermes.core.events.approvals import ApprovalSettled
from hermes.core.events.tools import ToolApproved
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.approvals.approver import JournalApprover
from hermes.policy.approvals.request import ApprovalOptions
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.loading import compile_rule_set, load_set
from hermes.policy.settings import PolicySettings
from hermes.sre.commander import Commander, IncidentResult
from hermes.sre.reports.actions import list_refused_actions
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

pytestmark = [pytest.mark.anyio, pytest.mark.command]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    script = tmp_path / "repair"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/well-web\n")
    host.playbook("web", (f"chmod a+x {script}", "true"), (f"{script}", "true"))
    return host


def read_script(path: str) -> str:
    return Path(path).read_text() if Path(path).is_file() else ""


async def run_with_person(
    host: Host,
    answer: Callable[[Action], Approval] = lambda action: Approval(approved=True, by="ann"),
) -> IncidentResult:
    """Under the rules of the set careful, with a person who is asked."""

    async def person(action: Action, decision: Decision) -> Approval:
        return answer(action)

    reader = ActionReader(analyse_command, digest=read_script)
    rules = compile_rule_set(load_set("careful").documents, PolicySettings(), "/root")
    policy = DocumentPolicy(
        rules, reader, context_of=lambda action: ActionContext(cwd=str(host.folder))
    )
    case = await host.open_incident()
    async with host.context() as context:
        people = JournalApprover(context.bus, policy.decide, ApprovalOptions(), person)
        executor = Executor({"terminal": make_terminal()}, policy, people, context.bus)
        return await Commander(replace(context, executor=executor), case).run()


async def test_an_approved_step_runs_although_an_earlier_step_wrote_what_it_runs(
    host: Host,
) -> None:
    ending = await run_with_person(host)
    assert {each.outcome for each in events(host, ApprovalSettled)} == {"approved"}
    assert (ending.outcome, host.ledger) == ("resolved", ["web-1", "web-2"])


async def test_whoever_approved_what_has_changed_since_is_not_told_to_have_refused_it(
    host: Host,
) -> None:
    script = host.folder / "repair"

    def approve_and_edit(action: Action) -> Approval:
        script.write_text(f"{script.read_text()}\ntrue\n")
        return Approval(approved=True, by="ann")

    await run_with_person(host, approve_and_edit)
    records = [each async for each in host.journal.read()]
    told = [each.why for each in list_refused_actions(records)]
    assert any("has changed since people were asked" in each for each in told)
    assert not any("ann said no" in each for each in told)
    assert [each.by for each in events(host, ToolApproved)][-1] == "ann"


async def test_whoever_refused_is_named_with_the_reason(host: Host) -> None:
    await run_with_person(host, lambda action: Approval(approved=False, by="ann", reason="not now"))
    records = [each async for each in host.journal.read()]
    assert [each.why for each in list_refused_actions(records)] == ["ann said no: not now"]
