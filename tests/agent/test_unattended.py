"""Runs that nobody watches are found again after a crash."""

import pytest
from agent_setup import ByPosition, after_crash, call, calls, make_setup, says

from hermes.agent.conversation import Conversation
from hermes.agent.history import find_interrupted_runs
from hermes.core.events.runs import RunDeleted

pytestmark = pytest.mark.anyio

SCRIPT = [calls(call("change", what="a")), says("done")]


async def test_only_unattended_runs_with_an_open_turn_are_found() -> None:
    whole = make_setup(ByPosition(SCRIPT))
    watched = await Conversation.begin(whole.dependencies, run="watched")
    await watched.say("go")
    alone = await Conversation.begin(whole.dependencies, run="alone", unattended=True)
    assert await find_interrupted_runs(whole.journal) == []
    await alone.say("go")
    assert await find_interrupted_runs(whole.journal) == []
    events = whole.journal.events
    for cut in range(len(events)):
        journal = await after_crash(events[:cut])
        kinds = [e.kind for e in events[:cut] if e.run == "alone"]
        is_open = "turn.started" in kinds and "turn.ended" not in kinds
        assert await find_interrupted_runs(journal) == (["alone"] if is_open else [])


async def test_an_open_run_goes_on_by_itself_and_is_then_closed() -> None:
    whole = make_setup(ByPosition(SCRIPT))
    await (await Conversation.begin(whole.dependencies, run="r", unattended=True)).say("go")
    journal = await after_crash(whole.journal.events[:6])
    home = make_setup(ByPosition(SCRIPT), journal=journal)
    for run in await find_interrupted_runs(journal):
        assert (
            await (await Conversation.resume(home.dependencies, run)).finish_open_turn() == "done"
        )
    assert home.done == ["change a"]
    assert await find_interrupted_runs(journal) == []


async def test_a_deleted_run_is_left_alone() -> None:
    whole = make_setup(ByPosition(SCRIPT))
    await (await Conversation.begin(whole.dependencies, run="r", unattended=True)).say("go")
    journal = await after_crash([*whole.journal.events[:6], RunDeleted(run="r")])
    assert await find_interrupted_runs(journal) == []
