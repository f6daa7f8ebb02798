"""`/v1/responses`: conversations that the server keeps."""

import re
import time
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Any

import msgspec

from hermes.core.messages import Usage
from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest
from hermes.web.access import AccessControl, ApiCaller
from hermes.web.agent_turns import (
    AgentTurn,
    AgentTurns,
    TurnEnd,
    TurnPart,
    TurnQuestion,
    TurnText,
    TurnToolCall,
    wait_for_client,
)
from hermes.web.api_routes import ApiRoute
from hermes.web.event_stream import PING, STREAM_HEADERS, STREAM_TYPE, next_or_ping, stream_event
from hermes.web.openai.wire_types import (
    ResponsesRequest,
    attached_message,
    check_client_tools,
    split_request,
)
from hermes.web.request_body import decode_body, refuse_errors

_ID = re.compile(r"resp_(run-[0-9a-zA-Z-]+)\.([0-9]{1,9})")


class Responses:
    def __init__(self, turns: AgentTurns, access: AccessControl) -> None:
        self._turns = turns
        self._access = access

    def routes(self) -> list[ApiRoute]:
        one = "/v1/responses/{id}"
        return [
            ApiRoute(
                method="POST", path="/v1/responses", right="chat", respond=self._create,
                about="One turn of a conversation that the server keeps.",
                body=ResponsesRequest, answer=dict[str, Any], streams=True,
            ),
            ApiRoute(
                method="GET", path=one, right="chat", respond=self._show,
                about="A response, also while it is being worked on.", answer=dict[str, Any],
            ),
            ApiRoute(
                method="DELETE", path=one, right="chat", respond=self._delete,
                about="Delete the conversation of a response.", answer=dict[str, Any],
            ),
            ApiRoute(
                method="POST", path=f"{one}/cancel", right="chat", respond=self._cancel,
                about="End the work on a response.", answer=dict[str, Any],
            ),
        ]  # fmt: skip

    async def _create(self, request: HttpRequest) -> HttpReply:
        asked = decode_body(request, ResponsesRequest)
        check_client_tools(asked.tools)
        caller = self._access.caller(request)
        if asked.stream:
            self._access.check_stream(caller)
        turn = await self._begin_turn(asked, caller)
        response = Response(turn, asked)
        if asked.stream:
            stream = self._stream(response, caller)
            return HttpReply(content_type=STREAM_TYPE, headers=STREAM_HEADERS, stream=stream)
        if not asked.background:
            await wait_for_client(request, turn, response.wait_for_end)
        return HttpReply(body=msgspec.json.encode(response.data()))

    async def _begin_turn(self, asked: ResponsesRequest, caller: ApiCaller) -> AgentTurn:
        earlier, text = split_request(asked.messages)
        history = [attached_message(each) for each in earlier]
        with refuse_errors():
            if asked.previous_response_id is None:
                return await self._turns.begin(
                    text, person=caller.person, model=asked.model, history=history
                )
            run, number = parse_response_id(asked.previous_response_id)
            latest = await self._turns.find_answer(run, person=caller.person)
            if latest is None:
                raise HttpRefusal(HTTPStatus.NOT_FOUND, "there is no such response")
            if latest.turn != number:
                message = "continue from the latest response of the conversation"
                raise HttpRefusal(HTTPStatus.CONFLICT, message)
            return await self._turns.resume(run, text, person=caller.person, history=history)

    async def _show(self, request: HttpRequest) -> HttpReply:
        run, number = parse_response_id(request.params["id"])
        person = self._access.caller(request).person
        with refuse_errors():
            answer = await self._turns.find_answer(run, number, person=person)
        if answer is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "there is no such response")
        data = response_fields(request.params["id"], answer.model, answer.at.timestamp())
        if answer.end is None:
            return HttpReply(body=msgspec.json.encode({**data, "status": "in_progress"}))
        return HttpReply(body=msgspec.json.encode({**data, **end_fields(answer.end, [])}))

    async def _delete(self, request: HttpRequest) -> HttpReply:
        run, _ = parse_response_id(request.params["id"])
        await self._turns.delete(run, person=self._access.caller(request).person)
        data = {"id": request.params["id"], "object": "response", "deleted": True}
        return HttpReply(body=msgspec.json.encode(data))

    async def _cancel(self, request: HttpRequest) -> HttpReply:
        run, _ = parse_response_id(request.params["id"])
        person = self._access.caller(request).person
        with refuse_errors():
            known = await self._turns.find_answer(run, person=person)
        turn = self._turns.find_active(run)
        if known is None or turn is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "no such response is being worked on here")
        turn.interrupt()
        data = response_fields(request.params["id"], turn.model, time.time())
        return HttpReply(body=msgspec.json.encode({**data, "status": "cancelled"}))

    async def _stream(self, response: "Response", caller: ApiCaller) -> AsyncGenerator[bytes, None]:
        """A client that goes away does not end the turn: it can ask for the response later."""
        with self._access.count_stream(caller):
            for event in response.first_events():
                yield event
            while True:
                part = await next_or_ping(response.turn.next_part)
                if part is None:
                    yield PING
                    continue
                for event in response.events_for(part):
                    yield event
                if isinstance(part, TurnEnd):
                    return


class Response:
    """One response while it is being made, in the shape of the API."""

    def __init__(self, turn: AgentTurn, asked: ResponsesRequest) -> None:
        self.turn = turn
        self._id = f"resp_{turn.run}.{turn.number}"
        self._item = f"msg_{turn.run}.{turn.number}"
        self._fields = response_fields(self._id, asked.model or turn.model, time.time())
        self._calls: list[dict[str, Any]] = []
        self._end: TurnEnd | None = None
        self._sequence = 0
        self._text_length = 0

    def data(self) -> dict[str, Any]:
        if self._end is None:
            return {**self._fields, "status": "in_progress"}
        return {**self._fields, **end_fields(self._end, self._calls, self._item)}

    async def wait_for_end(self) -> None:
        while self._end is None:
            self.add(await self.turn.next_part())

    def add(self, part: TurnPart) -> None:
        if isinstance(part, TurnToolCall):
            self._calls.append(call_item(part))
        elif isinstance(part, TurnEnd):
            self._end = part

    def first_events(self) -> list[bytes]:
        item = message_item(self._item, "", "in_progress")
        return [
            self._event("response.created", response=self.data()),
            self._event("response.in_progress", response=self.data()),
            self._event("response.output_item.added", output_index=0, item={**item, "content": []}),
            self._event("response.content_part.added", **self._place, part=text_part("")),
        ]

    def events_for(self, part: TurnPart) -> list[bytes]:
        self.add(part)
        if isinstance(part, TurnText):
            return [self._text_event(part.text)]
        if isinstance(part, TurnQuestion):
            return [stream_event(part, name="hermes.approval")]
        if isinstance(part, TurnToolCall):
            place = {"output_index": len(self._calls), "item": self._calls[-1]}
            return [
                self._event("response.output_item.added", **place),
                self._event("response.output_item.done", **place),
            ]
        return self._last_events(part)

    def _text_event(self, text: str) -> bytes:
        self._text_length += len(text)
        return self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def _last_events(self, end: TurnEnd) -> list[bytes]:
        text = end.answer or end.reason
        events = [] if self._text_length else [self._text_event(text)]
        item = message_item(self._item, text, "completed")
        failed = end.outcome == "failed"
        return [
            *events,
            self._event("response.output_text.done", **self._place, text=text, logprobs=[]),
            self._event("response.content_part.done", **self._place, part=text_part(text)),
            self._event("response.output_item.done", output_index=0, item=item),
            self._event(
                "response.failed" if failed else "response.completed", response=self.data()
            ),
        ]

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._sequence += 1
        data = {"type": kind, "sequence_number": self._sequence - 1, **fields}
        return stream_event(data, name=kind)


def parse_response_id(text: str) -> tuple[str, int]:
    """Run and turn. Raises `HttpRefusal`."""
    found = _ID.fullmatch(text)
    if found is None:
        raise HttpRefusal(HTTPStatus.NOT_FOUND, "there is no such response")
    return found[1], int(found[2])


def response_fields(id: str, model: str, created_s: float) -> dict[str, Any]:
    return {
        "id": id,
        "object": "response",
        "created_at": int(created_s),
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
    }


def end_fields(end: TurnEnd, calls: list[dict[str, Any]], item: str = "msg") -> dict[str, Any]:
    status = {"answered": "completed", "failed": "failed"}.get(end.outcome, "incomplete")
    fields: dict[str, Any] = {
        "status": status,
        "output": [message_item(item, end.answer or end.reason, "completed"), *calls],
        "usage": usage_fields(end.usage),
    }
    if status == "failed":
        fields["error"] = {"code": "server_error", "message": end.reason}
    elif status == "incomplete":
        fields["incomplete_details"] = {"reason": "max_output_tokens"}
    return fields


def usage_fields(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def message_item(id: str, text: str, status: str) -> dict[str, Any]:
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [text_part(text)],
    }


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def call_item(call: TurnToolCall) -> dict[str, Any]:
    return {
        "id": f"fc_{call.call_id}",
        "type": "function_call",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }
