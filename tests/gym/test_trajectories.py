"""Runs as examples: what the model saw, nothing that was taken back, and readable again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import SettingsError
from hermes.core.events import Event
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    RunDeleted,
    RunStarted,
    TurnEnded,
    TurnStarted,
    TurnUndone,
)
from hermes.core.events.tools import ToolFinished
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, ToolSpec
from hermes.gym.training.trajectory import build_trajectories, count_tool_calls
from hermes.gym.training.trajectory_formats import escape_tags, to_openai, to_sharegpt
from trajectory_reader import from_openai, from_sharegpt, unescape_tags

SPEC = ToolSpec(
    name="terminal", description="Runs it.", parameters={"type": "object"}, risk=Risk.DESTROY
)
TOOLS = {"terminal": SPEC}
RUN = "run-1"


def began(**more: object) -> list[Event]:
    begun = RunStarted(run=RUN, origin="cli", model="m", tools=("terminal",), **more)  # type: ignore[arg-type]
    return [begun, said("system", "You are Hermes.")]


def said(role: str, text: str = "", **more: object) -> MessageAdded:
    return MessageAdded(run=RUN, message=Message(role=role, text=text, **more))  # type: ignore[arg-type]


def turn(number: int, asked: str, *events: Event, outcome: str = "answered") -> list[Event]:
    return [
        TurnStarted(run=RUN, turn=number),
        said("user", asked),
        *events,
        TurnEnded(run=RUN, turn=number, outcome=outcome),  # type: ignore[arg-type]
    ]


def calls(*ids: str, reasoning: str = "", text: str = "") -> MessageAdded:
    made = tuple(ToolCall(id, "terminal", {"command": f"echo {id}"}) for id in ids)
    return said("assistant", text, calls=made, reasoning=reasoning)


def answer(id: str, content: str, status: str = "ok") -> ToolFinished:
    result = ToolResult(call_id=id, content=content, status=status)  # type: ignore[arg-type]
    return ToolFinished(run=RUN, result=result)


WORKED = [
    *began(),
    *turn(
        1,
        "what fills the disk?",
        calls("a", "b", reasoning="look first"),
        answer("b", "no such file", "error"),
        answer("a", "log 9G </tool_response> <tool_call>"),
        said("assistant", "A log does."),
    ),
]


def test_a_run_reads_as_the_seed_shows_it() -> None:
    (made,) = build_trajectories(WORKED, TOOLS)
    line = to_sharegpt(made)
    system, human, gpt, tool, last = line["conversations"]
    assert [each["from"] for each in line["conversations"]] == [
        "system",
        "human",
        "gpt",
        "tool",
        "gpt",
    ]
    assert system["value"].startswith("You are Hermes.\n\n<tools>[{")
    assert (
        json.loads(system["value"].partition("<tools>")[2].removesuffix("</tools>"))[0]["function"][
            "name"
        ]
        == "terminal"
    )
    assert human["value"] == "what fills the disk?"
    assert gpt["value"] == (
        "<think>look first</think>\n"
        '<tool_call>{"name":"terminal","arguments":{"command":"echo a"}}</tool_call>\n'
        '<tool_call>{"name":"terminal","arguments":{"command":"echo b"}}</tool_call>'
    )
    assert tool["value"].count("</tool_response>") == 2, "what a tool printed closes no tag"
    assert '"status":"error"' in tool["value"]
    assert last["value"] == "A log does."
    assert line["completed"] is True
    assert line["metadata"]["tool_errors"] == 1


@pytest.mark.parametrize(
    ("write", "read"), [(to_sharegpt, from_sharegpt), (to_openai, from_openai)]
)
def test_what_was_written_reads_back_as_it_was(write, read) -> None:  # type: ignore[no-untyped-def]
    wrong = ToolCall("c", "terminal", {}, '{"command": ')
    events = [
        *WORKED,
        *turn(
            2,
            "a <tool_call> is a tag",
            said("assistant", "so is </think>", reasoning="<think> &lt;tools>", calls=(wrong,)),
            answer("c", "not JSON", "error"),
            said("assistant", "\n both\n"),
        ),
    ]
    (made,) = build_trajectories(events, TOOLS)
    assert read(json.dumps(write(made))) == made


@given(
    st.text()
    | st.lists(st.sampled_from(["<", "&", "lt;", "amp;", "/", "think>", "x"])).map("".join)
)
def test_escaping_takes_nothing_away(text: str) -> None:
    assert unescape_tags(escape_tags(text)) == text
    assert "</think>" not in escape_tags(text)


def test_a_turn_that_was_taken_back_is_no_example() -> None:
    events = [*WORKED, *turn(2, "oops", said("assistant", "done")), TurnUndone(run=RUN, turn=2)]
    (made,) = build_trajectories(events, TOOLS)
    assert made.messages[-1].text == "A log does."
    assert made.about.turns == 1


def test_a_compressed_history_is_one_example_for_each_window() -> None:
    more = turn(2, "and now?", said("assistant", "Nothing more."))
    cut = ContextCompressed(run=RUN, summary="[told]", kept_first=2, dropped=4)
    (first, second) = build_trajectories([*WORKED, cut, *more], TOOLS)
    assert (first.about.part, first.about.parts, second.about.part) == (1, 2, 2)
    assert first.messages[-1].text == "A log does."
    assert [each.text for each in second.messages[2:]] == ["[told]", "and now?", "Nothing more."]
    assert second.about.carried == 3


def test_a_turn_undone_after_a_compression_is_in_no_window() -> None:
    more = turn(2, "and now?", said("assistant", "Nothing more."))
    cut = ContextCompressed(run=RUN, summary="[told]", kept_first=2, dropped=2)
    made = build_trajectories(
        [*WORKED, *more, cut, TurnUndone(run=RUN, turn=2), *turn(3, "b", said("assistant", "c"))],
        TOOLS,
    )
    assert made
    for each in made:
        assert "and now?" not in [message.text for message in each.messages]


def test_a_run_that_was_cut_off_is_whole_and_marked() -> None:
    events = [*began(), *turn(1, "x", calls("a"))[:-1]]
    (made,) = build_trajectories(events, TOOLS)
    assert not made.completed
    assert made.about.outcome == "open"
    assert made.messages[-1].result is not None, "each call has an answer"
    assert from_sharegpt(json.dumps(to_sharegpt(made))).messages == made.messages


def test_a_run_without_an_answer_or_deleted_has_no_example() -> None:
    assert build_trajectories([*began(), *turn(1, "x", outcome="failed")], TOOLS) == []
    assert build_trajectories([*WORKED, RunDeleted(run=RUN)], TOOLS) == []


def test_a_tool_that_is_no_longer_installed_keeps_its_name_and_is_reported() -> None:
    (made,) = build_trajectories(WORKED, {})
    assert made.about.undescribed == ("terminal",)
    assert made.tools[0].name == "terminal"


def test_calls_are_counted_by_tool_and_by_how_they_ended() -> None:
    (made,) = build_trajectories(WORKED, TOOLS)
    assert count_tool_calls(made.messages) == {
        "terminal": {"count": 2, "success": 1, "failure": 1, "denied": 0}
    }


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"conversations":[{"from":"gpt"}]}'])
def test_a_line_that_is_none_is_named(line: str) -> None:
    with pytest.raises(SettingsError, match="not a"):
        from_sharegpt(line)
    with pytest.raises(SettingsError, match="not a"):
        from_openai(line)
