"""A run that is cut off anywhere goes on from its journal, and changes nothing twice."""

from collections.abc import Sequence

import pytest
from agent_setup import (
    AgentSetup,
    ByPosition,
    after_crash,
    call,
    calls,
    check_valid,
    make_setup,
    says,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.agent.conversation import Conversation
from hermes.agent.history import ConversationHistory
from hermes.core.errors import StoreFull
from hermes.core.events import Event
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    RunStarted,
    TurnEnded,
    TurnStarted,
    TurnUndone,
)
from hermes.core.events.tools import ToolFinished, ToolStarted
from hermes.core.messages import Message, Risk, ToolCall, ToolResult
from hermes.core.protocols import ToolContext
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.tools.declare import tool

pytestmark = pytest.mark.anyio

SCRIPT = [
    calls(call("look", what="a"), call("change", what="b"), call("alone", what="c")),
    calls(call("change", what="d"), call("look", what="e"), text="halfway"),
    says("done with it"),
]


async def cut_everywhere(script: Sequence[Message]) -> None:
    """Play a whole turn, then for each event boundary pretend that the process died there."""
    whole = make_setup(ByPosition(script))
    await (await Conversation.begin(whole.dependencies, run="r")).say("do it")
    for cut in range(1, len(whole.journal.events) + 1):
        past = whole.journal.events[:cut]
        home = make_setup(ByPosition(script), journal=await after_crash(past))
        talk = await Conversation.resume(home.dependencies, "r")
        check_valid(talk.messages)
        answer = await talk.finish_open_turn()
        check_valid(talk.messages)
        asked = any(isinstance(e, MessageAdded) and e.message.role == "user" for e in past)
        finished = isinstance(past[-1], TurnEnded)
        assert (answer is None) == (finished or not asked)
        assert not talk.open
        check_nothing_twice(past, home)
        assert (await Conversation.resume(home.dependencies, "r")).messages == talk.messages


def check_nothing_twice(past: Sequence[Event], home: AgentSetup) -> None:
    started = {e.call_id for e in past if isinstance(e, ToolStarted) and e.risk is not Risk.READ}
    again = {thing.replace(" ", "-") for thing in home.done if not thing.startswith("look")}
    assert not started & again
    everything = [e.call_id for e in home.events("tool.started") if e.risk is not Risk.READ]
    assert len(everything) == len(set(everything))


async def test_a_turn_cut_at_every_event_goes_on_and_changes_nothing_twice() -> None:
    await cut_everywhere(SCRIPT)


names = st.sampled_from(["look", "change", "alone", "fail", "unknown"])


@st.composite
def scripts(draw: st.DrawFn) -> list[Message]:
    steps = draw(st.lists(st.lists(names, min_size=1, max_size=3), max_size=4))
    made = [
        calls(*(call(name, what=f"{row}{column}") for column, name in enumerate(step)))
        for row, step in enumerate(steps)
    ]
    return [*made, says("done")]


@given(script=scripts())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
async def test_any_turn_cut_at_every_event_goes_on_and_changes_nothing_twice(
    script: list[Message],
) -> None:
    await cut_everywhere(script)


ids = st.sampled_from(["c1", "c2", "c3"])
turns = st.integers(1, 3)
asking = st.lists(ids, unique=True, max_size=3).map(
    lambda wanted: calls(*(ToolCall(id, "look") for id in wanted), text="hm")
)
anything = st.one_of(
    st.builds(lambda n: TurnStarted(run="r", turn=n), turns),
    st.builds(lambda n: TurnEnded(run="r", turn=n, outcome="failed"), turns),
    st.builds(lambda n: TurnUndone(run="r", turn=n), turns),
    st.builds(lambda m: MessageAdded(run="r", message=m), asking),
    st.builds(lambda t: MessageAdded(run="r", message=Message(role="user", text=t)), st.text()),
    st.builds(lambda id: ToolStarted(run="r", call_id=id, risk=Risk.CHANGE), ids),
    st.builds(lambda id: ToolFinished(run="r", result=ToolResult(call_id=id, content="x")), ids),
)


@given(events=st.lists(anything, max_size=30))
@settings(max_examples=300, deadline=None)
def test_whatever_stands_in_a_journal_the_messages_are_a_valid_sequence(
    events: list[Event],
) -> None:
    history = ConversationHistory()
    for event in events:
        history.apply(event)
        check_valid(history.view)


def test_the_first_answer_to_a_call_is_the_one_that_counts() -> None:
    history = ConversationHistory()
    history.apply(MessageAdded(run="r", message=calls(ToolCall("c1", "look"), ToolCall("c2", "x"))))
    for text in ("real", "interrupted"):
        result = ToolResult(call_id="c1", content=text)
        history.apply(ToolFinished(run="r", result=result))
    assert history.view[1].result is not None
    assert history.view[1].result.content == "real"


async def test_a_started_change_without_a_result_is_told_and_not_run_again() -> None:
    script = [calls(call("change", what="a"), call("look", what="b")), says("checked")]
    past: list[Event] = [
        RunStarted(run="r", origin="cli"),
        TurnStarted(run="r", turn=1),
        MessageAdded(run="r", message=Message(role="user", text="go")),
        MessageAdded(run="r", message=script[0]),
        ToolStarted(run="r", call_id="change-a", risk=Risk.CHANGE),
        ToolStarted(run="r", call_id="look-b", risk=Risk.READ),
    ]
    home = make_setup(ByPosition(script), journal=await after_crash(past))
    talk = await Conversation.resume(home.dependencies, "r")
    assert await talk.finish_open_turn() == "checked"
    assert home.done == ["look b"]
    lost, read = [m.result for m in talk.messages if m.result]
    assert lost.status == "error"
    assert lost.content == (
        "started before a crash; it is not known whether it took effect; "
        "check before doing it again"
    )
    assert read.content == "saw b"


async def test_a_reading_tool_that_had_changed_something_through_another_is_not_run_again() -> None:
    script = [calls(call("look", what="a")), says("ok")]
    past: list[Event] = [
        RunStarted(run="r", origin="cli"),
        TurnStarted(run="r", turn=1),
        MessageAdded(run="r", message=Message(role="user", text="go")),
        MessageAdded(run="r", message=script[0]),
        ToolStarted(run="r", call_id="look-a", risk=Risk.READ),
        ToolStarted(run="r", call_id="inner", risk=Risk.CHANGE),
    ]
    home = make_setup(ByPosition(script), journal=await after_crash(past))
    assert await (await Conversation.resume(home.dependencies, "r")).finish_open_turn() == "ok"
    assert home.done == []


async def test_speaking_instead_of_carrying_on_closes_the_old_turn_first() -> None:
    past: list[Event] = [
        RunStarted(run="r", origin="cli"),
        TurnStarted(run="r", turn=1),
        MessageAdded(run="r", message=Message(role="user", text="go")),
        MessageAdded(run="r", message=calls(call("look", what="a"))),
    ]
    home = make_setup([says("never mind")], journal=await after_crash(past))
    talk = await Conversation.resume(home.dependencies, "r")
    assert await talk.say("forget it") == "never mind"
    check_valid(talk.messages)
    assert home.done == []
    assert [e.outcome for e in home.events("turn.ended")] == ["interrupted", "answered"]


async def test_steps_taken_before_a_crash_count_towards_the_limit() -> None:
    script = [calls(call("look", what=str(n))) for n in range(70)]
    whole = make_setup(ByPosition(script))
    talk = await Conversation.begin(whole.dependencies, run="r")
    await talk.say("go")
    assert len(whole.done) == 60
    past = whole.journal.events[: len(whole.journal.events) // 2]
    home = make_setup(ByPosition(script), journal=await after_crash(past))
    again = await Conversation.resume(home.dependencies, "r")
    await again.finish_open_turn()
    assert sum(m.role == "assistant" for m in again.messages) <= 61


async def test_a_compressed_conversation_is_rebuilt_as_it_was() -> None:
    history = ConversationHistory()
    texts = ["s", "u1", "a1", "u2", "a2"]
    roles = ["system", "user", "assistant", "user", "assistant"]
    for role, text in zip(roles, texts, strict=True):
        message = Message(role=role, text=text)  # type: ignore[arg-type]
        history.apply(MessageAdded(run="r", message=message))
    history.apply(ContextCompressed(run="r", summary="short", kept_first=2, dropped=2))
    assert [m.text for m in history.view] == ["s", "u1", "short", "a2"]


class Full(InMemoryJournal):
    full = False

    async def append(self, *events: Event) -> Sequence[int]:
        if self.full:
            raise StoreFull("no space left")
        return await super().append(*events)


async def test_a_full_disk_stops_the_turn_and_what_was_written_goes_on_later() -> None:
    journal = Full()

    @tool(risk=Risk.CHANGE)
    async def fill(context: ToolContext) -> str:
        """Fill the disk."""
        journal.full = True
        return "full"

    script = [calls(call("fill"), call("look", what="a")), says("cleaned up")]
    home = make_setup(ByPosition(script), journal=journal, more_tools=[fill])
    talk = await Conversation.begin(home.dependencies)
    with pytest.raises(StoreFull):
        await talk.say("go")
    journal.full = False
    again = await Conversation.resume(home.dependencies, talk.run)
    assert again.open
    assert await again.finish_open_turn() == "cleaned up"
    first = next(m.result for m in again.messages if m.result)
    assert "not known whether it took effect" in first.content
