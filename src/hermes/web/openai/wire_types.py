"""Requests and errors of the API of OpenAI, as its clients send and expect them."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from hermes.core.messages import AttachedText
from hermes.plumbing.http_service import HttpRefusal

TEXT_PART_TYPES = ("text", "input_text", "output_text")


class ContentPart(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


class ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        """Raises `HttpRefusal` for anything but text."""
        if isinstance(self.content, str):
            return self.content
        parts = self.content or []
        if strange := [part.type for part in parts if part.type not in TEXT_PART_TYPES]:
            message = f"only text is understood, not a part of type {strange[0]}"
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, message)
        return "\n".join(part.text for part in parts)


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class ChatCompletionRequest(msgspec.Struct, kw_only=True, frozen=True):
    model: str = ""
    messages: list[ChatMessage]
    stream: bool = False
    stream_options: StreamOptions | None = None
    tools: list[Any] | None = None
    n: int | None = None
    response_format: dict[str, Any] | None = None


class ResponsesRequest(msgspec.Struct, kw_only=True, frozen=True):
    model: str = ""
    input: str | list[ChatMessage]
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = False
    background: bool | None = False
    tools: list[Any] | None = None

    @property
    def messages(self) -> list[ChatMessage]:
        if isinstance(self.input, str):
            return [ChatMessage("user", self.input)]
        return self.input


def check_client_tools(tools: Sequence[Any] | None) -> None:
    if tools:
        message = "tools of the client are not called: Hermes has its own; leave `tools` out"
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, message)


def check_format(wanted: Mapping[str, Any] | None) -> None:
    """An answer that is not in the promised format would break the client later."""
    if wanted and wanted.get("type", "text") != "text":
        message = "answers are text: leave `response_format` out, or ask for JSON in words"
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, message)


def split_request(messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], str]:
    """The history, and the text of the last message. Raises `HttpRefusal`."""
    if not messages or messages[-1].role != "user":
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "the last message must have the role `user`")
    text = messages[-1].text
    if not text.strip():
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "the last message is empty")
    return list(messages[:-1]), text


def attached_message(message: ChatMessage) -> AttachedText:
    """The client says what was said before: it is not trusted."""
    return AttachedText(source="thread", text=message.text, author=message.role)


def history_digest(texts: Iterable[tuple[str, str]]) -> str:
    """Digest of roles and texts. Empty for no text at all."""
    pairs = [[role, text.strip()] for role, text in texts]
    return hashlib.sha256(msgspec.json.encode(pairs)).hexdigest() if pairs else ""
