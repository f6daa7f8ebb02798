"""A model that replays scripted replies, for tests, demos and replays. It uses no network."""

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import ModelError, PermanentModelError, SettingsError
from hermes.core.messages import Completion, CompletionDelta, Message, ToolSpec
from hermes.models.open import ModelContext

ScriptedReply = Message | Completion | ModelError


class ScriptedModel:
    """Returns its replies in order; a `ModelError` among them is raised."""

    window = 200_000

    def __init__(self, replies: Iterable[ScriptedReply], *, name: str = "scripted") -> None:
        self.name = name
        self._replies = iter(replies)
        self.seen: list[tuple[Message, ...]] = []

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        self.seen.append(tuple(messages))
        reply = next(self._replies, None)
        if reply is None:
            raise PermanentModelError(f"the script of {self.name} has no more replies")
        if isinstance(reply, ModelError):
            raise reply
        if isinstance(reply, Completion):
            return reply
        return Completion(message=reply, model=self.name, finish="calls" if reply.calls else "stop")

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncIterator[CompletionDelta | Completion]:
        completion = await self.complete(messages, tools)
        for part in re.findall(r"\S*\s+|\S+", completion.message.text):
            yield CompletionDelta(text=part)
        yield completion


def open_scripted(context: ModelContext) -> ScriptedModel:
    """`scripted:/path/to/file.jsonl` replays that file."""
    target = context.target
    return ScriptedModel(read_script(Path(target.model)), name=target.reference)


def read_script(path: Path) -> list[ScriptedReply]:
    """One reply per line: a `Message` as JSON (`role` may be left out), or a whole `Completion`.

    Empty lines and lines that begin with # are skipped. Raises `SettingsError` naming the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the script {path} cannot be read: {error}") from error
    return [
        _read_reply(line, f"{path}:{number}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]


def _read_reply(line: str, where: str) -> ScriptedReply:
    try:
        raw = msgspec.json.decode(line, type=dict[str, object])
        if "message" in raw:
            return msgspec.convert(raw, Completion)
        return msgspec.convert({"role": "assistant", **raw}, Message)
    except ValueError as error:
        raise SettingsError(f"{where}: not a reply: {error}") from error
