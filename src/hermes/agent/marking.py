"""What a model sees of a conversation: whatever a tool brought along stands between data marks.

Marks are made when a message is shown, not when it is written down: the journal keeps one copy.
They depend on the run and the text alone, so a resumed conversation has the same prefix.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from hermes.core.messages import Message, ToolResult
from hermes.policy.data_marks import as_data

OWN_WORDS = frozenset({"clarify", "todo"})
"""Tools that bring back a person's answer, or the agent's own list: nobody else's words."""


class Marking:
    """Remembers what it marked: the same messages are shown again and again."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._shown: dict[str, tuple[Message, Message]] = {}

    def over(self, messages: Sequence[Message], remarks: Mapping[str, str]) -> tuple[Message, ...]:
        """`remarks` are our own words below a result, by call: they are no data."""
        tools = {call.id: call.name for message in messages for call in message.calls}
        return tuple(self._one(message, tools, remarks) for message in messages)

    def _one(
        self, message: Message, tools: Mapping[str, str], remarks: Mapping[str, str]
    ) -> Message:
        result = message.result
        if result is None or result.status == "denied":  # a refusal is what we say ourselves
            return message
        source = tools.get(result.call_id, "a tool")
        if source in OWN_WORDS:
            return message
        before, after = self._shown.get(result.call_id, (None, message))
        if before is not message:
            after = replace(message, result=self._marked(result, source, remarks))
            self._shown[result.call_id] = message, after
        return after

    def _marked(self, result: ToolResult, source: str, remarks: Mapping[str, str]) -> ToolResult:
        remark = remarks.get(result.call_id, "")
        text = result.content.removesuffix(remark)
        return replace(result, content=as_data(text, source, self._run) + remark)
