"""Makes a conversation acceptable to providers, which refuse one with loose ends.

Every call is answered, at once and in order. A result whose call is gone (undone, summarised)
goes too. After a crash a call may have no result: then the model is told so.
"""

from collections import defaultdict, deque
from collections.abc import Sequence

from hermes.core.messages import Message, ToolResult

NO_RESULT = "No result was recorded: the run was cut off here. It may or may not have happened."


def paired(messages: Sequence[Message]) -> list[Message]:
    results: defaultdict[str, deque[Message]] = defaultdict(deque)
    for message in messages:
        if message.result is not None:
            results[message.result.call_id].append(message)
    out: list[Message] = []
    for message in messages:
        if message.role == "tool":
            continue
        out.append(message)
        for call in message.calls:
            found = results[call.id]
            out.append(found.popleft() if found else _unanswered(call.id))
    return out


def _unanswered(call_id: str) -> Message:
    return Message(
        role="tool", result=ToolResult(call_id=call_id, content=NO_RESULT, status="error")
    )


def origin_mark(reference: str) -> dict[str, str]:
    """Stands before the blocks kept in `Message.wire`: only who made them may have them back."""
    return {"from": reference}


def blocks_of(message: Message, reference: str) -> list[dict[str, object]]:
    """The provider's own blocks of a message, if this model made them."""
    if message.wire and message.wire[0] == origin_mark(reference):
        return list(message.wire[1:])
    return []
