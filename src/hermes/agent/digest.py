"""Shortens a stretch of conversation without a model: what was asked, run, touched, and failed."""

from collections.abc import Iterator, Sequence

import msgspec

from hermes.agent.own_words import STORY, SUMMARY, own_words
from hermes.agent.results import exit_status, shorten
from hermes.core.messages import Message, ToolCall, ToolResult
from hermes.policy.data_marks import without_marks

_PATHS = ("path", "file", "filename", "file_path")


def digest(messages: Sequence[Message], size: int) -> str:
    """One line for each thing that happened, the newest kept when `size` characters are full."""
    lines = list(_lines(messages))
    kept: list[str] = []
    room = size
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            kept.append(f"- [{len(lines) - len(kept):,} earlier steps left out]")
            break
        kept.append(line)
    files = sorted(_files(messages))
    touched = [shorten(f"- files touched: {', '.join(files)}", 600)] if files else []
    return "\n".join([*reversed(kept), *touched])


def transcript(messages: Sequence[Message], size: int) -> str:
    """The stretch as text; when it is too long, tool outputs shrink first, the oldest first."""
    pieces = [_whole(message) for message in messages]
    total = sum(map(len, pieces))
    for limit in (1000, 200):
        for index, message in enumerate(messages):
            if total <= size:
                break
            if message.result is not None and len(pieces[index]) > limit:
                total -= len(pieces[index])
                pieces[index] = shorten(pieces[index], limit)
                total += len(pieces[index])
    return shorten("\n".join(pieces), size)


def _lines(messages: Sequence[Message]) -> Iterator[str]:
    results = {m.result.call_id: m.result for m in messages if m.result is not None}
    for message in messages:
        if message.role == "user" and message.text.startswith(SUMMARY):
            yield from without_marks(message.text.partition(STORY)[2].strip()).splitlines()
        elif message.role == "user" and not own_words(message.text):
            yield f"- asked: {_one_line(message.text, 300)}"
        elif message.role == "assistant":
            if message.text.strip():
                yield f"- said: {_one_line(message.text, 300)}"
            for call in message.calls:
                yield f"- ran {_face(call)} → {_outcome(results.get(call.id))}"


def _whole(message: Message) -> str:
    if message.result is not None:
        return f"result ({message.result.status}): {message.result.content}"
    calls = "".join(f"\ncall: {_face(call, 600)}" for call in message.calls)
    return f"{message.role}: {message.text}{calls}"


def _face(call: ToolCall, size: int = 160) -> str:
    arguments = msgspec.json.encode(call.arguments).decode()
    return f"{call.name} {_one_line(arguments, size)}"


def _outcome(result: ToolResult | None) -> str:
    if result is None:
        return "no result"
    status = exit_status(result.content)
    lines = [line for line in result.content.splitlines() if line.strip()]
    last = _one_line(lines[-1], 160) if lines else "no output"
    if result.status != "ok" or status:
        return f"{result.status if status is None else f'exit {status}'}: {last}"
    return f"{'ok' if status is None else 'exit 0'}: {last}"


def _files(messages: Sequence[Message]) -> set[str]:
    calls = (call for message in messages for call in message.calls)
    return {str(call.arguments[key]) for call in calls for key in _PATHS if call.arguments.get(key)}


def _one_line(text: str, size: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= size else f"{line[: size - 1]}…"
