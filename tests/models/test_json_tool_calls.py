"""Tool calls as constrained JSON: what is written can be read back, and a half reply is no call."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import MalformedReply
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, ToolSpec
from hermes.models import json_tool_calls

TERMINAL = ToolSpec(
    name="terminal",
    description="Run a command.\nMore words.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}},
    risk=Risk.CHANGE,
)


def read(text: str, *, cut: bool = False) -> Message:
    return json_tool_calls.parse_reply(text, call_id="c1", cut=cut)


def test_the_conversation_is_written_without_native_calls() -> None:
    call = ToolCall("a", "terminal", {"command": "ls"})
    written = json_tool_calls.render_messages(
        [
            Message(role="system", text="You are Hermes."),
            Message(role="user", text="look"),
            Message(role="assistant", calls=(call,)),
            Message(role="tool", result=ToolResult(call_id="a", content="x.log")),
            Message(role="assistant", text="one file"),
        ],
        [TERMINAL],
    )
    assert [row["role"] for row in written] == ["system", "user", "assistant", "user", "assistant"]
    assert "terminal(command): Run a command." in written[0]["content"]
    assert read(written[2]["content"]).calls[0].arguments == {"command": "ls"}
    assert read(written[4]["content"]).text == "one file"


def test_a_reply_is_a_call_or_an_answer_and_nothing_else() -> None:
    assert read('{"answer": "done"}').text == "done"
    assert read('{"tool": "terminal", "arguments": {"command": "ls"}}').calls == (
        ToolCall("c1", "terminal", {"command": "ls"}),
    )
    for broken in ("", "[]", "hello", '{"tool": 3}', '{"answer": 4}', '{"tool": "terminal", "arg'):
        with pytest.raises(MalformedReply):
            read(broken)


def test_a_cut_off_answer_is_kept_and_a_cut_off_call_is_refused() -> None:
    assert read('{"answer": "the disk is fu', cut=True).text == "the disk is fu"
    with pytest.raises(MalformedReply):
        read('{"tool": "terminal", "arguments": {"command": "rm -r', cut=True)


@given(st.text())
def test_an_answer_can_be_shown_while_it_grows(answer: str) -> None:
    text = json.dumps({"answer": answer})
    shown = [json_tool_calls.visible_answer(text[:end]) for end in range(len(text) + 1)]
    assert shown[-1] == answer
    assert all(answer.startswith(piece) for piece in shown)
    assert json_tool_calls.visible_answer('{"tool": "terminal"') == ""


def test_the_schema_leaves_one_choice_a_tool_and_the_answer() -> None:
    choices = json_tool_calls.reply_schema([TERMINAL])["anyOf"]
    assert choices[0]["properties"]["tool"] == {"const": "terminal"}
    assert choices[0]["properties"]["arguments"]["additionalProperties"] is False
    assert "answer" in choices[1]["properties"]
