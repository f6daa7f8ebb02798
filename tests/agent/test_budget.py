"""Limits of tokens and money stand before the call: no call is made that would pass them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from agent_setup import AgentSetup, call, calls, costs, make_setup, says

from hermes.agent.budget import SpendingBudget
from hermes.agent.conversation import Conversation
from hermes.agent.dependencies import AgentDependencies
from hermes.agent.settings import AgentSettings, LimitSettings
from hermes.core.errors import BudgetExceeded
from hermes.core.events.runs import ModelAnswered
from hermes.core.messages import Usage
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.models.scripted import ScriptedModel

pytestmark = pytest.mark.anyio


def limited(replies: list, **limits: float) -> AgentSetup:  # type: ignore[type-arg]
    chosen = AgentSettings(limits=LimitSettings(**limits), output_reserve=100)  # type: ignore[arg-type]
    return make_setup(ScriptedModel(replies), settings=chosen)


def counting(dependencies: AgentDependencies, tokens: int = 100) -> AgentDependencies:
    """Every call is estimated at this many tokens sent."""
    return replace(dependencies, estimate=lambda messages, tools: tokens if tools else 0)


def seen(home: AgentSetup) -> int:
    return len(home.model.seen)  # type: ignore[attr-defined]


async def test_a_run_stops_before_the_call_that_would_pass_its_tokens() -> None:
    steps = [costs(calls(call("look", what=str(n))), 400) for n in range(5)]
    home = limited(steps, run_tokens=1000)
    talk = await Conversation.begin(counting(home.dependencies))
    with pytest.raises(BudgetExceeded) as caught:
        await talk.say("go")
    assert seen(home) == 2  # 800 spent; a third may need 200 sent and 100 received
    assert talk.usage.tokens == 800
    for words in ("1,000 tokens", "this run", "800 are spent", "agent.limits.run_tokens"):
        assert words in str(caught.value)
    assert talk.ended is not None
    assert talk.ended.outcome == "failed"


async def test_no_call_at_all_is_made_when_the_first_would_pass_the_limit() -> None:
    home = limited([says("never")], run_tokens=150)
    talk = await Conversation.begin(counting(home.dependencies))
    with pytest.raises(BudgetExceeded):
        await talk.say("go")
    assert seen(home) == 0


async def test_money_is_counted_with_the_price_of_the_answer() -> None:
    home = limited([costs(says("1"), 10, usd=0.6), costs(says("2"), 10, usd=0.6)], run_usd=1.0)
    dependencies = replace(home.dependencies, price=lambda model, usage: usage.tokens * 0.005)
    talk = await Conversation.begin(counting(dependencies))
    assert await talk.say("one") == "1"
    with pytest.raises(
        BudgetExceeded, match=r"\$1\.00 .* \$0\.6000 is spent.*agent\.limits\.run_usd"
    ):
        await talk.say("two")
    assert seen(home) == 1


async def test_an_unknown_price_is_said_once_and_tokens_still_hold() -> None:
    home = limited([costs(says(str(n)), 400) for n in range(9)], run_usd=1.0, run_tokens=1000)
    talk = await Conversation.begin(counting(home.dependencies))
    await talk.say("one")
    assert talk.ended is not None
    assert "no price is known for scripted" in talk.ended.reason
    await talk.say("two")
    assert talk.ended.reason == ""
    with pytest.raises(BudgetExceeded, match="run_tokens"):
        await talk.say("three")
    assert len(talk.notes) == 1


async def test_a_day_is_counted_over_all_runs_and_ends_at_midnight() -> None:
    journal = InMemoryJournal()
    now = datetime(2030, 5, 1, 23, 0, tzinfo=UTC)
    yesterday, today = now - timedelta(days=1), now - timedelta(hours=1)
    await journal.append(
        ModelAnswered(run="other", at=yesterday, model="m", usage=Usage(900, 0)),
        ModelAnswered(run="other", at=today, model="m", usage=Usage(500, 0)),
    )
    clock = [now]
    ledger = SpendingBudget(journal, LimitSettings(day_tokens=1000), now=lambda: clock[0])
    async with ledger.reserve("mine", Usage(400, 100), 0.0):
        pass
    with pytest.raises(BudgetExceeded, match=r"today \(UTC\).*500 are spent.*day_tokens"):
        async with ledger.reserve("mine", Usage(401, 100), 0.0):
            pass
    await journal.append(ModelAnswered(run="third", at=now, model="m", usage=Usage(400, 0)))
    with pytest.raises(BudgetExceeded, match="900 are spent"):
        async with ledger.reserve("mine", Usage(101, 0), 0.0):
            pass
    clock[0] = now + timedelta(hours=2)
    async with ledger.reserve("mine", Usage(900, 100), 0.0):
        pass


async def test_a_resumed_run_remembers_what_it_spent() -> None:
    home = limited([costs(says("1"), 850), says("never")], run_tokens=1000)
    talk = await Conversation.begin(counting(home.dependencies))
    await talk.say("one")
    again = await Conversation.resume(counting(home.dependencies), talk.run)
    with pytest.raises(BudgetExceeded, match="850 are spent"):
        await again.say("two")
    assert seen(home) == 1


async def test_calls_side_by_side_cannot_spend_the_same_tokens() -> None:
    journal = InMemoryJournal()
    ledger = SpendingBudget(journal, LimitSettings(run_tokens=1000))
    passed, refused = [], []

    async def spend(number: int) -> None:
        try:
            async with ledger.reserve(f"r/sub-{number}", Usage(300, 0), 0.0):
                await anyio.sleep(0.001)
                await journal.append(
                    ModelAnswered(run=f"r/sub-{number}", model="m", usage=Usage(300, 0))
                )
            passed.append(number)
        except BudgetExceeded:
            refused.append(number)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(spend, number)
    assert (len(passed), len(refused)) == (3, 5)


async def test_without_limits_the_journal_is_not_even_read() -> None:
    class Unread(InMemoryJournal):
        def read(self, **_):  # type: ignore[no-untyped-def]
            raise AssertionError

    async with SpendingBudget(Unread(), LimitSettings()).reserve("r", Usage(10**9, 0), None):
        pass
