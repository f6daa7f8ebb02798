"""Subagents side by side: queued, cut off, dying, resumed, and none takes another with it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from agent_setup import AgentSetup, after_crash, call, calls, check_valid, make_setup, says

from hermes.agent.conversation import Conversation
from hermes.agent.settings import AgentSettings, LimitSettings
from hermes.core.errors import BudgetExceeded, ProviderOverloaded
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.tools import ToolStarted
from hermes.core.messages import Completion, Message, Risk, ToolCall, ToolSpec, Usage
from hermes.core.protocols import ToolContext
from hermes.tools.declare import tool

pytestmark = pytest.mark.anyio


class Crew:
    """One model for parent and subagents: the first user text says who is asking."""

    name, window = "crew", 200_000

    def __init__(self, parent: Sequence[Message], worker: Callable[[str, int], Message]) -> None:
        self.parent, self.worker = parent, worker
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        await anyio.lowlevel.checkpoint()
        goal = next(m.text for m in messages if m.role == "user")
        position = sum(m.role == "assistant" for m in messages)
        self.seen.append((goal, tuple(spec.name for spec in tools)))
        reply = self.parent[position] if goal == "boss" else self.worker(goal, position)
        return Completion(message=reply, model=self.name, usage=Usage(10, 5))


def delegate(*tasks: dict[str, Any], id: str = "d1") -> ToolCall:
    return ToolCall(id, "delegate", {"tasks": list(tasks)})


def looks(times: int) -> Callable[[str, int], Message]:
    def reply(goal: str, position: int) -> Message:
        if position < times:
            return calls(call("look", id=f"{goal}-{position}", what=f"{goal}-{position}"))
        return says(f"{goal} found")

    return reply


def reports(talk: Conversation) -> list[dict[str, Any]]:
    text = next(m.result.content for m in talk.messages if m.result)
    return list(json.loads(text))


async def boss(home: AgentSetup, **more: Any) -> Conversation:
    talk = await Conversation.begin(replace(home.dependencies, **more), run="r")
    with anyio.fail_after(120):
        await talk.say("boss")
    return talk


async def test_eight_subagents_make_five_calls_each_and_all_report() -> None:
    tasks = [{"goal": f"g{n}"} for n in range(8)]
    model = Crew([calls(delegate(*tasks)), says("all in")], looks(5))
    home = make_setup(model)
    talk = await boss(home)
    found = reports(talk)
    assert [r["answer"] for r in found] == [f"g{n} found" for n in range(8)]
    assert {r["status"] for r in found} == {"answered"}
    assert [r["run"] for r in found] == [f"r/sub-{n}" for n in range(1, 9)]
    assert {r["tokens"] for r in found} == {6 * 15}
    assert len(home.done) == 40
    for report in found:
        sub = await Conversation.resume(home.dependencies, report["run"])
        check_valid(sub.messages)
        begun = [e for e in home.events("run.started") if e.run == report["run"]]
        assert [(e.parent, e.origin) for e in begun] == [("r", "subagent")]


async def test_they_really_work_at_the_same_time() -> None:
    def meets(goal: str, position: int) -> Message:
        return says("met") if position else calls(call("meet", id=goal, others=8))

    tasks = [{"goal": f"g{n}"} for n in range(8)]
    home = make_setup(Crew([calls(delegate(*tasks)), says("ok")], meets))
    await boss(home)
    assert home.most == 8


async def test_more_than_the_limit_queue_up() -> None:
    at_work = [0, 0]

    @tool(risk=Risk.READ)
    async def work(context: ToolContext) -> str:
        """Work for a moment."""
        at_work[0] += 1
        at_work[1] = max(at_work)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        at_work[0] -= 1
        return "worked"

    def works(goal: str, position: int) -> Message:
        return says("ok") if position else calls(call("work", id=goal))

    tasks = [{"goal": f"g{n}"} for n in range(9)]
    home = make_setup(
        Crew([calls(delegate(*tasks)), says("ok")], works),
        more_tools=[work],
        settings=AgentSettings(max_subagents=3),
    )
    talk = await boss(home)
    assert len(reports(talk)) == 9
    assert at_work[1] == 3


async def test_a_hung_one_is_cut_off_and_what_it_had_found_is_kept() -> None:
    def worker(goal: str, position: int) -> Message:
        if goal == "fine":
            return says("fine indeed")
        if position == 0:
            return calls(call("look", id="l", what="disk"), text="The disk is at 97 percent.")
        return calls(call("hang", id="h"))

    tasks: list[dict[str, Any]] = [{"goal": "stuck", "timeout": 1.0}, {"goal": "fine"}]
    home = make_setup(Crew([calls(delegate(*tasks)), says("ok")], worker))
    talk = await boss(home)
    stuck, fine = reports(talk)
    assert stuck["status"] == "timed out"
    assert "The disk is at 97 percent." in stuck["answer"]
    assert "saw disk" in stuck["answer"]
    assert stuck["tokens"] == 30
    assert (fine["status"], fine["answer"]) == ("answered", "fine indeed")
    sub = await Conversation.resume(home.dependencies, stuck["run"])
    assert sub.ended is not None
    assert sub.ended.outcome == "interrupted"
    check_valid(sub.messages)


async def test_one_that_dies_does_not_take_the_others_along() -> None:
    def worker(goal: str, position: int) -> Message:
        if goal == "bug":
            raise ZeroDivisionError("oops")
        if goal == "overload" and position:
            raise ProviderOverloaded("try later")
        return looks(1)(goal, position)

    tasks = [{"goal": goal} for goal in ("bug", "overload", "fine")]
    home = make_setup(Crew([calls(delegate(*tasks)), says("ok")], worker))
    bug, overload, fine = reports(await boss(home))
    assert bug["status"] == overload["status"] == "failed"
    assert "ZeroDivisionError" in bug["answer"]
    assert "try later" in overload["answer"]
    assert "saw overload-0" in overload["answer"]
    assert fine["answer"] == "fine found"


async def test_each_has_its_own_tools_and_none_delegates_further() -> None:
    tasks: list[dict[str, Any]] = [{"goal": "narrow", "tools": ["look"]}, {"goal": "wide"}]
    model = Crew([calls(delegate(*tasks)), says("ok")], looks(0))
    await boss(make_setup(model))
    tools = dict(model.seen)
    assert tools["narrow"] == ("look",)
    assert "change" in tools["wide"]
    assert "delegate" not in tools["wide"]
    assert "delegate" in tools["boss"]


async def test_deeper_delegation_is_a_setting() -> None:
    def worker(goal: str, position: int) -> Message:
        if goal == "middle" and position == 0:
            return calls(delegate({"goal": "leaf"}))
        return says(f"{goal} found")

    model = Crew([calls(delegate({"goal": "middle"})), says("ok")], worker)
    home = make_setup(model, settings=AgentSettings(max_depth=2))
    await boss(home)
    assert [e.run for e in home.events("run.started")] == ["r", "r/sub-1", "r/sub-1/sub-1"]
    assert "delegate" not in dict(model.seen)["leaf"]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"goal": "g", "tools": ["nope"]}, "no tool named nope; there are:"),
        ({"goal": "g", "model": "other"}, "no other model can be opened here"),
        ({"aim": "g"}, "aim"),
        ({}, "goal"),
        ({"goal": "g", "toolset": "web"}, "toolset"),
    ],
)
async def test_a_task_that_cannot_be_done_is_answered_before_anyone_starts(
    task: dict[str, Any], words: str
) -> None:
    home = make_setup(Crew([calls(delegate(task)), says("ok")], looks(0)))
    talk = await boss(home)
    result = next(m.result for m in talk.messages if m.result)
    assert result.status == "error"
    assert words in result.content
    assert len(home.events("run.started")) == 1


async def test_another_model_and_fewer_steps_can_be_asked_for() -> None:
    other = Crew([], looks(50))
    other.name = "other"
    task = {"goal": "g", "model": "other", "max_iterations": 3}
    home = make_setup(Crew([calls(delegate(task)), says("ok")], looks(0)))
    talk = await boss(home, open_model=lambda name: {"other": other}[name])
    [report] = reports(talk)
    assert report["status"] == "exhausted"
    assert len(other.seen) == 4


async def test_subagents_count_against_the_limit_of_the_run() -> None:
    tasks = [{"goal": f"g{n}"} for n in range(4)]
    limits = AgentSettings(limits=LimitSettings(run_tokens=100), output_reserve=5)
    model = Crew([calls(delegate(*tasks)), says("ok")], looks(20))
    home = make_setup(model, settings=limits)
    talk = await Conversation.begin(
        replace(home.dependencies, estimate=lambda messages, tools: 10 if tools else 0), run="r"
    )
    with pytest.raises(BudgetExceeded), anyio.fail_after(120):
        await talk.say("boss")  # what the subagents spent is missing in the end
    spent = sum(e.usage.tokens for e in home.journal.events if isinstance(e, ModelAnswered))
    assert 60 < spent <= 100
    assert all(r["status"] == "failed" and "run_tokens" in r["answer"] for r in reports(talk))


async def test_one_subagent_has_a_budget_of_its_own() -> None:
    tasks: list[dict[str, Any]] = [{"goal": "poor", "max_tokens": 40}, {"goal": "rich"}]
    home = make_setup(
        Crew([calls(delegate(*tasks)), says("ok")], looks(5)),
        settings=AgentSettings(output_reserve=5),
    )
    talk = await Conversation.begin(
        replace(home.dependencies, estimate=lambda messages, tools: 10 if tools else 0), run="r"
    )
    await talk.say("boss")
    poor, rich = reports(talk)
    assert poor["status"] == "failed"
    assert "this subagent" in poor["answer"]
    assert poor["tokens"] <= 40
    assert rich["status"] == "answered"


async def test_interrupting_the_parent_ends_all_subagents_cleanly() -> None:
    def hangs(goal: str, position: int) -> Message:
        return calls(call("hang", id=goal))

    tasks = [{"goal": "a"}, {"goal": "b"}]
    home = make_setup(Crew([calls(delegate(*tasks))], hangs))
    talk = await Conversation.begin(home.dependencies, run="r")
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(talk.say, "boss")
            while len(home.done) < 2:
                await anyio.lowlevel.checkpoint()
            talk.interrupt()
    ends = [(e.run, e.outcome) for e in home.events("turn.ended")]
    assert {run for run, _ in ends} == {"r", "r/sub-1", "r/sub-2"}
    assert {outcome for _, outcome in ends} == {"interrupted"}
    check_valid(talk.messages)


def changes(goal: str, position: int) -> Message:
    if position < 2:
        return calls(call("change", id=f"{goal}-{position}", what=f"{goal}-{position}"))
    return says(f"{goal} changed")


async def test_after_a_crash_anywhere_the_same_subagents_go_on_and_change_nothing_twice() -> None:
    tasks = [{"goal": "a"}, {"goal": "b"}]
    parent = [calls(delegate(*tasks)), says("all in")]
    whole = make_setup(Crew(parent, changes))
    await boss(whole)
    for cut in range(4, len(whole.journal.events)):
        past = whole.journal.events[:cut]
        home = make_setup(Crew(parent, changes), journal=await after_crash(past))
        talk = await Conversation.resume(home.dependencies, "r")
        with anyio.fail_after(120):
            await talk.finish_open_turn()
        check_valid(talk.messages)
        started = [
            (e.run, e.call_id)
            for e in home.journal.events
            if isinstance(e, ToolStarted) and e.risk is Risk.CHANGE
        ]
        assert len(started) == len(set(started)) == 4
        asked = [e.run for e in home.events("message.added") if e.message.role == "user"]
        assert len(asked) == len(set(asked)) == 3
        if any(m.result for m in talk.messages):
            assert [r["answer"] for r in reports(talk)] == ["a changed", "b changed"]


async def test_long_answers_are_shortened_so_that_each_report_stays_readable() -> None:
    tasks = [{"goal": f"g{n}"} for n in range(6)]
    home = make_setup(
        Crew([calls(delegate(*tasks)), says("ok")], lambda goal, _: says(goal + "x" * 20_000))
    )
    found = reports(await boss(home))
    assert [r["answer"][:2] for r in found] == [f"g{n}" for n in range(6)]
    assert all("characters left out" in r["answer"] for r in found)
