"""A cause that experiments proved is reverted through the gate, verified, and undone if need be."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import anyio
import msgspec
import pytest
from incident_host import FIX, Host, events, run_commander

from hermes.core.errors import EnvironmentFailed
from hermes.core.events.experiments import ExperimentRan, ExperimentsEnded, FixTested
from hermes.core.events.incidents import (
    ChangeBegan,
    IncidentChecked,
    IncidentClosed,
    IncidentDiagnosed,
    PhaseEntered,
)
from hermes.core.incident import IncidentDetails, read_incident
from hermes.environments.local import LocalEnvironment
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.cause import CauseFixStep, CauseResult, FailingCase, FindFailingCase, ServiceNames
from hermes.sre.checks import IndependentChecks, ProbeChecks
from hermes.sre.commander import Commander, IncidentResult
from hermes.sre.coordination import MAX_TURN_WAIT_S, CauseClaims
from hermes.sre.notifications.escalation_text import escalation_lines
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.probe import Probe
from hermes.sre.reports.report_data import read_incident_records
from hermes.sre.reports.report_text import render_report
from hermes.sre.reports.statements import find_excluded_causes, resolver_of
from hermes.sre.reports.timeline import build_timeline

pytestmark = pytest.mark.anyio
REVERT = CauseFixStep(command="echo revert >> ledger; touch well-web", undo="rm -f well-web")
PROVED = CauseResult(
    status="proved",
    component="/etc/web.conf",
    mechanism="changed by ann: -port 1 +port 2",
    author="ann",
    steps=(REVERT,),
    units=("web",),
    causes=("file /etc/web.conf",),
    suspects=3,
    experiments=1,
)


class ScriptedFinder:
    """Answers always the same, after one experiment."""

    def __init__(self, result: CauseResult, error: Exception | None = None) -> None:
        self.result, self._error = result, error
        self.cases: list[FailingCase] = []
        self.available = True
        self.observed: Sequence[Probe] = ()
        self.services = ServiceNames()

    async def observe(self, case: FailingCase) -> Sequence[Probe]:
        return self.observed

    async def list_services(self, case: FailingCase, failing: Sequence[str]) -> ServiceNames:
        return self.services

    async def find(
        self, look: FindFailingCase, daemons: Sequence[PlainDaemon]
    ) -> CauseResult | None:
        case = await look()
        if case is None:
            return None
        self.cases.append(case)
        if self._error is not None:
            raise self._error
        await case.publish(
            ExperimentRan(
                run=case.details.run,
                incident=case.details.incident,
                number=1,
                purpose="revert-only",
                reverted=("file /etc/web.conf",),
                outcome="passes",
                seconds=1.5,
            )
        )
        return self.result


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


async def test_a_proved_cause_is_reverted_and_verified(host: Host) -> None:
    host.finder = finder = ScriptedFinder(PROVED)
    ending = await run_commander(host)
    assert (ending.outcome, ending.answered_by) == ("resolved", "experiment")
    assert host.ledger == ["revert"]
    assert [each.check for each in finder.cases[0].failing] == ["web"]
    begun = events(host, ChangeBegan)[0]
    assert (begun.by, begun.undo) == ("experiment", "rm -f well-web")
    phases = [event.phase for event in events(host, PhaseEntered)]
    assert phases == ["assess", "reflex", "investigate", "remediate", "verify", "document", "learn"]
    diagnosed = events(host, IncidentDiagnosed)[0]
    assert (diagnosed.component, diagnosed.mechanism) == (PROVED.component, PROVED.mechanism)


async def test_an_earlier_version_can_read_who_closed_it(host: Host) -> None:
    host.finder = ScriptedFinder(PROVED)
    await run_commander(host)
    assert events(host, IncidentClosed)[0].answered_by == "playbook"
    incident = await read_incident(host.journal, "incident-1")
    assert incident is not None
    assert str(resolver_of(incident)) == "an experiment on a copy"


async def test_playbooks_come_first(host: Host) -> None:
    host.playbook("web", FIX)
    host.finder = finder = ScriptedFinder(PROVED)
    assert (await run_commander(host)).answered_by == "playbook"
    assert not finder.cases


async def test_a_revert_that_does_not_help_is_undone_and_not_tried_again(host: Host) -> None:
    step = CauseFixStep(command="echo revert >> ledger", undo="echo undone >> ledger")
    host.finder = finder = ScriptedFinder(
        CauseResult(status="proved", component="x", mechanism="y", steps=(step,))
    )
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert host.ledger == ["revert", "undone"]
    assert len(finder.cases) == 1
    incident = await read_incident(host.journal, "incident-1")
    assert incident is not None
    notice = "\n".join(escalation_lines(incident))
    assert "on copies the cause; putting it back did not end it here: " in notice
    assert "cause, proved on copies" not in notice


async def test_a_refused_revert_is_handed_to_people_with_the_proved_cause(host: Host) -> None:
    host.answers = False
    host.finder = ScriptedFinder(PROVED)
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert not host.ledger
    assert "the cause is proved on copies, not put back: " in ending.reason
    last = events(host, IncidentDiagnosed)[-1]
    assert (last.verdict, last.component) == ("escalate", "/etc/web.conf")
    assert any(each.about == "change" and "cause proved" in each.text for each in last.escalation)


async def test_proved_and_not_proved_are_not_said_of_one_cause(host: Host) -> None:
    """The notice has the whole reason why the cause stays in force."""
    why = "its revert did not take effect on a running copy: " + "the database does not answer " * 5
    left = msgspec.structs.replace(PROVED, steps=(), why=f"{why}(code 28)")
    host.finder = ScriptedFinder(left)
    assert (await run_commander(host)).outcome == "escalated"
    incident = await read_incident(host.journal, "incident-1")
    assert incident is not None
    notice = " ".join(" ".join(escalation_lines(incident)).split())
    assert "cause, proved on copies: " in notice
    assert f"the cause is proved on copies, not put back: {left.why}" in notice
    assert "not proved" not in notice
    texts = [
        each.text
        for each in build_timeline(await read_incident_records(host.journal, "incident-1"))
    ]
    assert not any("not proved" in each for each in texts)


async def test_a_recent_change_of_a_person_is_reverted_only_after_approval(host: Host) -> None:
    recent = CauseFixStep(command="touch well-web", undo="rm -f well-web", recent_by="ann")
    host.finder = ScriptedFinder(
        CauseResult(status="proved", component="x", mechanism="y", steps=(recent,))
    )
    host.answers_after = 0.01
    assert (await run_commander(host)).outcome == "resolved"

    refusing = Host(host.folder / "other", answers=False, finder=host.finder)
    refusing.folder.mkdir()
    assert (await run_commander(refusing)).outcome == "escalated"
    assert not refusing.well()


class TraceFinder(ScriptedFinder):
    """A fault that leaves its trace while the experiments run."""

    def __init__(self, result: CauseResult, trace: Path) -> None:
        super().__init__(result)
        self._trace = trace

    async def find(
        self, look: FindFailingCase, daemons: Sequence[PlainDaemon]
    ) -> CauseResult | None:
        self._trace.touch()
        return await super().find(look, daemons)


def add_playbook_with_trace(host: Host) -> None:
    """Its signature is found only after the trace is there."""
    host.playbook("web", FIX)
    file = host.folder / "skills/web/playbook.yaml"
    file.write_text(file.read_text().replace("test ! -f well-web", "test -f trace"))


async def test_playbooks_look_again_before_people_are_asked(host: Host) -> None:
    add_playbook_with_trace(host)
    recent = CauseFixStep(command=REVERT.command, undo=REVERT.undo, recent_by="ann")
    result = CauseResult(status="proved", component="x", mechanism="y", steps=(recent,))
    host.finder = TraceFinder(result, host.folder / "trace")
    ending = await run_commander(host)
    assert (ending.outcome, ending.answered_by) == ("resolved", "playbook")
    assert host.ledger == ["web-1"]


async def test_a_revert_that_asks_nobody_comes_before_the_second_look(host: Host) -> None:
    add_playbook_with_trace(host)
    host.finder = TraceFinder(PROVED, host.folder / "trace")
    assert (await run_commander(host)).answered_by == "experiment"
    assert host.ledger == ["revert"]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            CauseResult(status="ruled-out", why="it fails also without", suspects=4),
            "as the cause (4",
        ),
        (CauseResult(status="not-reproduced", why="the checks pass"), "could not be reproduced"),
        (CauseResult(status="impossible", why="no known good state"), "no known good state"),
    ],
)
async def test_what_experiments_did_not_find_reaches_people_and_excludes_nothing(
    host: Host, result: CauseResult, words: str
) -> None:
    host.finder = ScriptedFinder(result)
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert words in ending.reason
    records = await read_incident_records(host.journal, "incident-1")
    assert any(words in each.text for each in build_timeline(records))
    lines = events(host, IncidentDiagnosed)[-1].escalation
    assert any(words in each.text for each in lines)
    incident = await read_incident(host.journal, "incident-1")
    assert incident is not None
    shown = find_excluded_causes(incident, (), records).shown
    assert not any(words in text for text in shown)


async def test_experiments_are_told_in_plain_words(host: Host) -> None:
    host.finder = ScriptedFinder(PROVED)
    await run_commander(host)
    records = await read_incident_records(host.journal, "incident-1")
    texts = [each.text for each in build_timeline(records)]
    said = (
        "experiment 1: a copy with only this reverted: file /etc/web.conf: the checks pass, 1.5 s"
    )
    assert said in texts
    assert any(text.startswith("cause proved in 1 experiments") for text in texts)
    assert "experiment" in render_report(records)


class ProbedHost(Host):
    """Its checks are probes; none of them observes the fault."""

    stack: AsyncExitStack

    async def checks_for(self, case: IncidentDetails) -> IndependentChecks:
        environment = await self.stack.enter_async_context(
            LocalEnvironment(self.folder, {"PATH": "/usr/bin:/bin"})
        )
        up = mark_admitted(Probe(name="up", kind="command", what="true", service="web"))
        return ProbeChecks([up], environment)


@pytest.mark.parametrize("observed", [True, False])
async def test_what_differs_between_copies_counts_only_if_it_fails_on_the_host(
    tmp_path: Path, observed: bool
) -> None:
    what = f"test {'' if observed else '!'} -f {tmp_path}/well-web"
    contrast = mark_admitted(Probe(name="answer", kind="command", what=what, service="web"))
    async with AsyncExitStack() as stack:
        host = ProbedHost(tmp_path)
        host.stack = stack
        host.finder = finder = ScriptedFinder(PROVED)
        finder.observed = [contrast]
        ending = await run_commander(host)
    failing = [each.check for case in finder.cases for each in case.failing]
    assert failing == (["answer"] if observed else [])
    assert ending.outcome == ("resolved" if observed else "escalated")


async def test_without_a_known_good_state_there_are_no_experiments(host: Host) -> None:
    host.finder = finder = ScriptedFinder(PROVED)
    finder.available = False
    assert (await run_commander(host)).outcome == "escalated"
    assert not finder.cases
    assert not events(host, ExperimentsEnded)
    lines = events(host, IncidentDiagnosed)[-1].escalation
    assert any("hermes state record --known-good" in each.text for each in lines)


async def test_an_environment_that_fails_does_not_end_the_work(host: Host) -> None:
    host.finder = ScriptedFinder(PROVED, EnvironmentFailed("the copy has ended"))
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert "the copy has ended" in ending.reason
    assert events(host, ExperimentsEnded)[0].status == "impossible"


async def test_after_a_crash_a_revert_is_not_made_again(host: Host) -> None:
    case = await host.open_incident()
    host.finder = finder = ScriptedFinder(PROVED)
    async with host.context() as context:
        await context.bus.publish(
            PhaseEntered(run=case.run, incident=case.incident, phase="remediate", attempt=1),
            ChangeBegan(
                run=case.run,
                incident=case.incident,
                call_id="revert-1",
                command="true",
                undo="true",
                attempt=1,
                by="experiment",
            ),
        )
        ending = await Commander(context, case).run()
    assert ending.outcome == "escalated"
    assert not finder.cases


@pytest.mark.parametrize(("tested", "ledger"), [(("web",), []), (("disk",), ["undone"])])
async def test_after_a_crash_a_revert_stays_if_what_it_was_tested_for_passes(
    host: Host, tested: tuple[str, ...], ledger: list[str]
) -> None:
    """A full disk, which the same incident is about, is no reason to undo it."""
    case, host.watched = await host.open_incident(), ("web", "disk")
    run, incident = case.run, case.incident
    await host.journal.append(
        IncidentChecked(run=run, incident=incident, check="web", ok=False, when="before"),
        IncidentChecked(run=run, incident=incident, check="disk", ok=False, when="before"),
        PhaseEntered(run=run, incident=incident, phase="remediate", attempt=1),
        FixTested(
            run=run, incident=incident, fix="x", by="experiment", outcome="recovered", checks=tested
        ),
        ChangeBegan(
            run=run, incident=incident, call_id="revert-1", command="touch well-web",
            undo="echo undone >> ledger", attempt=1, by="experiment",
        ),
    )  # fmt: skip
    (host.folder / "well-web").touch()
    async with host.context() as context:
        ending = await Commander(context, case).run()
    assert (ending.outcome, host.ledger) == ("escalated", ledger)


async def test_two_incidents_with_one_cause_revert_it_once(host: Host) -> None:
    host.finder = ScriptedFinder(PROVED)
    first, second = await host.open_incident(), await host.open_incident("incident-2")
    endings: list[IncidentResult] = []
    async with host.context() as context, anyio.create_task_group() as group:
        for case in (first, second):

            async def work(case: IncidentDetails = case) -> None:
                endings.append(await Commander(context, case).run())

            group.start_soon(work)
    assert host.ledger == ["revert"]
    assert sorted(each.outcome for each in endings) == ["recovered", "resolved"]


async def test_two_parts_of_one_file_are_not_reverted_side_by_side() -> None:
    """What the second would put back was made from the file as it was before the first."""
    claims, order = CauseClaims(), list[str]()

    async def second() -> None:
        assert await claims.claim("second", ["service shop", "file /etc/hosts"])
        order.append("second")

    async with anyio.create_task_group() as group:
        with claims.release_after("first"):
            assert not await claims.claim("first", ["file /etc/hosts (line 1)"])
            group.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            order.append("first")
    assert order == ["first", "second"]


async def test_the_experiments_of_incidents_take_turns_until_the_cause_is_reverted(
    host: Host,
) -> None:
    """One outage opens several incidents: their copies would slow each other down."""
    host.finder = finder = ScriptedFinder(PROVED)
    first, second = await host.open_incident(), await host.open_incident("incident-2")
    claims = CauseClaims()
    async with host.context() as context, anyio.create_task_group() as group:
        shared = replace(context, claims=claims)
        for case in (first, second):
            group.start_soon(Commander(shared, case).run)
    assert len(finder.cases) == 1, "the second one found nothing that fails"
    assert host.ledger == ["revert"]
    assert sorted(each.outcome for each in events(host, IncidentClosed)) == [
        "recovered",
        "resolved",
    ]


async def test_a_turn_ends_with_the_work_on_its_incident() -> None:
    claims, order = CauseClaims(), list[str]()

    async def second() -> None:
        assert await claims.take_turn("second")
        order.append("second")

    with anyio.fail_after(MAX_TURN_WAIT_S / 2):
        async with anyio.create_task_group() as group:
            with claims.release_after("first"):
                assert not await claims.take_turn("first")
                group.start_soon(second)
                await anyio.wait_all_tasks_blocked()
                assert not await claims.take_turn("first"), "a later attempt of the same incident"
                order.append("first")
    assert order == ["first", "second"]


class ObservedClaims(CauseClaims):
    """Tells when the first incident asks for its cause."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = anyio.Event()

    async def claim(self, incident: str, causes: Sequence[str]) -> bool:
        if incident == "incident-1":
            self.asked.set()
        return await super().claim(incident, causes)


async def test_a_cause_that_another_incident_has_reverted_is_not_reverted_again(
    host: Host,
) -> None:
    """Its undo would break what works since."""
    host.finder = finder = ScriptedFinder(PROVED)
    case = await host.open_incident()
    claims = ObservedClaims()
    async with host.context() as context, anyio.create_task_group() as group:
        with claims.release_after("incident-2"):
            await claims.claim("incident-2", PROVED.causes)
            group.start_soon(Commander(replace(context, claims=claims), case).run)
            await claims.asked.wait()
            finder.result = CauseResult(status="ruled-out", why="nothing has changed")
    assert len(finder.cases) == 2
    assert not events(host, ChangeBegan)


class ObservedTurns(CauseClaims):
    """Tells when the first incident asks for its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = anyio.Event()

    async def take_turn(self, incident: str) -> bool:
        if incident == "incident-1":
            self.asked.set()
        return await super().take_turn(incident)


async def test_playbooks_look_again_after_the_turn_of_another_incident(host: Host) -> None:
    """What began to fail meanwhile may need no experiment."""
    late = host.folder / "well-late"
    late.touch()
    host.playbook("web", FIX, fixes="late")
    host.finder = finder = ScriptedFinder(PROVED)
    case, claims = await host.open_incident(), ObservedTurns()
    async with host.context() as context, anyio.create_task_group() as group:
        with claims.release_after("incident-2"):
            await claims.take_turn("incident-2")
            group.start_soon(Commander(replace(context, claims=claims), case).run)
            await claims.asked.wait()
            late.unlink()
    assert not finder.cases
    assert host.ledger == ["web-1"]


class ObservedWaits(CauseClaims):
    """Tells when an incident waits for the fix of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = anyio.Event()

    async def wait_for_fixes(self, incident: str, text: str = "") -> None:
        self.asked.set()
        await super().wait_for_fixes(incident, text)


@pytest.mark.parametrize("depends", [True, False])
async def test_people_are_called_after_the_fix_of_another_incident_which_may_end_this_one(
    host: Host, depends: bool
) -> None:
    host.watched = ("web", "shop")
    host.finder = ScriptedFinder(CauseResult(status="ruled-out", why="nothing has changed"))
    details, claims = await host.open_incident(), ObservedWaits()
    async with host.context() as context, anyio.create_task_group() as group:
        with claims.release_after("incident-2"):
            claims.begin_fix("incident-2")
            group.start_soon(Commander(replace(context, claims=claims), details).run)
            with anyio.fail_after(120):
                await claims.asked.wait()
            assert any("waits for incident-2" in each.detail for each in events(host, PhaseEntered))
            assert not events(host, IncidentClosed)
            for name in host.watched if depends else ():
                (host.folder / f"well-{name}").touch()
    (closed,) = events(host, IncidentClosed)
    assert closed.outcome == ("recovered" if depends else "escalated")
