"""A full window is emptied without losing the task, an instruction, or the thread."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from agent_setup import AgentSetup, ByPosition, call, calls, check_valid, make_setup, says
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.agent.compression import digest_messages, find_standing_instructions, render_transcript
from hermes.agent.conversation import Conversation
from hermes.agent.settings import AgentSettings, LimitSettings
from hermes.core.errors import ContextTooLong, ProviderOverloaded
from hermes.core.messages import Completion, Message, Risk, ToolResult, ToolSpec
from hermes.core.protocols import ToolContext
from hermes.models.scripted import ScriptedModel
from hermes.policy.taint.data_marks import strip_data_marks
from hermes.tools.declare import tool

pytestmark = pytest.mark.anyio


@tool(risk=Risk.READ)
async def read(context: ToolContext, path: str, size: int = 2000) -> str:
    """Read something long."""
    return f"{path}\n" + "x" * size


class Small(ByPosition):
    """A model with a window of its own that counts as we do and refuses what does not fit."""

    def __init__(self, script: Sequence[Message], window: int = 4000) -> None:
        super().__init__(script, name="small")
        self.window = window
        self.answers = 0

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        check_valid(messages)
        size = sum(len(m.text) + (len(m.result.content) if m.result else 0) for m in messages)
        if size // 4 > self.window:
            raise ContextTooLong("too long")
        self.seen.append(tuple(messages))
        self.answers += 1
        if self.answers <= len(self.script):
            return Completion(message=self.script[self.answers - 1])
        return Completion(message=says("done"))


def small(script: Sequence[Message], window: int = 4000) -> AgentSetup:
    return make_setup(Small(script, window), more_tools=[read], settings=AgentSettings(max_depth=0))


def reading(number: int, size: int = 2000) -> Message:
    return calls(call("read", id=f"r{number}", path=f"/var/log/{number}.log", size=size))


async def test_a_long_turn_is_compressed_and_the_task_and_recent_steps_stay() -> None:
    home = small([reading(n) for n in range(30)])
    talk = await Conversation.begin(home.dependencies, system="be good")
    assert await talk.say("find the needle") == "done"
    events = home.events("context.compressed")
    assert events
    assert all(e.tokens_after <= 0.8 * e.tokens_before for e in events)
    assert [m.text for m in talk.messages[:2]] == ["be good", "find the needle"]
    assert talk.messages[2].text == events[-1].summary
    assert "/var/log/1.log" in events[0].summary
    assert (await Conversation.resume(home.dependencies, talk.run)).messages == talk.messages


async def test_standing_instructions_survive_many_compressions_word_for_word() -> None:
    rules = [
        "From now on, never touch  /etc/passwd — not even to read it.",
        "Always answer in French!",
        "Remember: the password file is\n  called `vault.txt` and you must not print it.",
    ]
    script = []
    for number in range(12):
        script += [reading(number), reading(100 + number), says(f"answer {number}")]
    home = small(script)
    talk = await Conversation.begin(home.dependencies)
    for number in range(12):
        text = rules[number // 2 - 1] if number in (2, 4, 6) else f"look at {number}"
        await talk.say(text)
    assert len(home.events("context.compressed")) >= 2
    everything = "\n".join(m.text for m in home.model.seen[-1])  # type: ignore[attr-defined]
    for rule in rules:
        assert everything.count(rule) == 1


async def test_what_is_being_asked_now_survives_its_own_long_turn() -> None:
    home = small([says("hello"), *(reading(n) for n in range(30))])
    talk = await Conversation.begin(home.dependencies)
    await talk.say("hi")
    await talk.say("please compare the logs of web and db")
    assert home.events("context.compressed")
    last = home.model.seen[-1]  # type: ignore[attr-defined]
    assert sum("please compare the logs of web and db" in m.text for m in last) == 1


async def test_an_undone_instruction_is_not_quoted_any_more() -> None:
    script = [says("ok"), says("ok")]
    for number in range(12):
        script += [reading(number), says("fine")]
    home = small(script)
    talk = await Conversation.begin(home.dependencies)
    await talk.say("hello")
    await talk.say("never use ls")
    await talk.undo()
    for number in range(11):
        await talk.say(f"look at {number}")
    summary = home.events("context.compressed")[-1].summary
    assert "never use ls" not in summary


async def test_the_summary_model_tells_the_middle_and_its_cost_is_counted() -> None:
    home = small([reading(n) for n in range(8)])
    teller = ScriptedModel([says("THE STORY")] * 9, name="teller")
    talk = await Conversation.begin(replace(home.dependencies, summary_model=teller))
    await talk.say("go")
    summary = home.events("context.compressed")[0].summary
    story = summary.partition("What happened so far:\n")[2]
    assert strip_data_marks(story) == "THE STORY" != story, "it tells of what was read: data"
    assert "/var/log/0.log" in teller.seen[0][1].text
    assert "teller" in [e.model for e in home.events("model.answered")]


async def test_a_failing_or_unaffordable_summary_model_is_replaced_by_a_list() -> None:
    home = small([reading(n) for n in range(8)])
    teller = ScriptedModel([ProviderOverloaded("later")] * 9, name="teller")
    talk = await Conversation.begin(replace(home.dependencies, summary_model=teller))
    assert await talk.say("go") == "done"
    summary = home.events("context.compressed")[0].summary
    assert '- ran read {"path":"/var/log/0.log"' in summary
    assert "files touched: /var/log/0.log" in summary
    assert any("without a model: later" in note for note in talk.notes)


async def test_a_result_larger_than_the_window_is_shortened_and_the_turn_goes_on() -> None:
    home = small([reading(1, size=11_000), reading(2, size=11_000)], window=2500)
    talk = await Conversation.begin(home.dependencies, system="s")
    assert await talk.say("go") == "done"
    assert "outputs shortened" in home.events("context.compressed")[-1].summary


async def test_a_task_larger_than_the_window_fails_at_once_instead_of_looping() -> None:
    home = small([], window=1000)
    talk = await Conversation.begin(home.dependencies, system="s")
    with pytest.raises(ContextTooLong):
        await talk.say("x" * 10_000)
    assert home.model.seen == []  # type: ignore[attr-defined]
    assert home.events("context.compressed") == []


async def test_a_provider_that_always_says_too_long_is_asked_three_times_at_most() -> None:
    class Never(ByPosition):
        tries = 0

        async def complete(self, messages, tools=()):  # type: ignore[no-untyped-def]
            if len(self.seen) < 20:
                return await super().complete(messages, tools)
            self.tries += 1
            raise ContextTooLong("no")

    model = Never([reading(n) for n in range(40)])
    home = make_setup(model, more_tools=[read])
    talk = await Conversation.begin(home.dependencies)
    with pytest.raises(ContextTooLong):
        await talk.say("go")
    assert model.tries <= 3
    assert len(home.events("context.compressed")) <= 2


async def test_compressing_by_hand_says_when_there_is_nothing_to_gain() -> None:
    home = small([says("hi")])
    talk = await Conversation.begin(home.dependencies)
    assert await talk.compress() is None
    await talk.say("hello")
    assert await talk.compress() is None


@given(
    sizes=st.lists(st.lists(st.integers(0, 3000), min_size=1, max_size=4), min_size=2, max_size=8),
    window=st.integers(500, 8000),
)
@settings(max_examples=60, deadline=None)
async def test_a_call_is_never_parted_from_its_results(sizes: list[list[int]], window: int) -> None:
    script = [
        calls(*(call("read", id=f"{row}-{n}", path="p", size=size) for n, size in enumerate(step)))
        for row, step in enumerate(sizes)
    ]
    home = make_setup(ByPosition([*script, says("ok")]), more_tools=[read])
    talk = await Conversation.begin(home.dependencies, system="s")
    await talk.say("go")
    home.model.window = window
    again = await Conversation.resume(home.dependencies, talk.run)
    before = again.messages
    event = await again.compress()
    check_valid(again.messages)
    assert (event is None) == (again.messages == before)
    assert (await Conversation.resume(home.dependencies, talk.run)).messages == again.messages


async def test_a_spent_budget_does_not_keep_a_conversation_from_being_compressed() -> None:
    home = small([*(reading(n) for n in range(3)), says("ok")], window=100_000)
    teller = ScriptedModel([says("never asked")], name="teller")
    talk = await Conversation.begin(home.dependencies)
    await talk.say("go")
    poor = AgentSettings(limits=LimitSettings(run_tokens=1), keep_recent_turns=0, max_depth=0)
    dependencies = replace(home.dependencies, summary_model=teller, settings=poor)
    again = await Conversation.resume(dependencies, talk.run)
    assert await again.compress() is not None
    assert teller.seen == []


@given(
    rule=st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=80),
    word=st.sampled_from(["always", "Never", "from now on", "do not", "don’t", "must", "REMEMBER"]),
    noise=st.lists(st.text(max_size=100), max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_an_instruction_is_found_in_any_surroundings(
    rule: str, word: str, noise: list[str]
) -> None:
    sentence = f"Please {word} {rule}".strip()
    found = find_standing_instructions(["\n\n".join([*noise, sentence, *noise])])
    assert any(sentence in text for text in found)


def test_a_long_message_gives_only_its_instructions() -> None:
    text = ("Some words about nothing. " * 200) + "Never restart the database. " + "More. " * 100
    assert find_standing_instructions([text]) == ["Never restart the database."]


def test_a_digest_names_commands_exit_status_files_and_errors() -> None:
    messages = [
        Message(role="user", text="why is it slow?"),
        calls(call("terminal", id="1", command="make"), call("edit", id="2", path="a.c")),
        Message(role="tool", result=ToolResult(call_id="1", content="boom\n[exit 2 · 0.1 s]")),
        Message(role="tool", result=ToolResult(call_id="2", status="error", content="no a.c")),
        says("I will use b.c instead."),
    ]
    text = digest_messages(messages, 2000)
    assert '- ran terminal {"command":"make"} → exit 2: [exit 2 · 0.1 s]' in text
    assert '- ran edit {"path":"a.c"} → error: no a.c' in text
    assert "- asked: why is it slow?" in text
    assert "- said: I will use b.c instead." in text
    assert "files touched: a.c" in text


def test_a_transcript_shortens_the_oldest_output_first() -> None:
    messages = [
        Message(role="tool", result=ToolResult(call_id="1", content="a" * 5000)),
        Message(role="tool", result=ToolResult(call_id="2", content="b" * 5000)),
    ]
    text = render_transcript(messages, 7000)
    assert text.count("b") >= 5000
    assert text.count("a") < 1500
