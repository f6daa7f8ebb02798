"""Providers that hang, break off, lie about lengths or send pages: bounded, and named by kind."""

import json
import socket
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from strict_server import (
    KEY,
    StrictServer,
    answers,
    chunk,
    event,
    hangs,
    hangs_up,
    says,
    streams,
    usage_chunk,
)

from hermes.core.errors import (
    InvalidApiKey,
    MalformedReply,
    ModelError,
    ModelTimedOut,
    ProviderOverloaded,
    TemporaryModelError,
)
from hermes.core.messages import Completion, Message, Usage
from hermes.models.open import ModelConnections, open_model
from hermes.models.settings import ModelSettings, ProviderSettings

pytestmark = pytest.mark.anyio

ASK = [Message(role="user", text="hi")]
DONE = "data: [DONE]\n\n"


async def text_of(model: Any) -> str:
    last = [item async for item in model.stream(ASK)][-1]
    assert isinstance(last, Completion)
    return last.message.text


async def test_twenty_calls_use_one_connection(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    model, other = opened(), opened("lab:other")
    for number in range(20):
        server.will(says(f"answer {number}"))
        asked = text_of(model if number % 2 else other)
        assert await asked == f"answer {number}"
    assert (server.connections, len(server.requests)) == (1, 20)


async def test_calls_side_by_side_do_not_wait_for_each_other(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    model = opened()
    server.will(hangs(), *[says("quick")] * 4)
    quick: list[str] = []

    async def ask() -> None:
        quick.append(await text_of(model))

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(text_of, model)
            await server.asked.wait()
            async with anyio.create_task_group() as asking:
                for _ in range(4):
                    asking.start_soon(ask)
            group.cancel_scope.cancel()
    assert quick == ["quick"] * 4


@pytest.mark.parametrize("how", ["stream", "complete"])
async def test_a_server_that_never_answers_is_given_up(
    server: StrictServer, opened: Callable[..., Any], how: str
) -> None:
    server.will(hangs())
    model = opened(first_token_timeout=0.05)
    with anyio.fail_after(120), pytest.raises(ModelTimedOut, match="did not answer in time"):
        await (text_of(model) if how == "stream" else model.complete(ASK))


async def test_a_stream_that_stalls_is_given_up(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(streams(chunk({"content": "so "}), ends="hung"))
    with anyio.fail_after(120), pytest.raises(ModelTimedOut, match="middle of its answer"):
        await text_of(opened(timeout=0.05))


async def test_signs_of_life_alone_do_not_keep_a_stream_for_ever(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    pings = [": still here\n\n"] * 1000
    server.will(streams(chunk({"content": "so "}), *pings, pause=0.005))
    with anyio.fail_after(120), pytest.raises(ModelTimedOut):
        await text_of(opened(first_token_timeout=0.2, timeout=0.1))


async def test_signs_of_life_bridge_a_long_thought(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    pings = [": OPENROUTER PROCESSING\n\n"] * 20
    server.will(streams(*pings, chunk({"content": "42"}, "stop"), DONE, pause=0.1))
    assert await text_of(opened(timeout=1.5)) == "42"


async def test_a_slow_reader_is_not_taken_for_a_stalled_server(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(says("one two three"))
    seen = []
    async for item in opened(timeout=1.0).stream(ASK):
        if not seen:
            await anyio.sleep(1.5)
        seen.append(item)
    assert seen[-1].message.text == "one two three"


@pytest.mark.parametrize("act", [hangs_up(), streams(chunk({"content": "so "}), ends="closed")])
async def test_a_connection_closed_too_early_is_a_malformed_reply(
    server: StrictServer, opened: Callable[..., Any], act: Any
) -> None:
    server.will(act)
    with pytest.raises(MalformedReply, match="closed the connection"):
        await text_of(opened())


@pytest.mark.parametrize("ends", ["closed", "hung", "well"])
async def test_an_answer_that_was_already_whole_survives_a_bad_end(
    server: StrictServer, opened: Callable[..., Any], ends: str
) -> None:
    spent = usage_chunk(prompt_tokens=1, completion_tokens=2)
    server.will(streams(chunk({"content": "whole"}, "stop"), spent, ends=ends))
    with anyio.fail_after(120):
        *_, last = [item async for item in opened(timeout=600.0).stream(ASK)]
    assert (last.message.text, last.usage) == ("whole", Usage(1, 2))


async def test_the_word_done_ends_an_answer_that_gives_no_reason(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(streams(chunk({"content": "whole"}), DONE, ends="closed"))
    assert await text_of(opened()) == "whole"


@pytest.mark.parametrize("how", ["stream", "complete"])
@pytest.mark.parametrize(
    "body",
    [
        "<html><body>It works!</body></html>",
        "",
        '{"ok": true}',
        '{"choices": [{"mess',
        "[]",
        '{"choices": "none"}',
        '{"choices": [{"message": {"content": 7}}]}',
        "nothing of the kind",
    ],
)
async def test_what_is_not_an_answer_is_a_malformed_reply(
    server: StrictServer, opened: Callable[..., Any], how: str, body: str
) -> None:
    server.will(answers(200, body))
    model = opened()
    with pytest.raises(MalformedReply):
        await (text_of(model) if how == "stream" else model.complete(ASK))


async def test_a_broken_event_is_a_malformed_reply_that_shows_it(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(streams(chunk({"content": "a"}), 'data: {"choices": [{]}\n\n', DONE))
    with pytest.raises(MalformedReply, match="choices"):
        await text_of(opened())


async def test_invalid_utf8_costs_a_character_and_not_the_answer(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    broken = b'data: {"choices": [{"delta": {"content": "caf\xc3"}}]}\n\n'
    half = 'data: {"choices": [{"delta": {"content": "\\ud83d!"}}]}\n\n'
    server.will(streams(broken, half, chunk({}, "stop"), DONE))
    assert await text_of(opened()) == "caf\ufffd?!"


async def test_twenty_megabytes_without_a_newline_are_refused(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(streams("data: ", *[b"x" * 2**20] * 20))
    with pytest.raises(MalformedReply, match="more than"):
        await text_of(opened())


async def test_an_error_within_a_stream_is_told_by_its_kind(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    error = {"error": {"code": 502, "message": f"upstream of {KEY} is down"}}
    server.will(streams(chunk({"content": "so "}), event(error), DONE))
    with pytest.raises(ProviderOverloaded, match="upstream of") as told:
        await text_of(opened())
    assert KEY not in str(told.value)


async def test_a_refusal_in_the_body_of_a_success_is_still_a_refusal(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(answers(200, json.dumps({"error": {"code": 401, "message": "No auth"}})))
    with pytest.raises(InvalidApiKey, match="LAB_KEY"):
        await opened().complete(ASK)


async def test_nobody_listening_is_told_with_the_address_and_what_to_check() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    settings = ModelSettings(providers={"ollama": ProviderSettings(base_url=url)})
    async with ModelConnections() as connections:
        model = open_model("ollama:qwen3", settings, {}, connections)
        with pytest.raises(TemporaryModelError, match=f"{url}.*Is Ollama running"):
            await model.complete(ASK)


@pytest.mark.parametrize("key", ["", "sk-two\nlines", "sk-ключ"])
async def test_a_key_that_cannot_work_is_told_before_anything_is_sent(
    server: StrictServer, key: str
) -> None:
    settings = ModelSettings(
        providers={"lab": ProviderSettings(base_url=server.url, key_variable="LAB_KEY")}
    )
    async with ModelConnections() as connections:
        model = open_model("lab:m", settings, {"LAB_KEY": key}, connections)
        with pytest.raises(InvalidApiKey, match="LAB_KEY") as told:
            await model.complete(ASK)
    assert not server.requests
    assert not key or key not in str(told.value)


async def test_secrets_stay_out_of_errors_even_when_the_provider_repeats_them(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    server.will(answers(401, json.dumps({"error": {"message": f"Incorrect API key: {KEY}"}})))
    with pytest.raises(InvalidApiKey) as told:
        await opened().complete(ASK)
    error: BaseException | None = told.value
    while error is not None:
        assert KEY not in str(error)
        error = error.__cause__ or error.__context__
    assert "hermes setup" in str(told.value)


async def test_leaving_a_stream_early_leaves_the_client_usable(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    model = opened()
    server.will(streams(chunk({"content": "so "}), ends="hung"), says("next"))
    stream = model.stream(ASK)
    async for _ in stream:
        break
    await stream.aclose()
    assert await text_of(model) == "next"


async def test_cancelling_a_call_leaves_the_client_usable(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    model = opened()
    server.will(hangs(), says("next"))
    async with anyio.create_task_group() as group:
        group.start_soon(model.complete, ASK)
        await server.asked.wait()
        group.cancel_scope.cancel()
    assert await text_of(model) == "next"


async def test_a_model_raises_model_errors_and_nothing_else(
    server: StrictServer, opened: Callable[..., Any]
) -> None:
    async def nonsense(request: Any, writer: Any) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        raise ConnectionResetError

    server.will(nonsense)
    with pytest.raises(ModelError):
        await opened().complete(ASK)
