"""A change that was announced before a crash is continued: neither lost nor announced again."""

import os
import sys
from pathlib import Path

import anyio
import pytest

from hermes.app.people import PeopleRegister
from hermes.app.policy import ApplicationApprover, LazyPolicy, deny_unattended
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.actions import Action, Approval
from hermes.core.bus import Bus
from hermes.core.events.approvals import ActionAnnounced, ActionStopped, ApprovalSettled
from hermes.core.messages import Risk, ToolCall
from hermes.memory.store import open_journal
from hermes.policy.approvals.request import ask_options_of
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio
RUN = "incident-20260306-031500-4f2a1c"
DEADLINE_S = 60.0
TESTS_FOLDER = str(Path(__file__).parent)
FIRST_PROCESS = """
import sys
import anyio
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_announcements import ask
anyio.run(ask, Path(sys.argv[1]), "supervisorctl restart api", True)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def settings(home: Path) -> LoadedSettings:
    overrides = {"policy.set": "careful", "policy.announce": "6", "policy.wait": "true"}
    return load(home=home, variables={"PATH": os.environ["PATH"]}, overrides=overrides)


async def ask(
    home: Path, command: str = "supervisorctl restart api", tell: bool = False
) -> Approval:
    """What a process is answered that wants to restart a service in the work on an incident.
    `tell`: it prints a line once it has announced that."""
    loaded = settings(home)
    policy = LazyPolicy(loaded, Path("/"), isolated=False)
    action = Action(
        call=ToolCall(id=f"step-{os.getpid()}", name="terminal", arguments={"command": command}),
        risk=Risk.READ,
        run=RUN,
        origin="incident",
        environment="local",
        target="box",
        isolated=False,
        command=command,
    )
    async with open_journal(loaded.store) as journal:
        redactor = SecretRedactor(loaded)
        bus = Bus(journal)
        people = PeopleRegister(loaded, journal)
        approver = ApplicationApprover(loaded, bus, policy, redactor, deny_unattended, people)
        decision = policy.decide(action)
        assert ask_options_of(decision).announce == 6.0, decision
        async with anyio.create_task_group() as group:
            if tell:
                group.start_soon(_print_announcement, bus)
            answer = await approver(action, decision)
            group.cancel_scope.cancel()
        return answer


async def _print_announcement(bus: Bus) -> None:
    async for recorded in bus.follow(after=0, run=RUN):
        if isinstance(recorded.event, ActionAnnounced):
            sys.stdout.write("announced\n")
            sys.stdout.flush()
            return


async def events(home: Path) -> list[object]:
    async with open_journal(settings(home).store) as journal:
        return [each.event async for each in journal.read(run=RUN)]


async def crash_after_announcement(home: Path) -> ActionAnnounced:
    code = [sys.executable, "-c", FIRST_PROCESS, str(home), TESTS_FOLDER]
    with anyio.fail_after(DEADLINE_S):
        async with await anyio.open_process(code, stderr=None) as process:
            assert process.stdout is not None
            assert (await process.stdout.receive()).startswith(b"announced")
            process.kill()
            await process.wait()
    found = [each for each in await events(home) if isinstance(each, ActionAnnounced)]
    return found[0]


async def test_it_is_continued_and_not_announced_again(home: Path) -> None:
    announced = await crash_after_announcement(home)
    answer = await ask(home)
    found = await events(home)
    assert (answer.approved, answer.by) == (True, "nobody objected")
    assert [each for each in found if isinstance(each, ActionAnnounced)] == [announced]
    [settled] = [each for each in found if isinstance(each, ApprovalSettled)]
    assert (settled.approval, settled.outcome) == (announced.approval, "approved")


async def test_a_no_while_no_process_was_running_counts(home: Path) -> None:
    announced = await crash_after_announcement(home)
    async with open_journal(settings(home).store) as journal:
        stop = ActionStopped(
            run=RUN, call_id=announced.call_id, by="ann", approval=announced.approval
        )
        await Bus(journal).publish(stop)
    answer = await ask(home)
    assert (answer.approved, answer.by) == (False, "ann")


async def test_another_action_is_announced_by_itself(home: Path) -> None:
    announced = await crash_after_announcement(home)
    assert (await ask(home, "supervisorctl restart billing")).approved
    shown = [each.shown for each in await events(home) if isinstance(each, ActionAnnounced)]
    assert shown == [announced.shown, "supervisorctl restart billing"]
