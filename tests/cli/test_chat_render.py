from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from hermes.cli.render.answer_stream import MarkdownBlockSplitter
from hermes.cli.render.transcript import Transcript
from hermes.core.bus import BusItem, Glimpse
from hermes.core.events import Event
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    ModelAnswered,
    ModelFailed,
    RunStarted,
    TurnEnded,
    TurnStarted,
)
from hermes.core.events.tools import ProcessEnded, ToolDecided, ToolFinished, ToolRequested
from hermes.core.messages import CompletionDelta, Message, Risk, ToolCall, ToolResult, Usage
from hermes.core.protocols import JournalRecord

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LS = ToolCall("1", "terminal", {"command": "ls -la"})


def told(transcript: Transcript, *happened: Event | CompletionDelta) -> list[tuple[str, str]]:
    pieces = []
    for number, each in enumerate(happened, start=1):
        shown: BusItem = (
            Glimpse("r", each) if isinstance(each, CompletionDelta) else JournalRecord(number, each)
        )
        pieces += [(piece.kind, piece.text) for piece in transcript.feed(shown)]
    return pieces


def turn(
    *between: Event | CompletionDelta, outcome: str = "answered", reason: str = ""
) -> Iterable[object]:
    later = NOW + timedelta(seconds=3.2)
    yield TurnStarted(run="r", turn=1, at=NOW)
    yield MessageAdded(run="r", message=Message(role="user", text="hi"))
    yield from between
    yield TurnEnded(run="r", turn=1, outcome=outcome, reason=reason, at=later)


def says(text: str, reasoning: str = "") -> MessageAdded:
    return MessageAdded(run="r", message=Message(role="assistant", text=text, reasoning=reasoning))


def test_a_streamed_answer_is_told_once_block_by_block() -> None:
    transcript = Transcript("r")
    pieces = told(
        transcript,
        *turn(
            CompletionDelta("# Ti"),
            CompletionDelta("tle\n\nfirst"),
            CompletionDelta(" words"),
            says("# Title\n\nfirst words"),
        ),
    )
    assert [text for kind, text in pieces if kind == "text"] == ["# Title", "first words"]


def test_what_is_being_written_can_be_seen_before_its_block_is_whole() -> None:
    transcript = Transcript("r")
    told(
        transcript,
        TurnStarted(run="r", turn=1),
        CompletionDelta("half a "),
        CompletionDelta("sent"),
    )
    assert transcript.pending_text == "half a sent"
    assert transcript.current_activity == "writing"


def test_an_answer_that_did_not_stream_is_told_whole() -> None:
    pieces = told(Transcript("r"), *turn(says("all\n\nof it")))
    assert [text for kind, text in pieces if kind == "text"] == ["all", "of it"]


def test_raw_text_flows_as_it_comes_and_ends_its_line() -> None:
    pieces = told(
        Transcript("r", block_mode=False),
        *turn(CompletionDelta("a "), CompletionDelta("b"), says("a b")),
    )
    assert "".join(text for kind, text in pieces if kind == "text") == "a b\n"


def test_escape_sequences_of_the_model_never_reach_the_screen() -> None:
    pieces = told(Transcript("r"), *turn(CompletionDelta("\x1b[2Jwiped\x07"), says("x")))
    assert ("text", "wiped") in pieces


def test_a_tool_call_is_one_line_with_mark_and_duration() -> None:
    requested = ToolRequested(run="r", call=LS, risk=Risk.CHANGE)
    result = ToolFinished(run="r", result=ToolResult(call_id="1", content="ok"), seconds=1.25)
    assert told(Transcript("r"), requested, result) == [("tool", "💻 ls -la  ✓ 1.2 s")]


def test_while_a_tool_runs_it_is_what_is_being_done() -> None:
    transcript = Transcript("r")
    told(
        transcript,
        ToolRequested(run="r", call=LS),
        ToolRequested(run="r", call=ToolCall("2", "look")),
    )
    assert transcript.current_activity == "🔧 look (+1)"


def test_a_failed_tool_shows_the_beginning_of_why() -> None:
    failed = ToolResult(call_id="1", content="no such\x1b[31m file\nsecond\nthird", status="error")
    pieces = told(
        Transcript("r"), ToolRequested(run="r", call=LS), ToolFinished(run="r", result=failed)
    )
    assert pieces[0][1].startswith("💻 ls -la  ✗")
    assert pieces[1][1] == "  │ no such file\n  │ second\n  │ … 1 more lines"


def test_a_refused_call_names_the_rule() -> None:
    denied = ToolResult(call_id="1", content="", status="denied")
    pieces = told(
        Transcript("r"),
        ToolRequested(run="r", call=LS),
        ToolDecided(run="r", call_id="1", verdict="deny", rule="no-ls"),
        ToolFinished(run="r", result=denied),
    )
    assert "✗ denied (no-ls)" in pieces[0][1]


def test_without_a_screen_a_call_is_announced_when_it_begins() -> None:
    finished = ToolFinished(run="r", result=ToolResult(call_id="1", content="ok"))
    transcript = Transcript("r", block_mode=False)
    assert told(transcript, ToolRequested(run="r", call=LS)) == [("tool", "💻 ls -la")]
    assert told(transcript, finished) == []


def test_only_new_tools_or_none_are_told_when_settings_say_so() -> None:
    again = ToolCall("2", "terminal", {"command": "pwd"})
    asked = [ToolRequested(run="r", call=LS), ToolRequested(run="r", call=again)]
    assert len(told(Transcript("r", block_mode=False, progress="new"), *asked)) == 1
    assert told(Transcript("r", block_mode=False, progress="none"), *asked) == []


def test_the_usage_line_sums_up_the_turn() -> None:
    costs = ModelAnswered(run="r", model="m", usage=Usage(1000, 50, 200, 0.0125))
    pieces = told(Transcript("r"), *turn(costs, costs, says("x")))
    assert pieces[-1] == ("usage", "2,000 in (400 cached) · 100 out · $0.0250 · 3.2 s")


def test_a_cost_of_nothing_is_an_unknown_price() -> None:
    costs = ModelAnswered(run="r", model="m", usage=Usage(10, 5))
    assert "price unknown" in told(Transcript("r"), *turn(costs))[-1][1]


def test_a_failed_turn_says_why_in_one_line() -> None:
    pieces = told(Transcript("r"), *turn(outcome="failed", reason="bad key:\ncheck \x1b[1mit"))
    assert pieces[0] == ("error", "this turn failed: bad key: check it")


def test_a_failed_attempt_ends_what_it_wrote_and_says_what_comes_next() -> None:
    fails = ModelFailed(run="r", model="a", error="overloaded", next="b", wait=2.0)
    pieces = told(
        Transcript("r"),
        *turn(CompletionDelta("half"), fails, CompletionDelta("whole"), says("whole")),
    )
    assert pieces[:3] == [
        ("text", "half"),
        ("error", "a: overloaded; trying b in 2.0 s"),
        ("text", "whole"),
    ]


def test_reasoning_is_shown_only_to_those_who_want_it() -> None:
    thought = [CompletionDelta(reasoning="hm"), CompletionDelta("so"), says("so", "hm")]
    assert ("reasoning", "hm") not in told(Transcript("r"), *turn(*thought))
    shown = told(Transcript("r", reasoning=True), *turn(*thought))
    assert shown[:2] == [("reasoning", "hm"), ("text", "so")]


def test_reasoning_that_did_not_stream_is_shown_too() -> None:
    shown = told(Transcript("r", reasoning=True), *turn(says("so", "hm")))
    assert shown[:2] == [("reasoning", "hm"), ("text", "so")]


def test_words_that_steer_a_running_turn_are_acknowledged() -> None:
    more = MessageAdded(run="r", message=Message(role="user", text="and be quick"))
    assert ("note", "↪ and be quick") in told(Transcript("r"), *turn(more))


def test_other_runs_are_not_told_and_subagents_briefly() -> None:
    other = RunStarted(run="x", origin="cli", task="other")
    child = RunStarted(run="c", origin="subagent", parent="r", task="look\nat logs")
    in_child = ToolRequested(run="c", call=LS)
    costs = ModelAnswered(run="c", model="m", usage=Usage(7, 3))
    pieces = told(Transcript("r"), *turn(other, child, in_child, costs))
    assert pieces[0] == ("note", "  🧩 look at logs")
    assert pieces[1][1].startswith("7 in · 3 out")
    assert len(pieces) == 2


def test_those_who_want_to_see_it_all_see_the_subagents_tools_and_results() -> None:
    transcript = Transcript("r")
    transcript.tool_progress.verbose = True
    child = RunStarted(run="c", origin="subagent", parent="r", task="t")
    result = ToolFinished(run="c", result=ToolResult(call_id="1", content="a file"))
    pieces = told(transcript, child, ToolRequested(run="c", call=LS), result)
    assert pieces[1][1].startswith("  💻 ls -la  ✓")
    assert pieces[2][1] == "  │ a file"


def test_compression_and_ended_processes_leave_a_note() -> None:
    pressed = ContextCompressed(run="r", summary="s", kept_first=1, dropped=9)
    gone = ProcessEnded(run="r", process="p-1", exit_code=3)
    pieces = told(Transcript("r"), pressed, gone)
    assert [kind for kind, _ in pieces] == ["note", "note"]
    assert "9 older messages" in pieces[0][1]
    assert "exited with 3" in pieces[1][1]


def test_after_lost_pieces_the_whole_answer_is_told() -> None:
    transcript = Transcript("r")
    told(transcript, TurnStarted(run="r", turn=1), CompletionDelta("beginning "))
    transcript.answer_stream.discard_stream()
    pieces = told(transcript, CompletionDelta("end"), says("beginning middle end"))
    assert pieces == [("text", "beginning middle end")]


def test_a_code_fence_is_one_block_with_its_blank_lines() -> None:
    blocks = MarkdownBlockSplitter()
    text = "intro\n\n```py\na = 1\n\n\nb = 2\n```\nafter\n"
    found = [block for letter in text for block in blocks.feed(letter)]
    assert found == ["intro", "```py\na = 1\n\n\nb = 2\n```"]
    assert blocks.flush() == "after"


def test_a_longer_fence_is_closed_only_by_one_as_long() -> None:
    blocks = MarkdownBlockSplitter()
    assert blocks.feed("````\n```\n\n```\n````\n") == ["````\n```\n\n```\n````"]
