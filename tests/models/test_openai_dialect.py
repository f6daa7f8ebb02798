"""The OpenAI dialect as servers really speak it, against one that checks what we send."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from strict_server import StrictServer, answers, chunk, event, says, streams, usage_chunk

from hermes.core.errors import MalformedReply
from hermes.core.messages import (
    Completion,
    CompletionDelta,
    Message,
    Risk,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from hermes.models.message_format import MISSING_RESULT_TEXT

pytestmark = pytest.mark.anyio

ASK = [Message(role="system", text="Be brief."), Message(role="user", text="hi")]
TOOLS = [ToolSpec(name="run", description="Runs.", parameters={"type": "object"}, risk=Risk.CHANGE)]
DONE = "data: [DONE]\n\n"


async def answer(
    model: Any, messages: list[Message] = ASK
) -> tuple[Completion, list[CompletionDelta]]:
    items = [item async for item in model.stream(messages, TOOLS)]
    assert isinstance(items[-1], Completion)
    return items[-1], [item for item in items if isinstance(item, CompletionDelta)]


def call_piece(index: int | None, arguments: str = "", **more: Any) -> dict[str, Any]:
    """A fragment of a tool call; `name` and `id` as given."""
    function = {"arguments": arguments}
    if "name" in more:
        function["name"] = more.pop("name")
    piece = {"function": function, **more}
    return {"tool_calls": [piece if index is None else {"index": index, **piece}]}


async def test_words_are_shown_as_they_come_and_then_the_whole(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(says("all is well"))
    whole, deltas = await answer(opened())
    assert [delta.text for delta in deltas] == ["all ", "is ", "well"]
    assert whole.message == Message(role="assistant", text="all is well")
    assert (whole.usage, whole.finish, whole.model) == (Usage(7, 3), "stop", "lab:m")
    sent = server.requests[0]
    assert sent.headers["authorization"].startswith("Bearer sk-")
    assert sent.body["stream_options"] == {"include_usage": True}


async def test_an_answer_that_is_not_streamed_says_the_same(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(says("all is well"))
    whole = await opened().complete(ASK)
    assert whole.message.text == "all is well"
    assert "stream" not in server.requests[0].body


async def test_a_server_that_ignores_stream_is_understood(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    message = {"role": "assistant", "content": "so be it", "tool_calls": [call]}
    server.will(answers(200, json.dumps({"choices": [{"message": message}]})))
    whole, deltas = await answer(opened())
    assert deltas == [CompletionDelta(text="so be it", tool="run")]
    assert whole.message.calls == (ToolCall("a", "run"),)
    assert whole.usage.input_tokens > 0  # estimated, so that a budget still bites


async def test_interleaved_fragments_of_two_calls_are_told_apart(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(
        streams(
            chunk(call_piece(0, "", id="a", name="run")),
            chunk(call_piece(1, '{"x"', id="b", name="stop")),
            chunk(call_piece(0, '{"c": ')),
            chunk(call_piece(1, ": 1}")),
            chunk(call_piece(0, '"ls"}')),
            chunk({}, "tool_calls"),
            usage_chunk(
                prompt_tokens=10, completion_tokens=5, prompt_tokens_details={"cached_tokens": 8}
            ),
            DONE,
        )
    )
    whole, deltas = await answer(opened())
    assert whole.message.calls == (
        ToolCall("a", "run", {"c": "ls"}),
        ToolCall("b", "stop", {"x": 1}),
    )
    assert [delta.tool for delta in deltas] == ["run", "stop"]
    assert (whole.finish, whole.usage) == ("calls", Usage(10, 5, 8))


@pytest.mark.parametrize("index", [None, 0])
async def test_calls_without_proper_indexes_or_ids_get_ids_of_their_own(
    server: StrictServer, opened: Callable[..., Any], index: int | None
) -> None:
    server.will(
        streams(
            chunk(call_piece(index, '{"n": 1}', id="call_0", name="run")),
            chunk(call_piece(index, '{"n": 2}', id="call_1", name="run")),
            chunk({}, "stop"),
            DONE,
        )
    )
    earlier = [
        *ASK,
        Message(role="assistant", calls=(ToolCall("call_0", "run"),)),
        Message(role="tool", result=ToolResult(call_id="call_0", content="ok")),
    ]
    whole, _ = await answer(opened(), earlier)
    first, second = whole.message.calls
    assert (first.arguments, second.arguments) == ({"n": 1}, {"n": 2})
    assert first.id != "call_0"  # that one was taken
    assert second.id == "call_1"
    assert whole.finish == "calls"


async def test_calls_without_any_id_are_named(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(
        streams(
            chunk(call_piece(0, "{}", name="run")),
            chunk(call_piece(1, "{}", name="run")),
            chunk({}, "tool_calls"),
        )
    )
    whole, _ = await answer(opened())
    ids = [call.id for call in whole.message.calls]
    assert len(set(ids)) == 2
    assert all(ids)


@pytest.mark.parametrize("raw", ['{"command": ', "ls -l", "[1, 2]", "null"])
async def test_arguments_that_are_no_object_are_kept_for_the_executor_to_complain_about(
    server: StrictServer, opened: Callable[..., Any], raw: str
) -> None:
    server.will(
        streams(chunk(call_piece(0, raw, id="a", name="run")), chunk({}, "tool_calls"), DONE),
        says("sorry"),
    )
    model = opened()
    whole, _ = await answer(model)
    assert whole.message.calls == (ToolCall("a", "run", malformed=raw),)
    told = Message(role="tool", result=ToolResult(call_id="a", content="not JSON", status="error"))
    await answer(model, [*ASK, whole.message, told])  # the strict server takes it back


async def test_arguments_quoted_twice_and_given_as_an_object_are_read(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    object_call = {"index": 1, "id": "b", "function": {"name": "run", "arguments": {"n": 2}}}
    server.will(
        streams(
            chunk(call_piece(0, json.dumps('{"n": 1}'), id="a", name="run")),
            chunk({"tool_calls": [object_call]}),
            chunk({}, "tool_calls"),
        )
    )
    whole, _ = await answer(opened())
    assert [call.arguments for call in whole.message.calls] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("last", [(), (DONE,)], ids=["closed", "done"])
async def test_half_a_tool_call_is_not_run(
    server: StrictServer, opened: Callable[..., Any], last: tuple[str, ...]
) -> None:
    half = chunk(call_piece(0, '{"command": "rm -rf /tm', id="a", name="run"))
    server.will(streams(half, *last))
    with pytest.raises(MalformedReply, match="middle of"):
        await answer(opened())


async def test_a_call_whose_arguments_never_came_is_not_run_without_them(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(streams(chunk(call_piece(0, "", id="a", name="run"))))
    with pytest.raises(MalformedReply, match="middle of"):
        await answer(opened())


async def test_a_call_cut_off_by_the_output_limit_is_told_to_the_model(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(streams(chunk(call_piece(0, '{"t": "xx', id="a", name="run")), chunk({}, "length")))
    whole, _ = await answer(opened())
    assert whole.finish == "length"
    assert whole.message.calls[0].malformed


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_kept_and_passed_back(
    server: StrictServer, opened: Callable[..., Any], field: str
) -> None:
    server.will(
        streams(
            chunk({field: "hm, "}), chunk({field: "so"}), chunk({"content": "42"}, "stop"), DONE
        ),
        says("bye"),
    )
    model = opened()
    whole, deltas = await answer(model)
    assert whole.message == Message(role="assistant", text="42", reasoning="hm, so")
    assert deltas[0] == CompletionDelta(reasoning="hm, ")
    await answer(model, [*ASK, whole.message, Message(role="user", text="thanks")])
    assert server.requests[1].body["messages"][2]["reasoning_content"] == "hm, so"


async def test_reasoning_is_not_sent_to_a_provider_that_refuses_it(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(says("ok"))
    thought = Message(role="assistant", text="42", reasoning="hm")
    await answer(opened("openai:gpt-5.6-sol", max_output_tokens=100), [*ASK, thought, ASK[1]])
    body = server.requests[0].body
    assert "reasoning_content" not in body["messages"][2]
    assert body["max_completion_tokens"] == 100


async def test_openrouter_gets_its_reasoning_details_back_and_its_cost_is_believed(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    def part(**more: str) -> str:
        return chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, **more}]})

    server.will(
        streams(
            part(text="thin"),
            part(text="king", signature="S"),
            chunk({"content": "ok"}, "stop"),
            usage_chunk(prompt_tokens=9, completion_tokens=1, cost=0.5),
            DONE,
        ),
        says("bye"),
        says("bye"),
    )
    model = opened("openrouter:anthropic/claude-sonnet-5.5")
    whole, _ = await answer(model)
    assert whole.usage.cost_usd == 0.5
    again = [*ASK, whole.message, ASK[1]]
    await answer(model, again)
    sent = server.requests[1].body
    assert sent["messages"][2]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "thinking", "signature": "S"}
    ]
    assert sent["cache_control"] == {"type": "ephemeral"}
    await answer(opened("openrouter:openai/gpt-5.6-sol"), again)
    assert "reasoning_details" not in server.requests[2].body["messages"][2]  # not its own


async def test_a_cost_nobody_told_is_reckoned_from_the_catalogue(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    spent = usage_chunk(
        prompt_tokens=1_000_000,
        completion_tokens=100_000,
        prompt_tokens_details={"cached_tokens": 500_000},
    )
    server.will(streams(chunk({"content": "ok"}, "stop"), spent, DONE))
    whole, _ = await answer(opened("openai:gpt-5.6-sol"))
    assert whole.usage.cost_usd == pytest.approx(0.5 * 2 + 0.5 * 0.2 + 0.1 * 10)


@pytest.mark.parametrize(
    ("said", "finish"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "filtered"), ("eos", "stop")],
)
async def test_finish_reasons_are_told_apart(
    server: StrictServer, opened: Callable[..., Any], said: str, finish: str
) -> None:
    server.will(streams(chunk({"content": "x"}, said), DONE))
    assert (await answer(opened()))[0].finish == finish


async def test_content_in_parts_is_joined(server: StrictServer, opened: Callable[..., Any]) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    server.will(streams(event({"choices": [{"delta": {"content": parts}}]}), DONE))
    assert (await answer(opened()))[0].message.text == "ab"


async def test_loose_ends_of_a_conversation_are_tied_before_it_is_sent(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(says("ok"))
    orphan = Message(role="tool", result=ToolResult(call_id="gone", content="x"))
    calling = Message(role="assistant", calls=(ToolCall("a", "run"), ToolCall("b", "run")))
    late = Message(role="tool", result=ToolResult(call_id="a", content="done"))
    await answer(opened(), [*ASK, orphan, calling, Message(role="user", text="stop!"), late])
    sent = server.requests[0].body["messages"]
    assert [message["role"] for message in sent] == [
        *("system", "user", "assistant", "tool", "tool", "user")
    ]
    assert [message["content"] for message in sent[3:5]] == ["done", MISSING_RESULT_TEXT]


async def test_broken_characters_in_our_own_words_do_not_stop_a_request(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(says("ok"))
    await answer(opened(), [Message(role="user", text="half \ud83d a pair")])
    assert server.requests[0].body["messages"][0]["content"] == "half ? a pair"
