"""Playbooks in an incident: who looks, who acts, and what the people who are asked are shown."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import msgspec
import pytest
from incident_host import FIX, Host, events, run_commander

from hermes.core.actions import Action, Approval, Decision
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.incidents import ChangeBegan, IncidentClosed, IncidentDiagnosed
from hermes.core.incident import AlertFacts
from hermes.policy.approvals.approver import JournalApprover
from hermes.policy.approvals.request import ApprovalOptions
from hermes.policy.rules.rule import PolicyVerdict
from hermes.sre.assessment.remaining_faults import without_units
from hermes.sre.commander import Commander
from hermes.sre.coordination import CauseClaims
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

pytestmark = pytest.mark.anyio


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def counted(host: Host, name: str, expect: str) -> None:
    """Its look leaves a trace, and finds its signature only where it sees what it expects."""
    file = host.folder / "skills" / name / "playbook.yaml"
    text = file.read_text().replace("command: test", "command: echo x >> looks; test")
    found = f"echo seen\n      expect: {{contains: {expect}}}\n"
    file.write_text(text.replace("echo seen\n", found))


async def test_playbooks_share_a_look_until_one_of_them_changes_something(host: Host) -> None:
    host.playbook("web", ("touch one", "rm one"))
    host.playbook("web-is-down-otherwise", FIX)
    counted(host, "web", "elsewhere")
    counted(host, "web-is-down-otherwise", "seen")
    ending = await run_commander(host)
    assert (ending.outcome, host.ledger) == ("resolved", ["web-is-down-otherwise-1"])
    assert (host.folder / "looks").read_text() == "x\n"


async def test_with_one_fault_fixed_nobody_looks_for_another(host: Host) -> None:
    host.playbook("web", FIX)
    host.playbook("web-is-down-otherwise", ("touch other", "rm other"))
    ending = await run_commander(host)
    assert (ending.outcome, host.ledger) == ("resolved", ["web-1"])


class ObservedFaults(CauseClaims):
    """Remembers the faults that were found."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def claim_fault(self, incident: str, fault: str, causes: Sequence[str] = ()) -> str:
        self.found.append(fault)
        return super().claim_fault(incident, fault, causes)


@pytest.mark.parametrize("count", [2, 3])
async def test_incidents_that_find_one_fault_fix_it_once(host: Host, count: int) -> None:
    """The others wait for the first, also while people are asked, and ask nobody. What the probes
    print differs, as it depends on the alert; what the steps do does not."""
    host.playbook("web", FIX)
    playbook = host.folder / "skills" / "web" / "playbook.yaml"
    seen = "{from: look, pattern: 'at=(.+)', default: ''}\nsteps:"
    text = playbook.read_text().replace("echo seen", "echo at=$$ && echo seen")
    playbook.write_text(text.replace("\nsteps:", f"\n  at: {seen}", 1))
    host.answers_after = 1.0
    cases = [await host.open_incident(f"incident-{number}") for number in range(1, count + 1)]
    claims = ObservedFaults()
    async with host.context() as context, anyio.create_task_group() as group:
        for details in cases:
            group.start_soon(Commander(replace(context, claims=claims), details).run)
    assert host.ledger == ["web-1"]
    assert len(claims.found) >= count
    assert len(set(claims.found)) == 1
    outcomes = sorted(each.outcome for each in events(host, IncidentClosed))
    assert outcomes == [*["recovered"] * (count - 1), "resolved"]


async def test_a_fault_of_the_host_that_says_nothing_about_a_certificate_is_not_its_cause(
    host: Host,
) -> None:
    host.playbook("full-disk", FIX)
    host.playbook("web-certificate", ("touch well-web", "rm well-web"))
    playbook = host.folder / "skills" / "full-disk" / "playbook.yaml"
    playbook.write_text(playbook.read_text().replace("full-disk is down", "core dump fills a disk"))
    opened = await host.open_incident()
    title = "web: the certificate of /etc/web.crt has expired: Nov 10 08:00:00 2026 GMT"
    case = msgspec.structs.replace(opened, title=title, labels={"kind": "certificate"})
    async with host.context() as context:
        ending = await Commander(context, case).run()
    assert (ending.outcome, host.ledger) == ("resolved", ["web-certificate-1"])


async def test_a_lock_is_not_the_cause_of_a_load(host: Host) -> None:
    for name, words in (("lock", "lock wait of processes"), ("web", "load average is high")):
        host.playbook(name, ("touch well-web", "rm well-web"))
        playbook = host.folder / "skills" / name / "playbook.yaml"
        playbook.write_text(playbook.read_text().replace(f"{name} is down", words))
    opened = await host.open_incident()
    title = "web: 9.2 processes wait for each of 2 processors"
    case = msgspec.structs.replace(opened, title=title, labels={"kind": "load"})
    async with host.context() as context:
        ending = await Commander(context, case).run()
    assert (ending.outcome, host.ledger) == ("resolved", ["web-1"])


class Rules:
    """Looks are free; of changes they say this."""

    def __init__(self, verdict: Literal["ask", "deny"]) -> None:
        self._verdict = verdict

    def decide(self, action: Action) -> PolicyVerdict:
        changes = "ledger" in str(action.call.arguments["command"])
        return PolicyVerdict(verdict=self._verdict if changes else "allow", rule="test", hash="x")


async def test_what_a_playbook_found_is_told_also_when_it_may_not_act(host: Host) -> None:
    host.playbook("web", FIX)
    case, rules = await host.open_incident(), Rules("deny")
    async with host.context() as context:
        executor = Executor({"terminal": make_terminal()}, rules, host.person, context.bus)
        ending = await Commander(replace(context, executor=executor), case).run()
    assert (ending.outcome, host.ledger) == ("escalated", [])
    events = [each.event async for each in host.journal.read()]
    *_, diagnosed = [each for each in events if isinstance(each, IncidentDiagnosed)]
    assert (diagnosed.verdict, diagnosed.mechanism) == ("escalate", "web is put right")
    assert diagnosed.evidence


async def test_whoever_is_asked_about_a_step_is_shown_its_own_way_back(host: Host) -> None:
    host.playbook("web", ("touch well-web", "rm -f well-web; ls {{kept}}"))
    case, rules = await host.open_incident(), Rules("ask")
    async with host.context() as context:
        people = JournalApprover(context.bus, rules.decide, ApprovalOptions(), host.person)
        executor = Executor({"terminal": make_terminal()}, rules, people, context.bus)
        ending = await Commander(replace(context, executor=executor), case).run()
    assert ending.outcome == "resolved", ending
    events = [each.event async for each in host.journal.read()]
    (request,) = [each for each in events if isinstance(each, ApprovalRequested)]
    way_back = "echo undo-web-1 >> ledger; rm -f well-web; ls /var/tmp/hermes-undo/"
    assert request.undo.startswith(way_back)


async def test_a_change_is_not_made_when_the_problem_ended_while_people_were_asked(
    host: Host,
) -> None:
    """Somebody else repairs it while a restart is announced: Hermes neither acts nor claims it."""
    host.playbook("web", FIX)
    case, rules = await host.open_incident(), Rules("ask")

    async def repair_and_agree(action: Action, decision: Decision) -> Approval:
        (host.folder / "well-web").touch()
        return Approval(approved=True, by="ann")

    async with host.context() as context:
        executor = Executor({"terminal": make_terminal()}, rules, repair_and_agree, context.bus)
        ending = await Commander(replace(context, executor=executor), case).run()
    assert (ending.outcome, ending.answered_by, host.ledger) == ("recovered", "nobody", [])
    events = [each.event async for each in host.journal.read()]
    assert not [each for each in events if isinstance(each, ChangeBegan)]
    *_, diagnosed = [each for each in events if isinstance(each, IncidentDiagnosed)]
    assert (diagnosed.verdict, diagnosed.confidence) == ("recovered", 0.5)


def test_what_was_fixed_is_no_longer_what_the_alert_is_about() -> None:
    facts = AlertFacts(title="web and web-cache fail", labels={"service": "web", "host": "h"})
    rest = without_units(facts, ["web"])
    assert rest.title == " and web-cache fail"
    assert rest.labels == {"host": "h"}
    assert without_units(facts, [""]) == facts
