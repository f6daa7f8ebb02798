"""Playbooks that look before they may act: side by side, the likelier first, and no more of it."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from incident_host import FIX, Host, events, run_commander

from hermes.core.events.base import BaseEvent
from hermes.core.events.incidents import ChangeBegan, IncidentChecked, PhaseEntered
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted, PlaybookStepped
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.incident import IncidentDetails, read_incident
from hermes.sre.checks import CheckResult, IndependentChecks
from hermes.sre.context import IncidentWork
from hermes.sre.responders.playbooks import PlaybookResponder
from hermes.sre.responders.signature_scan import SignatureScan

pytestmark = pytest.mark.anyio
OTHER = "web-is-down-otherwise"
"""Comes behind `web` for an alert that web is down."""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while True:
            if holds():
                return
            await anyio.sleep(0.01)


def looks(host: Host, name: str, command: str) -> None:
    """What this playbook's probe does instead."""
    file = host.folder / "skills" / name / "playbook.yaml"
    lines = file.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if "command: test" in line)
    lines[at] = f"      command: {command}"
    file.write_text("\n".join(lines))


@asynccontextmanager
async def scouting(host: Host) -> AsyncGenerator[SignatureScan, None]:
    case = await host.open_incident()
    async with host.context() as context, anyio.create_task_group() as group:
        work = IncidentWork(context, case)
        sent = SignatureScan(work, PlaybookResponder(work, group).candidates)
        group.start_soon(sent.run)
        yield sent
        sent.stop()


class Waiting(Host):
    """Its checks answer only once a playbook has found its signature."""

    async def checks_for(self, case: IncidentDetails) -> IndependentChecks:
        async def see() -> Sequence[CheckResult]:
            await until(lambda: bool(events(self, PlaybookStepped)))
            for _ in range(100):  # it could begin now
                await anyio.lowlevel.checkpoint()
            if not self.well():
                assert not events(self, ChangeBegan)
            return [CheckResult(check="web", ok=self.well())]

        return see


async def test_they_look_while_it_is_judged_and_nobody_acts_before_both_have_answered(
    tmp_path: Path,
) -> None:
    host = Waiting(tmp_path)
    host.playbook("web", FIX)
    ending = await run_commander(host)
    assert (ending.outcome, host.ledger) == ("resolved", ["web-1"])
    order = events(host, BaseEvent)
    ended = {each.result.call_id: each for each in events(host, ToolFinished)}
    judged = [each for call, each in ended.items() if call.startswith("assess-")]
    checked = [each for each in events(host, IncidentChecked) if each.when == "before"]
    reflex = next(each for each in events(host, PhaseEntered) if each.phase == "reflex")
    for answer in (*judged[:3], *checked):
        assert order.index(answer) < order.index(reflex)
    assert order.index(reflex) < order.index(events(host, PlaybookStarted)[0])


async def test_the_likelier_one_acts_even_if_another_finds_its_signature_first(host: Host) -> None:
    host.playbook("web", FIX)
    host.playbook(OTHER, ("touch other", "rm other"))
    looks(host, "web", "until test -f found; do sleep 0.02; done; test ! -f well-web")
    looks(host, OTHER, "touch found")
    ending = await run_commander(host)
    assert (ending.outcome, host.ledger) == ("resolved", ["web-1"])


async def test_side_by_side_they_still_share_a_look(host: Host) -> None:
    for number in range(5):
        host.playbook(f"web-{number}", FIX)
        looks(host, f"web-{number}", "echo x >> looks; sleep 0.1; false")
    async with scouting(host) as sent:
        assert await sent.next_match() is None
    assert (host.folder / "looks").read_text() == "x\n"
    assert len(events(host, PlaybookEnded)) == 5


async def test_a_host_that_lacks_what_all_of_them_need_is_asked_once(host: Host) -> None:
    lacking = "echo x >> looks; echo unchecked=no systemctl on this host; echo unit=web"
    for number in range(5):
        host.playbook(f"web-{number}", FIX)
        looks(host, f"web-{number}", lacking)
    ending = await run_commander(host)
    assert (ending.outcome, host.ledger) == ("escalated", [])
    assert (host.folder / "looks").read_text() == "x\n", "neither each for itself nor twice"
    ended = events(host, PlaybookEnded)
    assert [each.unchecked for each in ended] == ["no systemctl on this host"] * 5
    assert "5 could not be checked: no systemctl on this host" in ending.reason


async def test_one_that_could_look_has_its_second_look_although_others_could_not(
    host: Host,
) -> None:
    host.playbook("web", FIX)
    host.playbook(OTHER, FIX)
    looks(host, "web", "echo x >> looks; echo unchecked=no systemctl on this host")
    looks(host, OTHER, "echo y >> looks; false")
    await run_commander(host)
    assert sorted((host.folder / "looks").read_text().split()) == ["x", "y", "y"]


async def test_behind_one_that_found_its_signature_nobody_looks_on(host: Host) -> None:
    names = [f"web-{number}" for number in range(9)]
    for name in names:
        host.playbook(name, FIX)
        looks(host, name, f"echo {name} >> looks")
    async with scouting(host) as sent:
        first = await sent.next_match()
        assert first is not None
        await sent.stop_and_wait()
    seen = (host.folder / "looks").read_text().split()
    assert len(seen) <= 4, seen


async def test_where_one_may_not_act_the_next_has_its_turn(host: Host) -> None:
    host.playbook("web", FIX)
    host.playbook(OTHER, FIX)
    async with scouting(host) as sent:
        first, second = await sent.next_match(), await sent.next_match()
        assert first is not None and second is not None
        assert await sent.next_match() is None
    assert [first.candidate.skill.name, second.candidate.skill.name] == ["web", OTHER]


async def test_what_was_seen_long_ago_is_looked_at_again(host: Host) -> None:
    host.playbook("web", FIX)
    async with scouting(host) as sent:
        seen = await sent.next_match()
        assert seen is not None and not seen.expired
        assert await sent.scan_again(seen) is not None
        (host.folder / "well-web").touch()
        assert await sent.scan_again(seen) is None


async def test_called_off_they_end_the_look_they_are_at_and_begin_no_other(host: Host) -> None:
    for number in range(9):
        host.playbook(f"web-{number}", FIX)
        looks(host, f"web-{number}", f"echo {number} >> looks; sleep 0.1; false")
    async with scouting(host) as sent:
        await until((host.folder / "looks").exists)
        await sent.stop_and_wait()
    begun = [each for each in events(host, ToolRequested) if each.call.id.startswith("play-")]
    ended = {each.result.call_id for each in events(host, ToolFinished)}
    assert len(begun) < 9
    assert {each.call.id for each in begun} <= ended, "nothing was cut off"


async def test_one_that_only_looked_does_not_end_the_playing_of_another(host: Host) -> None:
    case = await host.open_incident()
    await host.journal.append(
        PlaybookStarted(run=case.run, skill="web", digest="d"),
        PlaybookEnded(run=case.run, skill="other", outcome="declined"),
    )
    past = await read_incident(host.journal, case.run)
    assert past is not None and past.playing == "web"
