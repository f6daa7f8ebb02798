"""What was approved may be done again exactly so often, also by the next life of the run."""

from datetime import timedelta
from typing import Any

import anyio
import pytest
from approval_setup import ApprovalSetup, until, while_asking

from hermes.core.events import Event
from hermes.core.events.runs import TurnEnded
from hermes.core.events.tools import ToolStarted
from hermes.core.messages import Risk
from hermes.policy.rules.rule import AskOptions

pytestmark = pytest.mark.anyio
THRICE = AskOptions(waits=True, grant_uses=3, grant_seconds=900.0)


async def approved(setup: ApprovalSetup, id: str = "c1", scope: str = "once", **more: Any) -> None:
    count = len(setup.requests)

    async def yes() -> None:
        await until(lambda: len(setup.requests) > count)
        await setup.answered("ann", scope=scope)

    assert (await while_asking(setup.ask(id, **more), yes)).approved


async def test_three_uses_are_three_and_the_fourth_is_asked() -> None:
    setup = ApprovalSetup()
    await approved(setup, ask=THRICE)
    for id in ("c2", "c3"):
        assert (await setup.ask(id, ask=THRICE)).by == "ann"
    assert len(setup.requests) == 1
    await approved(setup, "c4", ask=THRICE)
    assert len(setup.requests) == 2
    assert [event.call_id for event in setup.events("grant.used")] == ["c1", "c2", "c3", "c4"]


async def test_another_action_or_another_run_is_asked() -> None:
    setup = ApprovalSetup()
    await approved(setup, ask=THRICE)
    await approved(setup, "c2", ask=THRICE, command="make it otherwise")
    await approved(setup, "c3", ask=THRICE, run="other")
    assert len(setup.requests) == 3


async def test_it_runs_out() -> None:
    setup = ApprovalSetup()
    await approved(setup, ask=THRICE)
    setup.clocks.pass_(901)
    await approved(setup, "c2", ask=THRICE)
    assert len(setup.requests) == 2


async def test_the_same_with_words_that_nobody_vouches_for_is_asked_each_time() -> None:
    setup = ApprovalSetup()
    await approved(setup, ask=THRICE)
    await approved(setup, "c2", ask=THRICE, tainted="make it so")
    await approved(setup, "c3", ask=THRICE, tainted="make it so")
    assert len(setup.requests) == 3


async def test_the_next_life_of_the_run_has_what_was_left() -> None:
    setup = ApprovalSetup()
    await approved(setup, ask=THRICE)
    await setup.ask("c2", ask=THRICE)
    setup = setup.again()
    assert (await setup.ask("c3", ask=THRICE)).approved
    setup = setup.again()
    await approved(setup, "c4", ask=THRICE)
    assert len(setup.requests) == 2


async def test_a_session_lasts_through_a_restart_and_ends_with_its_run() -> None:
    setup = ApprovalSetup(wait=True)
    await approved(setup, scope="session")
    setup = setup.again()
    assert (await setup.ask("c2")).scope == "session"
    await approved(setup, "c3", run="other")
    assert len(setup.requests) == 2


async def test_the_same_asked_twice_side_by_side_is_settled_by_one_session() -> None:
    setup = ApprovalSetup(wait=True)
    done: list[bool] = []

    async def one(id: str) -> None:
        done.append((await setup.ask(id)).approved)

    async with anyio.create_task_group() as group:
        group.start_soon(one, "c1")
        group.start_soon(one, "c2")
        await until(lambda: len(setup.requests) == 2)
        await setup.answered("ann", scope="session")
    assert done == [True, True]
    assert setup.outcomes == ["approved", "approved"]


async def crashed(setup: ApprovalSetup) -> ApprovalSetup:
    """It asked, and then its process was killed: nothing was settled."""
    async with anyio.create_task_group() as group:
        group.start_soon(setup.ask)
        await until(lambda: setup.requests)
        group.cancel_scope.cancel()
    setup.journal.events[:] = [e for e in setup.journal.events if e.kind != "approval.settled"]
    return setup.again()


async def test_an_answer_that_came_meanwhile_is_found() -> None:
    setup = await crashed(ApprovalSetup(wait=True))
    await setup.answered("ann")
    answer = await setup.ask()
    assert (answer.approved, answer.by) == (True, "ann")
    assert len(setup.requests) == 1


async def test_without_an_answer_it_goes_on_waiting_until_the_same_moment() -> None:
    setup = await crashed(ApprovalSetup(wait=True))
    setup.clocks.pass_(599)

    async def wait() -> None:
        await anyio.wait_all_tasks_blocked()
        assert setup.outcomes == []
        setup.clocks.pass_(2)

    answer = await while_asking(setup.ask(), wait)
    assert "in time" in answer.reason
    assert len(setup.requests) == 1


async def test_an_answer_that_came_too_late_is_none() -> None:
    setup = await crashed(ApprovalSetup(wait=True))
    setup.clocks.pass_(601)
    await setup.answered("ann")
    assert not (await setup.ask()).approved


@pytest.mark.parametrize("back", [timedelta(seconds=-300), timedelta(days=-2)])
async def test_a_clock_set_back_between_two_lives_makes_no_yes_of_a_no(back: timedelta) -> None:
    setup = await crashed(ApprovalSetup(wait=True))
    setup.clocks.pass_(601)
    await setup.answered("ben", False, at=setup.clocks.wall)  # somebody was too late, and says when
    setup.clocks.wall += back
    await setup.answered("ann")
    assert not (await setup.ask()).approved


async def test_a_yes_of_long_ago_is_asked_again() -> None:
    setup = await crashed(ApprovalSetup(wait=True))
    await setup.answered("ann")
    setup.clocks.pass_(86_400)
    await approved(setup)
    assert len(setup.requests) == 2


async def test_an_approval_whose_call_was_not_started_before_a_crash_counts_once() -> None:
    setup = ApprovalSetup(wait=True)
    await approved(setup)
    setup = setup.again()
    answer = await setup.ask()
    assert (answer.approved, answer.by) == (True, "ann")
    assert len(setup.requests) == 1
    await approved(setup)
    assert len(setup.requests) == 2


@pytest.mark.parametrize(
    "event",
    [
        ToolStarted(run="run", call_id="c1", risk=Risk.CHANGE),
        TurnEnded(run="run", turn=1, outcome="interrupted"),
    ],
    ids=["started", "turn ended"],
)
async def test_an_approval_that_was_used_before_a_crash_does_not_count_again(event: Event) -> None:
    setup = ApprovalSetup(wait=True)
    await approved(setup)
    await setup.bus.publish(event)
    setup = setup.again()
    await approved(setup)
    assert len(setup.requests) == 2


@pytest.mark.parametrize("changed", ["hash", "words", "late"])
async def test_an_approval_before_a_crash_is_for_exactly_that_action(changed: str) -> None:
    setup = ApprovalSetup(wait=True)
    await approved(setup)
    setup = setup.again()
    if changed == "hash":
        setup.hash = lambda action: "other"
    if changed == "late":
        setup.clocks.pass_(86_400)
    await approved(setup, tainted="make it so" if changed == "words" else "")
    assert len(setup.requests) == 2


async def test_what_became_another_action_meanwhile_is_asked_anew() -> None:
    setup = await crashed(ApprovalSetup(wait=True))
    await setup.answered("ann")
    setup.hash = lambda action: "other"
    await approved(setup)
    assert setup.outcomes == ["changed", "approved"]
