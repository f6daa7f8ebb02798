"""Whoever may answer does, the first to settle wins, and nothing but a yes in time is a yes."""

from collections.abc import Sequence
from datetime import timedelta

import anyio
import pytest
from approval_house import Clocks, Desk, Sitter, until, while_asking

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
    desk = Desk()
    answer = await desk.ask()
    assert (answer.approved, answer.by) == (False, "nobody")
    assert desk.journal.events == []


@pytest.mark.parametrize("approved", [True, False])
async def test_another_process_answers_and_the_prompt_here_goes_away(approved: bool) -> None:
    sitter = Sitter()
    desk = Desk(sitter)

    async def elsewhere() -> None:
        await until(lambda: sitter.seen)
        await desk.answered("ann", approved, via="cli")

    answer = await while_asking(desk.ask(), elsewhere)
    assert (answer.approved, answer.by) == (approved, "ann")
    assert sitter.gone == 1
    settled = desk.events("approval.settled")[0]
    assert (settled.by, settled.via) == (("ann",), "cli")


async def test_what_is_said_here_is_an_answer_like_any_other() -> None:
    sitter = Sitter()
    desk = Desk(sitter)

    async def here() -> None:
        await until(lambda: sitter.seen)
        sitter.say(True)

    answer = await while_asking(desk.ask(), here)
    assert (answer.approved, answer.by) == (True, "me")
    assert [event.via for event in desk.events("approval.answered")] == ["terminal"]


async def test_an_answer_after_the_first_changes_nothing() -> None:
    desk = Desk(wait=True)

    async def both() -> None:
        await desk.answered("ann", False, note="not now")
        await desk.answered("ben", True)

    answer = await while_asking(desk.ask(), both)
    assert not answer.approved
    assert answer.reason == "ann said no: not now"


async def test_two_people_are_needed_and_the_same_one_twice_is_one() -> None:
    desk = Desk(groups=GROUPS)

    async def people() -> None:
        await desk.answered("ann")
        await desk.answered("ann")
        await desk.answered("me")
        await desk.answered("mallory")
        await anyio.wait_all_tasks_blocked()
        assert desk.outcomes == []
        await desk.answered("ben")

    answer = await while_asking(desk.ask(ask=TWO), people)
    assert (answer.approved, answer.by) == (True, "ann, ben")
    assert desk.requests[0].approvers == ("me", "ann", "ben", "cleo")
    assert desk.requests[0].barred == ("me",)


async def test_whoever_started_it_cannot_approve_it_at_the_terminal_either() -> None:
    sitter = Sitter("me")
    sitter.say(True)
    desk = Desk(sitter, groups=GROUPS)

    async def people() -> None:
        await until(lambda: sitter.gone)
        assert desk.events("approval.answered") == []
        await desk.answered("ann")
        await desk.answered("ben")

    assert (await while_asking(desk.ask(ask=TWO), people)).by == "ann, ben"


async def test_whoever_started_it_may_take_it_back() -> None:
    desk = Desk(groups=GROUPS)
    answer = await while_asking(desk.ask(ask=TWO), lambda: desk.answered("me", False))
    assert (answer.approved, answer.by) == (False, "me")


async def test_a_plain_question_is_for_whoever_sits_there() -> None:
    desk = Desk(wait=True)
    assert (await while_asking(desk.ask(), lambda: desk.answered("me"))).approved


async def test_no_answer_in_time_is_a_no() -> None:
    desk = Desk()

    async def wait() -> None:
        await until(lambda: desk.requests)
        desk.clocks.pass_(601)

    answer = await while_asking(desk.ask(ask=PATIENT), wait)
    assert (answer.approved, answer.by) == (False, "nobody")
    assert "in time" in answer.reason
    assert desk.outcomes == ["expired"]


async def test_one_of_two_in_time_is_a_no() -> None:
    desk = Desk(groups=GROUPS)

    async def one() -> None:
        await desk.answered("ann")
        await until(lambda: desk.events("approval.answered"))
        await anyio.wait_all_tasks_blocked()
        desk.clocks.pass_(601)

    answer = await while_asking(desk.ask(ask=TWO), one)
    assert answer.reason == "only 1 of 2 people approved it in time"


@pytest.mark.parametrize("jump", [timedelta(hours=-5), timedelta(0)])
async def test_setting_the_time_back_gives_nobody_more_time(jump: timedelta) -> None:
    desk = Desk()

    async def late() -> None:
        await until(lambda: desk.requests)
        desk.clocks.wall += jump
        desk.clocks.ticks += 601
        await desk.answered("ann")

    assert not (await while_asking(desk.ask(ask=PATIENT), late)).approved


async def test_setting_the_time_forth_is_a_no_too() -> None:
    desk = Desk()

    async def jump() -> None:
        await until(lambda: desk.requests)
        desk.clocks.wall += timedelta(days=1)
        await desk.answered("ann")

    assert not (await while_asking(desk.ask(ask=PATIENT), jump)).approved


async def test_after_a_while_others_may_answer_as_well() -> None:
    ask = AskOptions(waits=True, approvers=("oncall",), escalate=(EscalationStep(180.0, "leads"),))
    desk = Desk(groups={"oncall": ("ann",), "leads": ("lea", "leo")})

    async def escalate() -> None:
        await desk.answered("lea")
        desk.clocks.pass_(181)
        await until(lambda: desk.events("approval.escalated"))
        await desk.answered("leo")

    answer = await while_asking(desk.ask(ask=ask), escalate)
    assert (answer.approved, answer.by) == (True, "leo")
    assert desk.events("approval.escalated")[0].to == ("lea", "leo")


async def test_a_yes_to_something_that_has_changed_is_no_yes() -> None:
    desk = Desk(wait=True)

    async def swap() -> None:
        await until(lambda: desk.requests)
        desk.hash = lambda action: "other"
        await desk.answered("ann", scope="session")

    answer = await while_asking(desk.ask(), swap)
    assert not answer.approved
    assert "changed since it was approved" in answer.reason
    assert desk.outcomes == ["changed"]
    assert desk.events("grant.given") == []


async def test_a_question_whose_turn_is_interrupted_is_withdrawn() -> None:
    desk = Desk(wait=True)
    async with anyio.create_task_group() as turn:
        turn.start_soon(desk.ask)
        await until(lambda: desk.requests)
        await anyio.wait_all_tasks_blocked()
        turn.cancel_scope.cancel()
    assert desk.outcomes == ["withdrawn"]


class Filling(InMemoryJournal):
    async def append(self, *events: Event) -> Sequence[int]:
        if any(isinstance(event, ApprovalSettled) for event in events):
            raise StoreFull("no space left")
        return await super().append(*events)


async def test_a_full_disk_is_told_as_such() -> None:
    desk = Desk(wait=True, journal=Filling())
    with pytest.raises(StoreFull):
        await while_asking_bare(desk)


async def while_asking_bare(desk: Desk) -> None:
    failed: list[StoreFull] = []

    async def one() -> None:
        try:
            await desk.ask()
        except StoreFull as error:
            failed.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        await desk.answered("ann")
    raise failed[0]


async def test_always_is_kept_for_what_can_be_taken_back_only() -> None:
    desk = Desk(wait=True)
    first = await while_asking(
        desk.ask(effects=("write",)), lambda: desk.answered("ann", scope="always")
    )
    assert (first.scope, desk.kept) == ("always", ["h-{'command': 'make it so'} by ann"])
    for refused in ({"effects": ("delete", "irreversible")}, {"tainted": "rm -rf /srv"}):
        other = Desk(wait=True)

        async def always(desk: Desk = other) -> None:
            await desk.answered("ann", scope="always")

        answer = await while_asking(other.ask(**refused), always)
        assert (answer.approved, answer.scope, other.kept) == (True, "once", [])


async def test_an_announced_action_goes_on_when_nobody_objects() -> None:
    sitter = Sitter()
    desk = Desk(sitter)

    async def wait() -> None:
        await until(lambda: sitter.seen)
        desk.clocks.wall += timedelta(days=1)  # the time of day does not hurry it
        await anyio.wait_all_tasks_blocked()
        assert desk.outcomes == []
        desk.clocks.ticks += 31

    answer = await while_asking(desk.ask(ask=AskOptions(announce=30.0)), wait)
    assert (answer.approved, answer.by) == (True, "nobody objected")
    assert sitter.seen[0][1] == 30.0
    assert sitter.gone == 1
    announced = desk.events("action.announced")[0]
    assert (announced.seconds, announced.shown) == (30.0, "make it so")


async def test_an_announced_action_is_stopped_from_anywhere() -> None:
    desk = Desk(wait=True)

    async def stop() -> None:
        await until(lambda: desk.events("action.announced"))
        announced = desk.events("action.announced")[0]
        await desk.bus.publish(
            ActionStopped(run="run", call_id="c1", by="ben", approval=announced.approval)
        )

    answer = await while_asking(desk.ask(ask=AskOptions(announce=30.0)), stop)
    assert (answer.approved, answer.reason) == (False, "ben said no")


async def test_an_announcement_that_nobody_hears_is_a_question() -> None:
    desk = Desk()
    assert not (await desk.ask(ask=AskOptions(announce=0.001))).approved
    assert desk.journal.events == []

    async def yes(action: object, decision: object) -> Approval:
        return Approval(approved=True, by="code")

    asked = Desk(yes)
    assert (await asked.ask(ask=AskOptions(announce=30.0))).by == "code"
    assert asked.events("action.announced") == []


async def test_an_approver_that_knows_nobody_leaves_it_to_the_others() -> None:
    async def nobody(action: object, decision: object) -> Approval:
        return Approval(approved=False, by="nobody")

    assert (await Desk(nobody).ask()).by == "nobody"
    desk = Desk(nobody)
    answer = await while_asking(desk.ask(ask=PATIENT), lambda: desk.answered("ann"))
    assert answer.approved


async def test_a_revoked_leave_is_gone_at_once() -> None:
    desk = Desk(wait=True)
    await while_asking(desk.ask(), lambda: desk.answered("ann", scope="session"))
    assert (await desk.ask("c2")).scope == "session"
    grant = desk.events("grant.given")[0].grant
    await desk.journal.append(GrantRevoked(run="run", grant=grant, by="me"))
    answer = await while_asking(desk.ask("c3"), lambda: again(desk, 2))
    assert not answer.approved


async def again(desk: Desk, number: int) -> None:
    await until(lambda: len(desk.requests) == number)
    await desk.answered("ann", False)


async def test_clocks_of_the_house_are_used() -> None:
    clocks = Clocks()
    desk = Desk(wait=True, clocks=clocks)
    await while_asking(desk.ask(), lambda: desk.answered("ann"))
    assert desk.requests[0].until == clocks.wall + timedelta(seconds=600)
