"""Writes a conversation to a file of the person's choice, and never over another one."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Message


def save_conversation(name: str, *, run: str, messages: Sequence[Message]) -> str:
    """What was written where, in words. Raises `SettingsError` when it cannot be written."""
    wanted = Path(name or f"hermes-{run}.md").expanduser()
    text = _as_json(run, messages) if wanted.suffix.lower() == ".json" else _as_text(run, messages)
    try:
        written = _write_new(wanted, text)
    except OSError as error:
        raise SettingsError(f"cannot write {wanted}: {error.strerror}") from error
    said = f"saved {len(messages)} messages to {written}"
    return said if written == wanted else f"{wanted} exists and was left alone; {said}"


def _write_new(wanted: Path, text: str) -> Path:
    for path in _names(wanted):
        try:
            # Only for its owner: conversations carry what tools have read.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return path
    raise AssertionError("unreachable: the names never end")


def _names(wanted: Path) -> Iterator[Path]:
    yield wanted
    number = 2
    while True:
        yield wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
        number += 1


def _as_json(run: str, messages: Sequence[Message]) -> str:
    whole = msgspec.json.encode({"run": run, "messages": messages})
    return msgspec.json.format(whole).decode() + "\n"


def _as_text(run: str, messages: Sequence[Message]) -> str:
    parts = [f"# {run}"]
    for message in messages:
        if message.result is not None:
            parts.append(f"**{message.result.status}**\n\n{_fenced(message.result.content)}")
        elif message.role != "system" and message.text:
            parts.append(f"## {message.role}\n\n{message.text}")
        for call in message.calls:
            arguments = msgspec.json.format(msgspec.json.encode(call.arguments)).decode()
            parts.append(f"### {call.name}\n\n{_fenced(arguments)}")
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
