"""Whoever may answer does, the first to settle wins, and nothing but a yes in time is a yes."""

from collections.abc import Sequence
from datetime import timedelta

import anyio
import pytest
from approval_setup import ApprovalSetup, Clocks, TerminalPerson, until, while_asking

from hermes.core.actions import Approval
from hermes.core.errors import StoreFull
from hermes.core.events import Event
from hermes.core.events.approvals import ActionStopped, ApprovalSettled, GrantRevoked
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.policy.rules.rule import AskOptions, EscalationStep

pytestmark = pytest.mark.anyio
PATIENT = AskOptions(waits=True)
TWO = AskOptions(waits=True, approvers=("oncall",), count=2)
GROUPS = {"oncall": ("me", "ann", "ben", "cleo")}


async def test_nobody_reachable_is_a_no_at_once_and_nobody_is_asked() -> None:
    setup = ApprovalSetup()
    answer = await setup.ask()
    assert (answer.approved, answer.by) == (False, "nobody")
    assert setup.journal.events == []


@pytest.mark.parametrize("approved", [True, False])
async def test_another_process_answers_and_the_prompt_here_goes_away(approved: bool) -> None:
    sitter = TerminalPerson()
    setup = ApprovalSetup(sitter)

    async def elsewhere() -> None:
        await until(lambda: sitter.seen)
        await setup.answered("ann", approved, via="cli")

    answer = await while_asking(setup.ask(), elsewhere)
    assert (answer.approved, answer.by) == (approved, "ann")
    assert sitter.gone == 1
    settled = setup.events("approval.settled")[0]
    assert (settled.by, settled.via) == (("ann",), "cli")


async def test_what_is_said_here_is_an_answer_like_any_other() -> None:
    sitter = TerminalPerson()
    setup = ApprovalSetup(sitter)

    async def here() -> None:
        await until(lambda: sitter.seen)
        sitter.say(True)

    answer = await while_asking(setup.ask(), here)
    assert (answer.approved, answer.by) == (True, "me")
    assert [event.via for event in setup.events("approval.answered")] == ["terminal"]


async def test_an_answer_after_the_first_changes_nothing() -> None:
    setup = ApprovalSetup(wait=True)

    async def both() -> None:
        await setup.answered("ann", False, note="not now")
        await setup.answered("ben", True)

    answer = await while_asking(setup.ask(), both)
    assert not answer.approved
    assert answer.reason == "ann said no: not now"


async def test_two_people_are_needed_and_the_same_one_twice_is_one() -> None:
    setup = ApprovalSetup(groups=GROUPS)

    async def people() -> None:
        await setup.answered("ann")
        await setup.answered("ann")
        await setup.answered("me")
        await setup.answered("mallory")
        await anyio.wait_all_tasks_blocked()
        assert setup.outcomes == []
        await setup.answered("ben")

    answer = await while_asking(setup.ask(ask=TWO), people)
    assert (answer.approved, answer.by) == (True, "ann, ben")
    assert setup.requests[0].approvers == ("me", "ann", "ben", "cleo")
    assert setup.requests[0].barred == ("me",)


async def test_whoever_started_it_cannot_approve_it_at_the_terminal_either() -> None:
    sitter = TerminalPerson("me")
    sitter.say(True)
    setup = ApprovalSetup(sitter, groups=GROUPS)

    async def people() -> None:
        await until(lambda: sitter.gone)
        assert setup.events("approval.answered") == []
        await setup.answered("ann")
        await setup.answered("ben")

    assert (await while_asking(setup.ask(ask=TWO), people)).by == "ann, ben"


async def test_whoever_started_it_may_take_it_back() -> None:
    setup = ApprovalSetup(groups=GROUPS)
    answer = await while_asking(setup.ask(ask=TWO), lambda: setup.answered("me", False))
    assert (answer.approved, answer.by) == (False, "me")


async def test_a_plain_question_is_for_whoever_sits_there() -> None:
    setup = ApprovalSetup(wait=True)
    assert (await while_asking(setup.ask(), lambda: setup.answered("me"))).approved


async def test_no_answer_in_time_is_a_no() -> None:
    setup = ApprovalSetup()

    async def wait() -> None:
        await until(lambda: setup.requests)
        setup.clocks.pass_(601)

    answer = await while_asking(setup.ask(ask=PATIENT), wait)
    assert (answer.approved, answer.by) == (False, "nobody")
    assert "in time" in answer.reason
    assert setup.outcomes == ["expired"]


async def test_one_of_two_in_time_is_a_no() -> None:
    setup = ApprovalSetup(groups=GROUPS)

    async def one() -> None:
        await setup.answered("ann")
        await until(lambda: setup.events("approval.answered"))
        await anyio.wait_all_tasks_blocked()
        setup.clocks.pass_(601)

    answer = await while_asking(setup.ask(ask=TWO), one)
    assert answer.reason == "only 1 of 2 people approved it in time"


@pytest.mark.parametrize("jump", [timedelta(hours=-5), timedelta(0)])
async def test_setting_the_time_back_gives_nobody_more_time(jump: timedelta) -> None:
    setup = ApprovalSetup()

    async def late() -> None:
        await until(lambda: setup.requests)
        setup.clocks.wall += jump
        setup.clocks.ticks += 601
        await setup.answered("ann")

    assert not (await while_asking(setup.ask(ask=PATIENT), late)).approved


async def test_setting_the_time_forth_is_a_no_too() -> None:
    setup = ApprovalSetup()

    async def jump() -> None:
        await until(lambda: setup.requests)
        setup.clocks.wall += timedelta(days=1)
        await setup.answered("ann")

    assert not (await while_asking(setup.ask(ask=PATIENT), jump)).approved


async def test_after_a_while_others_may_answer_as_well() -> None:
    ask = AskOptions(waits=True, approvers=("oncall",), escalate=(EscalationStep(180.0, "leads"),))
    setup = ApprovalSetup(groups={"oncall": ("ann",), "leads": ("lea", "leo")})

    async def escalate() -> None:
        await setup.answered("lea")
        setup.clocks.pass_(181)
        await until(lambda: setup.events("approval.escalated"))
        await setup.answered("leo")

    answer = await while_asking(setup.ask(ask=ask), escalate)
    assert (answer.approved, answer.by) == (True, "leo")
    assert setup.events("approval.escalated")[0].to == ("lea", "leo")


async def test_a_yes_to_something_that_has_changed_is_no_yes() -> None:
    setup = ApprovalSetup(wait=True)

    async def swap() -> None:
        await until(lambda: setup.requests)
        setup.hash = lambda action: "other"
        await setup.answered("ann", scope="session")

    answer = await while_asking(setup.ask(), swap)
    assert not answer.approved
    assert "changed since people were asked" in answer.reason
    assert setup.outcomes == ["changed"]
    assert setup.events("grant.given") == []


async def test_a_question_whose_turn_is_interrupted_is_withdrawn() -> None:
    setup = ApprovalSetup(wait=True)
    async with anyio.create_task_group() as turn:
        turn.start_soon(setup.ask)
        await until(lambda: setup.requests)
        await anyio.wait_all_tasks_blocked()
        turn.cancel_scope.cancel()
    assert setup.outcomes == ["withdrawn"]


class FillingJournal(InMemoryJournal):
    async def append(self, *events: Event) -> Sequence[int]:
        if any(isinstance(event, ApprovalSettled) for event in events):
            raise StoreFull("no space left")
        return await super().append(*events)


async def test_a_full_disk_is_told_as_such() -> None:
    setup = ApprovalSetup(wait=True, journal=FillingJournal())
    with pytest.raises(StoreFull):
        await while_asking_bare(setup)


async def while_asking_bare(setup: ApprovalSetup) -> None:
    failed: list[StoreFull] = []

    async def one() -> None:
        try:
            await setup.ask()
        except StoreFull as error:
            failed.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        await setup.answered("ann")
    raise failed[0]


async def test_always_is_kept_for_what_can_be_taken_back_only() -> None:
    setup = ApprovalSetup(wait=True)
    first = await while_asking(
        setup.ask(effects=("write",)), lambda: setup.answered("ann", scope="always")
    )
    assert (first.scope, setup.kept) == ("always", ["h-{'command': 'make it so'} by ann"])
    for refused in ({"effects": ("delete", "irreversible")}, {"tainted": "rm -rf /srv"}):
        other = ApprovalSetup(wait=True)

        async def always(setup: ApprovalSetup = other) -> None:
            await setup.answered("ann", scope="always")

        answer = await while_asking(other.ask(**refused), always)
        assert (answer.approved, answer.scope, other.kept) == (True, "once", [])


async def test_an_announced_action_goes_on_when_nobody_objects() -> None:
    sitter = TerminalPerson()
    setup = ApprovalSetup(sitter)

    async def wait() -> None:
        await until(lambda: sitter.seen)
        setup.clocks.wall += timedelta(days=1)  # the time of day does not hurry it
        await anyio.wait_all_tasks_blocked()
        assert setup.outcomes == []
        setup.clocks.ticks += 31

    answer = await while_asking(setup.ask(ask=AskOptions(announce=30.0)), wait)
    assert (answer.approved, answer.by) == (True, "nobody objected")
    assert sitter.seen[0][1] == 30.0
    assert sitter.gone == 1
    announced = setup.events("action.announced")[0]
    assert (announced.seconds, announced.shown) == (30.0, "make it so")


async def test_an_announced_action_is_stopped_from_anywhere() -> None:
    setup = ApprovalSetup(wait=True)

    async def stop() -> None:
        await until(lambda: setup.events("action.announced"))
        announced = setup.events("action.announced")[0]
        await setup.bus.publish(
            ActionStopped(run="run", call_id="c1", by="ben", approval=announced.approval)
        )

    answer = await while_asking(setup.ask(ask=AskOptions(announce=30.0)), stop)
    assert (answer.approved, answer.reason) == (False, "ben said no")


async def test_an_announcement_that_nobody_hears_is_a_question() -> None:
    setup = ApprovalSetup()
    assert not (await setup.ask(ask=AskOptions(announce=0.001))).approved
    assert setup.journal.events == []

    async def yes(action: object, decision: object) -> Approval:
        return Approval(approved=True, by="code")

    asked = ApprovalSetup(yes)
    assert (await asked.ask(ask=AskOptions(announce=30.0))).by == "code"
    assert asked.events("action.announced") == []


async def test_an_approver_that_knows_nobody_leaves_it_to_the_others() -> None:
    async def nobody(action: object, decision: object) -> Approval:
        return Approval(approved=False, by="nobody")

    assert (await ApprovalSetup(nobody).ask()).by == "nobody"
    setup = ApprovalSetup(nobody)
    answer = await while_asking(setup.ask(ask=PATIENT), lambda: setup.answered("ann"))
    assert answer.approved


async def test_a_revoked_leave_is_gone_at_once() -> None:
    setup = ApprovalSetup(wait=True)
    await while_asking(setup.ask(), lambda: setup.answered("ann", scope="session"))
    assert (await setup.ask("c2")).scope == "session"
    grant = setup.events("grant.given")[0].grant
    await setup.journal.append(GrantRevoked(run="run", grant=grant, by="me"))
    answer = await while_asking(setup.ask("c3"), lambda: again(setup, 2))
    assert not answer.approved


async def again(setup: ApprovalSetup, number: int) -> None:
    await until(lambda: len(setup.requests) == number)
    await setup.answered("ann", False)


async def test_clocks_of_the_house_are_used() -> None:
    clocks = Clocks()
    setup = ApprovalSetup(wait=True, clocks=clocks)
    await while_asking(setup.ask(), lambda: setup.answered("ann"))
    assert setup.requests[0].until == clocks.wall + timedelta(seconds=600)
