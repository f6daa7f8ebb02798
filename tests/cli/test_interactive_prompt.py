"""The whole chat at a terminal made of a pipe and a page: keys in, text out."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

import anyio
import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.output.vt100 import Vt100_Output
from terminal.scripted_application import HANG, ScriptedApplication, calls, says

from hermes.cli.chat.banner import ChatInfo
from hermes.cli.chat.interactive import open_input_history, open_session
from hermes.cli.chat.session import ChatDisplay
from hermes.cli.chat.terminals import PromptTerminal
from hermes.core.errors import InvalidApiKey
from hermes.core.events.runs import RunRenamed, RunStarted, TurnEnded
from hermes.core.events.tools import ToolApproved, ToolStarted
from hermes.memory.journal.in_memory import InMemoryJournal

pytestmark = pytest.mark.anyio
FACTS = ChatInfo(
    version="1",
    tools=(("terminal", "Run a shell command."),),
    personalities={"pirate": "Talk like a pirate."},
)
ENTER, ALT_ENTER, CTRL_C, CTRL_D, TAB = "\r", "\x1b\r", "\x03", "\x04", "\t"


class Chat:
    def __init__(
        self, application: ScriptedApplication, keys: PipeInput, page: StringIO, prompt
    ) -> None:
        self.application, self.page, self.prompt = application, page, prompt
        self.journal = application.journal
        self._keys = keys
        self.over = anyio.Event()

    def type(self, text: str) -> None:
        self._keys.send_text(text)

    async def until(self, true: Callable[[], object]) -> None:
        with anyio.fail_after(120):
            while not true():  # noqa: ASYNC110 - a screen has no event to wait for
                await anyio.sleep(0.005)

    async def sees(self, text: str, times: int = 1) -> None:
        try:
            await self.until(lambda: self.page.getvalue().count(text) >= times)
        except TimeoutError:
            pytest.fail(f"never saw {text!r} in: {self.page.getvalue()[-3000:]!r}")

    def of(self, kind: type) -> list:
        return [event for event in self.journal.events if isinstance(event, kind)]


@asynccontextmanager
async def chatting(
    script: Sequence[object] = (),
    *,
    resume: str | None = None,
    journal: InMemoryJournal | None = None,
    **more,
) -> AsyncIterator[Chat]:
    page = StringIO()
    output = Vt100_Output(page, lambda: Size(rows=24, columns=80), term="xterm")
    with create_pipe_input() as keys:
        prompt = PromptTerminal(input=keys, output=output, **more)
        session = open_session(prompt, ChatDisplay())
        application = ScriptedApplication(
            script, session.approver, journal=journal, ask=session.approver.ask
        )
        chat = Chat(application, keys, page, prompt)

        async def sit() -> None:
            await session.run(application, FACTS, resume=resume)
            chat.over.set()

        async with anyio.create_task_group() as group:
            group.start_soon(sit)
            await chat.until(lambda: prompt.app.is_running)
            yield chat
            if not chat.over.is_set():
                chat.type(CTRL_C + CTRL_C + CTRL_D)
            with anyio.fail_after(120):
                await chat.over.wait()


async def test_a_question_is_answered_and_ctrl_d_leaves_with_a_hint() -> None:
    async with chatting([says("Hello **there**")]) as chat:
        chat.type("hi" + ENTER)
        await chat.sees("Hello there")  # set as Markdown: the stars are gone
        await chat.sees("100 in · 20 out · price unknown")
        chat.type(CTRL_D)
        await chat.sees("hermes --resume run-")
        assert "❯ hi" in chat.page.getvalue()


async def test_once_lets_one_call_through_and_asks_again_for_the_next() -> None:
    script = [calls("terminal", command="ls"), calls("terminal", id="2", command="ls"), says("ok")]
    async with chatting(script) as chat:
        chat.type("go" + ENTER)
        await chat.sees("[o]nce | [s]ession | [d]eny")
        chat.type("o" + ENTER)
        await chat.until(lambda: len(chat.of(ToolApproved)) == 1)
        await chat.sees("wants to run on local (testhost)", times=2)
        chat.type(ENTER)
        await chat.sees("✗ denied (changes-ask)")
        assert [event.approved for event in chat.of(ToolApproved)] == [True, False]


async def test_session_covers_the_very_same_call_and_no_other() -> None:
    script = [
        calls("terminal", id="1", command="ls"),
        calls("terminal", id="2", command="ls"),
        calls("terminal", id="3", command="ls /"),
        says("done"),
    ]
    async with chatting(script) as chat:
        chat.type("go" + ENTER)
        await chat.sees("$ ls")
        chat.type("s" + ENTER)
        await chat.sees("$ ls /")
        chat.type("d" + ENTER)
        await chat.sees("done")
        answers = [(event.approved, event.scope) for event in chat.of(ToolApproved)]
        assert answers == [(True, "session"), (True, "session"), (False, "once")]


async def test_half_a_sentence_does_not_become_an_answer() -> None:
    async with chatting([HANG, says("x")]) as chat:
        ask = chat.application.means.ask
        async with anyio.create_task_group() as group:
            chat.type("only half")
            await chat.until(lambda: chat.prompt.buffer.text == "only half")
            group.start_soon(ask, "which?", ("a", "b"))
            await chat.sees("1. a")
            assert chat.prompt.buffer.text == ""
            chat.type("2" + ENTER)
        assert chat.prompt.buffer.text == "only half"
        chat.type(CTRL_C)


async def test_ctrl_c_at_an_approval_denies_and_the_chat_goes_on() -> None:
    async with chatting([calls("terminal", command="rm x"), says("fine, not then")]) as chat:
        chat.type("go" + ENTER)
        await chat.sees("$ rm x")
        chat.type(CTRL_C)
        await chat.sees("fine, not then")
        assert [event.approved for event in chat.of(ToolApproved)] == [False]


async def test_something_that_is_no_answer_is_asked_again() -> None:
    async with chatting([calls("terminal", command="x"), says("ok")]) as chat:
        chat.type("go" + ENTER)
        await chat.sees("$ x")
        chat.type("yes please" + ENTER)
        await chat.sees("not an answer to this: yes please")
        assert not chat.of(ToolApproved)
        chat.type("once" + ENTER)
        await chat.until(lambda: chat.of(ToolApproved))


async def test_a_clarifying_question_takes_a_number_or_words() -> None:
    script = [calls("clarify", question="Which\x1b[2J one?", choices=["red", "blue"]), says("ok")]
    async with chatting(script) as chat:
        chat.type("go" + ENTER)
        await chat.sees("2. blue")
        assert "Which\\x1b[2J one?" in chat.page.getvalue()
        chat.type("7" + ENTER)
        await chat.sees("not an answer to this: 7")
        chat.type("2" + ENTER)
        await chat.sees("ok\r\n")
        assert chat.application.model.seen[-1][-1].result.content == "blue"


async def test_ctrl_c_interrupts_the_turn_and_the_prompt_is_back() -> None:
    async with chatting([HANG, says("alive")]) as chat:
        chat.type("go" + ENTER)
        await chat.sees("hanging on")
        chat.type(CTRL_C)
        await chat.sees("interrupted")
        assert chat.of(TurnEnded)[0].outcome == "interrupted"
        chat.type("again" + ENTER)
        await chat.sees("alive")


async def test_ctrl_c_clears_the_line_and_twice_at_an_empty_prompt_leaves() -> None:
    async with chatting() as chat:
        chat.type("never sent")
        await chat.until(lambda: chat.prompt.buffer.text == "never sent")
        chat.type(CTRL_C)
        await chat.until(lambda: chat.prompt.buffer.text == "")
        chat.type(CTRL_C)
        chat.type(CTRL_C)
        with anyio.fail_after(120):
            await chat.over.wait()


async def test_typing_while_a_turn_runs_steers_it() -> None:
    async with chatting([calls("wait"), says("noted")]) as chat:
        chat.type("go" + ENTER)
        await chat.until(lambda: chat.of(ToolStarted))
        chat.type("also check y" + ENTER)
        await chat.sees("❯ also check y")
        chat.application.gate.set()
        await chat.sees("↪ also check y")
        await chat.sees("noted")
        said = [each.text for each in chat.application.model.seen[-1] if each.role == "user"]
        assert said == ["go", "also check y"]


async def test_words_that_come_before_a_turn_has_begun_are_not_lost() -> None:
    async with chatting([says("one"), says("two"), says("three")]) as chat:
        chat.type("first" + ENTER + "second" + ENTER + "third" + ENTER)

        def heard() -> list[str]:
            last = chat.application.model.seen[-1] if chat.application.model.seen else ()
            return [message.text for message in last if message.role == "user"]

        await chat.until(lambda: heard() == ["first", "second", "third"])


async def test_stop_interrupts_and_other_commands_work_while_a_turn_runs() -> None:
    async with chatting([HANG]) as chat:
        chat.type("go" + ENTER)
        await chat.sees("hanging on")
        chat.type("/status" + ENTER)
        await chat.sees("writing")
        chat.type("/undo" + ENTER)
        await chat.sees("/undo must wait")
        chat.type("/stop" + ENTER)
        await chat.until(lambda: chat.of(TurnEnded))


async def test_a_model_error_is_one_line_and_the_prompt_is_back() -> None:
    async with chatting(
        [InvalidApiKey("the key was refused; run `hermes setup`"), says("works")]
    ) as chat:
        chat.type("go" + ENTER)
        await chat.sees("the key was refused")
        await chat.until(lambda: chat.of(TurnEnded))
        chat.type("again" + ENTER)
        await chat.sees("works")
        page = chat.page.getvalue()
        assert page.count("the key was refused") == 1
        assert "Traceback" not in page


async def test_alt_enter_and_a_backslash_begin_a_new_line() -> None:
    async with chatting([says("ok")]) as chat:
        chat.type("one" + ALT_ENTER + "two\\" + ENTER + "three" + ENTER)
        await chat.sees("ok")
        assert chat.application.model.seen[0][-1].text == "one\ntwo\nthree"


async def test_slash_commands_and_their_arguments_complete() -> None:
    async with chatting() as chat:
        chat.type("/comp")
        await chat.until(lambda: chat.prompt.buffer.complete_state)
        chat.type(TAB)
        await chat.until(lambda: chat.prompt.buffer.text == "/compress")
        chat.type(CTRL_C)
        await chat.until(lambda: chat.prompt.buffer.text == "")
        chat.type("/resume run")
        await chat.until(lambda: chat.prompt.buffer.complete_state)
        chat.type(TAB)
        await chat.until(lambda: chat.prompt.buffer.text.startswith("/resume run-"))
        chat.type(CTRL_C)
        await chat.until(lambda: chat.prompt.buffer.text == "")


async def test_resuming_without_a_name_goes_back_to_the_last_other_session() -> None:
    async with chatting([says("first answer")]) as chat:
        first = chat.of(RunStarted)[0].run
        chat.type("/resume" + ENTER)
        await chat.sees("there is no other session yet")
        chat.type("hello" + ENTER)
        await chat.sees("first answer")
        chat.type("/new" + ENTER)
        await chat.sees("a new session")
        chat.type("/resume" + ENTER)
        await chat.sees(f"back in {first}")


async def test_what_was_typed_is_remembered_in_a_private_file(tmp_path: Path) -> None:
    kept = tmp_path / "home" / "history"
    async with chatting([says("ok")], history=open_input_history(kept)) as chat:
        chat.type("remember me" + ENTER)
        await chat.sees("ok")
    assert kept.stat().st_mode & 0o777 == 0o600
    async with chatting(history=open_input_history(kept)) as chat:
        await chat.until(lambda: chat.prompt.buffer._load_history_task.done())
        chat.type("\x1b[A")
        await chat.until(lambda: chat.prompt.buffer.text == "remember me")
        chat.type(CTRL_C)
        await chat.until(lambda: not chat.prompt.buffer.text)


async def test_answers_to_questions_are_not_remembered() -> None:
    async with chatting([calls("terminal", command="ls"), says("ok")]) as chat:
        chat.type("go" + ENTER)
        await chat.sees("$ ls")
        chat.type("o" + ENTER)
        await chat.until(lambda: chat.of(TurnEnded))
        assert chat.prompt.buffer.history.get_strings() == ["go"]


async def test_a_home_that_cannot_be_written_costs_only_the_history(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    open_input_history(tmp_path / "file" / "history").append_string("kept in memory")


async def test_undo_retry_title_and_new_act_on_the_session() -> None:
    async with chatting([says("first"), says("second"), says("third")]) as chat:
        chat.type("question" + ENTER)
        await chat.sees("first")
        await chat.until(lambda: chat.of(TurnEnded))
        chat.type("/retry" + ENTER)
        await chat.sees("second")
        await chat.until(lambda: len(chat.of(TurnEnded)) == 2)
        assert [m.text for m in chat.application.model.seen[-1]] == ["question"]
        chat.type("/title My night" + ENTER)
        await chat.until(lambda: chat.of(RunRenamed))
        chat.type("/undo" + ENTER)
        await chat.sees("undone: question")
        chat.type("/new" + ENTER)
        await chat.sees("a new session: run-")
        chat.type("/undo" + ENTER)
        await chat.sees("nothing to undo")


async def test_what_the_commands_show_and_keep(tmp_path: Path) -> None:
    async with chatting([says("an answer", reasoning="because"), says("arr")]) as chat:
        chat.type("/verbose" + ENTER + "a question" + ENTER)
        await chat.sees("because")
        await chat.until(lambda: chat.of(TurnEnded))
        chat.type("/history" + ENTER)
        await chat.sees("  an answer")
        chat.type("/tools" + ENTER)
        await chat.sees("Run a shell command.")
        chat.type("/compress" + ENTER)
        await chat.sees("nothing to compress yet")
        chat.type(f"/save {tmp_path / 'talk.md'}" + ENTER)
        await chat.sees("saved 2 messages to")
        chat.type("/personality nobody" + ENTER)
        await chat.sees("no personality 'nobody'; there are: pirate")
        chat.type("/personality pirate" + ENTER + "again" + ENTER)
        await chat.sees("arr")
        assert "Talk like a pirate." in chat.application.model.seen[-1][-1].text
        chat.type("/help" + ENTER)
        await chat.sees("/personality [name]")
    assert "an answer" in (tmp_path / "talk.md").read_text()


async def test_the_model_can_be_switched_and_a_wrong_name_is_told() -> None:
    async with chatting() as chat:
        chat.type("/model no:such" + ENTER)
        await chat.sees("no:such is not a model")
        await chat.sees("the model is still test:paced")
        chat.type("/model other:one" + ENTER)
        await chat.sees("the model is now other:one")
        chat.type("hi" + ENTER)
        await chat.sees("from the other")
        chat.type("/usage" + ENTER)
        await chat.sees("1 by other:one")


async def test_an_unknown_command_names_the_nearest_and_a_path_is_no_command() -> None:
    async with chatting([says("a file")]) as chat:
        chat.type("/modle" + ENTER)
        await chat.sees("did you mean /model?")
        chat.type("/etc/hosts is odd" + ENTER)
        await chat.sees("a file")


async def test_a_resumed_session_shows_what_was_said_and_carries_on_what_was_cut_off() -> None:
    journal = InMemoryJournal()
    async with chatting(
        [says("the answer"), calls("terminal", command="make")], journal=journal
    ) as chat:
        chat.type("first question" + ENTER)
        await chat.sees("the answer")
        await chat.until(lambda: chat.of(TurnEnded))
        chat.type("second question" + ENTER)
        await chat.sees("$ make")
        kept = list(journal.events)  # the process dies here, while the approval is open
    torn = InMemoryJournal()
    torn.events = kept
    async with chatting([says("carried on")], resume="", journal=torn) as chat:
        await chat.sees("❯ first question")
        await chat.sees("interrupted in 1 tool call(s)")
        await chat.sees("$ make")
        chat.type("o" + ENTER)
        await chat.sees("carried on")


async def test_a_screen_that_swallows_everything_does_not_stop_the_chat() -> None:
    with create_pipe_input() as keys:
        prompt = PromptTerminal(input=keys, output=DummyOutput())
        session = open_session(prompt, ChatDisplay(spinner=True))
        application = ScriptedApplication([says("unseen")], session.approver)
        keys.send_text("hi" + ENTER + CTRL_D)
        with anyio.fail_after(120):
            await session.run(application, FACTS)
    assert any(isinstance(event, TurnEnded) for event in application.journal.events)
