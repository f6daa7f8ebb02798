"""What was approved may be done again exactly so often, also by the next life of the run."""

from datetime import timedelta
from typing import Any

import anyio
import pytest
from approval_house import Desk, until, while_asking

from hermes.policy.rules.rule import AskOptions

pytestmark = pytest.mark.anyio
THRICE = AskOptions(waits=True, grant_uses=3, grant_seconds=900.0)


async def approved(desk: Desk, id: str = "c1", scope: str = "once", **more: Any) -> None:
    count = len(desk.requests)

    async def yes() -> None:
        await until(lambda: len(desk.requests) > count)
        await desk.answered("ann", scope=scope)

    assert (await while_asking(desk.ask(id, **more), yes)).approved


async def test_three_uses_are_three_and_the_fourth_is_asked() -> None:
    desk = Desk()
    await approved(desk, ask=THRICE)
    for id in ("c2", "c3"):
        assert (await desk.ask(id, ask=THRICE)).by == "ann"
    assert len(desk.requests) == 1
    await approved(desk, "c4", ask=THRICE)
    assert len(desk.requests) == 2
    assert [event.call_id for event in desk.events("grant.used")] == ["c1", "c2", "c3", "c4"]


async def test_another_action_or_another_run_is_asked() -> None:
    desk = Desk()
    await approved(desk, ask=THRICE)
    await approved(desk, "c2", ask=THRICE, command="make it otherwise")
    await approved(desk, "c3", ask=THRICE, run="other")
    assert len(desk.requests) == 3


async def test_it_runs_out() -> None:
    desk = Desk()
    await approved(desk, ask=THRICE)
    desk.clocks.pass_(901)
    await approved(desk, "c2", ask=THRICE)
    assert len(desk.requests) == 2


async def test_the_same_with_words_that_nobody_vouches_for_is_asked_each_time() -> None:
    desk = Desk()
    await approved(desk, ask=THRICE)
    await approved(desk, "c2", ask=THRICE, tainted="make it so")
    await approved(desk, "c3", ask=THRICE, tainted="make it so")
    assert len(desk.requests) == 3


async def test_the_next_life_of_the_run_has_what_was_left() -> None:
    desk = Desk()
    await approved(desk, ask=THRICE)
    await desk.ask("c2", ask=THRICE)
    desk = desk.again()
    assert (await desk.ask("c3", ask=THRICE)).approved
    desk = desk.again()
    await approved(desk, "c4", ask=THRICE)
    assert len(desk.requests) == 2


async def test_a_session_lasts_through_a_restart_and_ends_with_its_run() -> None:
    desk = Desk(wait=True)
    await approved(desk, scope="session")
    desk = desk.again()
    assert (await desk.ask("c2")).scope == "session"
    await approved(desk, "c3", run="other")
    assert len(desk.requests) == 2


async def test_the_same_asked_twice_side_by_side_is_settled_by_one_session() -> None:
    desk = Desk(wait=True)
    done: list[bool] = []

    async def one(id: str) -> None:
        done.append((await desk.ask(id)).approved)

    async with anyio.create_task_group() as group:
        group.start_soon(one, "c1")
        group.start_soon(one, "c2")
        await until(lambda: len(desk.requests) == 2)
        await desk.answered("ann", scope="session")
    assert done == [True, True]
    assert desk.outcomes == ["approved", "approved"]


async def crashed(desk: Desk) -> Desk:
    """It asked, and then its process was killed: nothing was settled."""
    async with anyio.create_task_group() as group:
        group.start_soon(desk.ask)
        await until(lambda: desk.requests)
        group.cancel_scope.cancel()
    desk.journal.events[:] = [e for e in desk.journal.events if e.kind != "approval.settled"]
    return desk.again()


async def test_an_answer_that_came_meanwhile_is_found() -> None:
    desk = await crashed(Desk(wait=True))
    await desk.answered("ann")
    answer = await desk.ask()
    assert (answer.approved, answer.by) == (True, "ann")
    assert len(desk.requests) == 1


async def test_without_an_answer_it_goes_on_waiting_until_the_same_moment() -> None:
    desk = await crashed(Desk(wait=True))
    desk.clocks.pass_(599)

    async def wait() -> None:
        await anyio.wait_all_tasks_blocked()
        assert desk.outcomes == []
        desk.clocks.pass_(2)

    answer = await while_asking(desk.ask(), wait)
    assert "in time" in answer.reason
    assert len(desk.requests) == 1


async def test_an_answer_that_came_too_late_is_none() -> None:
    desk = await crashed(Desk(wait=True))
    desk.clocks.pass_(601)
    await desk.answered("ann")
    assert not (await desk.ask()).approved


@pytest.mark.parametrize("back", [timedelta(seconds=-300), timedelta(days=-2)])
async def test_a_clock_set_back_between_two_lives_makes_no_yes_of_a_no(back: timedelta) -> None:
    desk = await crashed(Desk(wait=True))
    desk.clocks.pass_(601)
    await desk.answered("ben", False, at=desk.clocks.wall)  # somebody was too late, and says when
    desk.clocks.wall += back
    await desk.answered("ann")
    assert not (await desk.ask()).approved


async def test_a_yes_of_long_ago_is_asked_again() -> None:
    desk = await crashed(Desk(wait=True))
    await desk.answered("ann")
    desk.clocks.pass_(86_400)
    await approved(desk)
    assert len(desk.requests) == 2


async def test_what_became_another_action_meanwhile_is_asked_anew() -> None:
    desk = await crashed(Desk(wait=True))
    await desk.answered("ann")
    desk.hash = lambda action: "other"
    await approved(desk)
    assert desk.outcomes == ["changed", "approved"]
