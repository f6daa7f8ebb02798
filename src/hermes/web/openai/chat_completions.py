"""`POST /v1/chat/completions` and `GET /v1/models`."""

import time
from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus
from typing import Any

import anyio
import msgspec

from hermes.core.messages import Usage
from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest
from hermes.web.access import AccessControl, ApiCaller
from hermes.web.agent_turns import (
    CLIENT_GONE,
    AgentTurn,
    AgentTurns,
    HistoryIndex,
    TurnEnd,
    TurnQuestion,
    TurnText,
    wait_for_client,
)
from hermes.web.api_routes import ApiRoute
from hermes.web.event_stream import PING, STREAM_HEADERS, STREAM_TYPE, next_or_ping, stream_event
from hermes.web.openai.wire_types import (
    ChatCompletionRequest,
    attached_message,
    check_client_tools,
    check_format,
    history_digest,
    split_request,
)
from hermes.web.request_body import decode_body, refuse_errors

QUESTION_TIMEOUT_S = 60.0
"""How long a request without a stream waits for an approval before it answers with the link."""
OWNER = "hermes"

ApprovalLink = Callable[[str], str]
"""The address where a person answers the request with this id."""


class ChatCompletions:
    def __init__(
        self,
        turns: AgentTurns,
        histories: HistoryIndex,
        access: AccessControl,
        approval_link: ApprovalLink,
    ) -> None:
        self._turns = turns
        self._histories = histories
        self._access = access
        self._approval_link = approval_link

    def routes(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                method="POST", path="/v1/chat/completions", right="chat", respond=self._complete,
                about="One turn of a conversation whose history the client sends.",
                body=ChatCompletionRequest, answer=dict[str, Any], streams=True,
            ),
            ApiRoute(
                method="GET", path="/v1/models", right="chat", respond=self._list_models,
                about="The models that can be asked.", answer=dict[str, Any],
            ),
        ]  # fmt: skip

    async def _list_models(self, request: HttpRequest) -> HttpReply:
        models = [
            {"id": name, "object": "model", "created": 0, "owned_by": OWNER}
            for name in self._turns.model_names()
        ]
        return HttpReply(body=msgspec.json.encode({"object": "list", "data": models}))

    async def _complete(self, request: HttpRequest) -> HttpReply:
        asked = decode_body(request, ChatCompletionRequest)
        check_client_tools(asked.tools)
        check_format(asked.response_format)
        if (asked.n or 1) != 1:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "n must be 1")
        caller = self._access.caller(request)
        if asked.stream:
            self._access.check_stream(caller)
        turn = await self._begin_turn(asked, caller)
        completion = CompletionResponse(turn, asked)
        if asked.stream:
            stream = self._stream(completion, asked, caller)
            return HttpReply(
                content_type=STREAM_TYPE,
                headers=STREAM_HEADERS,
                stream=stream,
                on_stream_end=lambda: turn.interrupt(CLIENT_GONE),
            )
        end = await wait_for_client(request, turn, lambda: self._wait_for_end(turn))
        await self._record_history(asked, turn, end, caller)
        return HttpReply(body=completion.whole(end))

    async def _begin_turn(self, asked: ChatCompletionRequest, caller: ApiCaller) -> AgentTurn:
        earlier, text = split_request(asked.messages)
        digest = history_digest((each.role, each.text) for each in earlier)
        with refuse_errors():
            run = await self._histories.find_run(digest, caller.person) if digest else ""
            if run:
                return await self._turns.resume(run, text, person=caller.person)
            history = [attached_message(each) for each in earlier]
            return await self._turns.begin(
                text, person=caller.person, model=asked.model, history=history
            )

    async def _record_history(
        self, asked: ChatCompletionRequest, turn: AgentTurn, end: TurnEnd, caller: ApiCaller
    ) -> None:
        if end.outcome != "answered":
            return
        texts = [(each.role, each.text) for each in asked.messages]
        digest = history_digest([*texts, ("assistant", end.answer)])
        await self._histories.record(turn.run, digest, caller.person)

    async def _wait_for_end(self, turn: AgentTurn) -> TurnEnd:
        """Where the policy waits for a person, say so after a minute; the run goes on."""
        deadline, question = float("inf"), None
        while True:
            with anyio.move_on_at(deadline):
                part = await turn.next_part()
                if isinstance(part, TurnEnd):
                    return part
                if isinstance(part, TurnQuestion):
                    question = part
                    deadline = anyio.current_time() + QUESTION_TIMEOUT_S
                continue
            assert question is not None
            return TurnEnd(answer=self._question_text(question), outcome="interrupted")

    def _question_text(self, question: TurnQuestion) -> str:
        link = self._approval_link(question.approval)
        return (
            f"This waits for a person:\n\n    {question.shown}\n\n"
            f"Answer it at {link} or with: hermes approvals show {question.approval}\n"
        )

    async def _stream(
        self, completion: "CompletionResponse", asked: ChatCompletionRequest, caller: ApiCaller
    ) -> AsyncGenerator[bytes, None]:
        turn = completion.turn
        yield completion.chunk({"role": "assistant", "content": ""})
        with self._access.count_stream(caller):
            while True:
                part = await next_or_ping(turn.next_part)
                if part is None:
                    yield PING
                elif isinstance(part, TurnText):
                    yield completion.chunk({"content": part.text})
                elif isinstance(part, TurnQuestion):
                    yield stream_event(part, name="hermes.approval")
                    yield completion.chunk({"content": self._question_text(part)})
                elif isinstance(part, TurnEnd):
                    break
        await self._record_history(asked, turn, part, caller)
        for chunk in completion.final_chunks(part):
            yield chunk


class CompletionResponse:
    """Renders one answer in the shape of the API."""

    def __init__(self, turn: AgentTurn, asked: ChatCompletionRequest) -> None:
        self.turn = turn
        self._asked = asked
        self._head = {
            "id": f"chatcmpl-{turn.run}",
            "created": int(time.time()),
            "model": asked.model or turn.model,
        }
        self._streamed = False

    def whole(self, end: TurnEnd) -> bytes:
        message = {"role": "assistant", "content": end.answer or end.reason}
        choice = {"index": 0, "message": message, "finish_reason": finish_reason(end)}
        body = {"object": "chat.completion", "choices": [choice], "usage": usage_fields(end.usage)}
        return msgspec.json.encode({**self._head, **body})

    def chunk(self, delta: dict[str, str], reason: str | None = None) -> bytes:
        self._streamed = self._streamed or bool(delta.get("content"))
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return stream_event({**self._head, "object": "chat.completion.chunk", "choices": [choice]})

    def final_chunks(self, end: TurnEnd) -> list[bytes]:
        chunks = []
        if not self._streamed:  # a model that does not stream, or no answer
            chunks.append(self.chunk({"content": end.answer or end.reason}))
        chunks.append(self.chunk({}, finish_reason(end)))
        options = self._asked.stream_options
        if options is not None and options.include_usage:
            usage = {"object": "chat.completion.chunk", "choices": []}
            chunks.append(stream_event({**self._head, **usage, "usage": usage_fields(end.usage)}))
        return [*chunks, b"data: [DONE]\n\n"]


def finish_reason(end: TurnEnd) -> str:
    return "length" if end.outcome == "exhausted" else "stop"


def usage_fields(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
