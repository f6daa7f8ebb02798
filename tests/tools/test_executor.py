"""The one road: nothing reaches the world undecided, and everything is written down in order."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import anyio
import pytest
from tool_setup import Person, ToolSetup, local

from hermes.core.actions import Action, Decision
from hermes.core.errors import EnvironmentFailed, StoreError, StoreFull, ToolError
from hermes.core.events import Event
from hermes.core.events.tools import (
    ToolApproved,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import Risk, ToolCall, ToolResult
from hermes.core.protocols import Environment, ToolContext
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.tools.declare import tool
from hermes.tools.executor import MAX_PREVIEW_CHARS

pytestmark = pytest.mark.anyio

USUAL = ["tool.requested", "tool.decided", "tool.started", "tool.finished"]


@tool(risk=Risk.READ)
async def say(context: ToolContext, text: str = "hello", times: int = 1) -> str:
    """Say something."""
    return text * times


@tool(risk=Risk.CHANGE)
async def change(context: ToolContext) -> str:
    """Change the world."""
    return "changed"


@tool(risk=Risk.READ)
async def stumble(context: ToolContext, how: str) -> str:
    """Fail in some way."""
    raise {
        "tool": ToolError("no such thing"),
        "place": EnvironmentFailed("the host is gone"),
        "bug": KeyError("oops"),
        "store": StoreFull("no space left"),
        "long": ToolError("x" * (MAX_PREVIEW_CHARS + 1)),
        "grouped store": ExceptionGroup("g", [ValueError(), ExceptionGroup("h", [StoreFull("f")])]),
        "grouped tool": ExceptionGroup("g", [ToolError("inside a task")]),
    }[how]


@tool(risk=Risk.READ)
async def relay(context: ToolContext, name: str, depth: int = 0) -> str:
    """Call another tool."""
    arguments = {"name": name, "depth": depth - 1} if depth else {}
    target = "relay" if depth else name
    result = await context.call(ToolCall(f"inner-{depth}", target, arguments))
    return f"{result.status}: {result.content}"


TOOLS = {each.spec.name: each for each in (say, change, stumble, relay)}


class Always:
    def __init__(self, verdict: str) -> None:
        self.verdict = verdict

    def decide(self, action: Action) -> Decision:
        return Decision(verdict=self.verdict, rule="always")  # type: ignore[arg-type]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncGenerator[Environment, None]:
    async with local(tmp_path) as environment:
        yield environment


async def test_a_reading_call_is_requested_decided_started_and_finished(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS)
    assert await setup.ok("say", text="hi") == "hi"
    assert setup.kinds == USUAL
    first, last = setup.journal.events[0], setup.journal.events[-1]
    assert isinstance(first, ToolRequested)
    assert isinstance(last, ToolFinished)
    assert first.call.arguments == {"text": "hi"}
    assert last.result == ToolResult(call_id=first.call.id, content="hi")
    assert setup.person.asked == []


async def test_it_is_written_that_a_tool_started_before_its_body_runs(place: Environment) -> None:
    seen: list[Sequence[str]] = []

    @tool(risk=Risk.READ)
    async def look(context: ToolContext) -> str:
        """Look at the journal."""
        seen.append(setup.kinds)
        return ""

    setup = ToolSetup(place, {"look": look})
    await setup.ok("look")
    assert seen == [USUAL[:3]]
    assert setup.kinds == USUAL


async def test_an_unknown_tool_is_told_with_those_there_are(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS)
    told = await setup.fails("shout")
    assert told == "there is no tool 'shout'; there are: change, relay, say, stumble"
    assert setup.kinds == ["tool.requested", "tool.finished"]


async def test_malformed_arguments_are_sent_back_and_nothing_runs(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS)
    call = ToolCall("1", "change", malformed='{"path": ')
    result = await setup.executor.execute(call, setup.context())
    assert result.status == "error"
    assert "not a JSON object" in result.content
    assert '{"path": ' in result.content
    assert "tool.started" not in setup.kinds


async def test_arguments_of_the_wrong_type_are_told_with_what_fits(place: Environment) -> None:
    told = await ToolSetup(place, TOOLS).fails("say", times="many")
    assert "Expected `int`, got `str` - at `$.times`" in told
    assert "text: string = 'hello', times: integer = 1" in told


async def test_the_stand_in_of_a_secret_is_never_written_back(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS)
    told = await setup.fails("say", text="password = «redacted:password»")
    assert "a secret that you were not shown" in told
    assert "tool.started" not in setup.kinds


async def test_nobody_is_asked_to_approve_what_cannot_run(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS, person=Person(says=False))
    assert "Object contains unknown field `force`" in await setup.fails("change", force=True)
    assert setup.person.asked == []
    assert setup.kinds == ["tool.requested", "tool.finished"]


@pytest.mark.parametrize("verdict", ["deny", "dry-run"])
async def test_what_the_policy_denies_does_not_run(place: Environment, verdict: str) -> None:
    setup = ToolSetup(place, TOOLS, policy=Always(verdict))
    result = await setup.result("change")
    assert result.status == "denied"
    assert setup.kinds == ["tool.requested", "tool.decided", "tool.finished"]
    assert setup.person.asked == []


async def test_what_waited_for_a_person_started_after_the_answer(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS, person=Person(says=True))
    await setup.ok("change")
    answer, started = setup.journal.events[2:4]
    assert isinstance(answer, ToolApproved)
    assert isinstance(started, ToolStarted)
    assert answer.at <= started.at


async def test_what_a_person_refuses_does_not_run(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS, person=Person(says=False))
    result = await setup.result("change")
    assert result.status == "denied"
    assert setup.kinds == ["tool.requested", "tool.decided", "tool.approved", "tool.finished"]
    answer = setup.journal.events[2]
    assert isinstance(answer, ToolApproved)
    assert not answer.approved
    assert "Not run: person said no (rule changes-ask" in result.content


async def test_what_a_person_approves_runs_and_the_answer_is_written_first(
    place: Environment,
) -> None:
    setup = ToolSetup(place, TOOLS)
    assert await setup.ok("change") == "changed"
    assert setup.kinds == [
        "tool.requested",
        "tool.decided",
        "tool.approved",
        "tool.started",
        "tool.finished",
    ]
    asked = setup.person.asked[0]
    assert (asked.call.name, asked.risk, asked.isolated) == ("change", Risk.CHANGE, False)
    decided = setup.journal.events[1]
    assert isinstance(decided, ToolDecided)
    assert decided.rule == "changes-ask"


async def test_a_long_result_is_kept_whole_and_shown_in_part(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS)
    result = await setup.result("say", text="0123456789", times=MAX_PREVIEW_CHARS)
    assert len(result.content) < MAX_PREVIEW_CHARS + 300
    assert setup.artifacts.texts == {result.artifact: "0123456789" * MAX_PREVIEW_CHARS}
    assert result.artifact in result.content
    assert f"{9 * MAX_PREVIEW_CHARS:,} characters left out" in result.content
    assert (await setup.result("say", text="x", times=MAX_PREVIEW_CHARS)).artifact == ""


async def test_failures_become_results_that_say_what_happened(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS)
    assert await setup.fails("stumble", how="tool") == "no such thing"
    assert await setup.fails("stumble", how="place") == "the host is gone"
    assert await setup.fails("stumble", how="grouped tool") == "inside a task"
    told = await setup.fails("stumble", how="bug")
    assert told == "the tool itself failed: KeyError: 'oops'"
    assert setup.kinds == USUAL * 4


async def test_a_long_failure_is_shortened_like_any_result(place: Environment) -> None:
    result = await ToolSetup(place, TOOLS).result("stumble", how="long")
    assert result.status == "error"
    assert len(result.content) < MAX_PREVIEW_CHARS + 300
    assert result.artifact


@pytest.mark.parametrize("how", ["store", "grouped store"])
async def test_without_a_journal_nothing_goes_on(place: Environment, how: str) -> None:
    setup = ToolSetup(place, TOOLS)
    with pytest.raises(StoreError):
        await setup.result("stumble", how=how)
    assert setup.kinds == USUAL[:3]


class FullJournal(InMemoryJournal):
    async def append(self, *events: Event) -> Sequence[int]:
        raise StoreFull("no space left")


async def test_a_call_that_cannot_be_written_down_does_not_run(place: Environment) -> None:
    ran = []

    @tool(risk=Risk.READ)
    async def run(context: ToolContext) -> str:
        """Run."""
        ran.append(1)
        return ""

    setup = ToolSetup(place, {"run": run}, journal=FullJournal())
    with pytest.raises(StoreFull):
        await setup.result("run")
    assert ran == []


async def test_a_tool_that_calls_a_tool_takes_the_same_road(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS, person=Person(says=False))
    assert await setup.ok("relay", name="say") == "ok: hello"
    told = await setup.ok("relay", name="change")
    assert told.startswith("denied: ")
    assert [action.call.name for action in setup.person.asked] == ["change"]
    assert setup.kinds[:8] == [*USUAL[:3], *USUAL, USUAL[3]]


async def test_calls_within_calls_within_calls_keep_their_run_and_order(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS)
    told = await setup.ok("relay", run="mine", name="say", depth=3)
    assert told == "ok: ok: ok: ok: hello"
    assert {event.run for event in setup.journal.events} == {"mine"}
    finished = [e.result.call_id for e in setup.journal.events if isinstance(e, ToolFinished)]
    assert finished[:4] == ["inner-0", "inner-1", "inner-2", "inner-3"]


async def test_fewer_tools_hold_for_inner_calls_too(place: Environment) -> None:
    setup = ToolSetup(place, TOOLS)
    few = setup.executor.with_only({"relay", "say"})
    assert [spec.name for spec in few.specs] == ["say", "relay"]
    call = ToolCall("1", "relay", {"name": "change"})
    result = await few.execute(call, setup.context())
    assert "there is no tool 'change'" in result.content


async def test_a_cancelled_call_has_no_result_so_that_nobody_thinks_it_did(
    place: Environment,
) -> None:
    begun = anyio.Event()

    @tool(risk=Risk.READ)
    async def sleep(context: ToolContext) -> str:
        """Sleep."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    setup = ToolSetup(place, {"sleep": sleep})
    async with anyio.create_task_group() as group:
        group.start_soon(setup.result, "sleep")
        await begun.wait()
        group.cancel_scope.cancel()
    assert setup.kinds == USUAL[:3]
