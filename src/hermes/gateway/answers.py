"""Reads answers to approval requests from chat messages.

A press of a button is an answer, and so is `yes 4f2a1c` in a message that quotes the question.
Nothing else is: agreement in other words, a voice message, a forwarded or an edited message never
approves anything, no matter who sent it.
"""

import re
from typing import Literal, cast, get_args

from hermes.core.channels import InboundMessage, parse_press
from hermes.core.messages import Value

AnswerVerb = Literal["once", "session", "always", "deny", "go", "stop"]
_WORDS: dict[str, AnswerVerb] = {
    "yes": "once",
    "approve": "once",
    "no": "deny",
    "deny": "deny",
    "go": "go",
    "stop": "stop",
}
_ANSWER = re.compile(rf"/?({'|'.join(_WORDS)})\s+([0-9a-z-]{{4,64}})", re.IGNORECASE)


class AnswerText(Value, kw_only=True, frozen=True):
    """An answer to an approval request, as read from a message."""

    approval: str
    """The id of the request, or its end as people write it."""
    verb: AnswerVerb
    problem: str = ""
    """Why a message of this kind is no answer; empty: it may be one."""


def read_answer(message: InboundMessage, quoted_approval: str) -> AnswerText | None:
    """The answer in a message; None when it is ordinary talk, or a press of another kind.

    `quoted_approval` is the request in the message that this one quotes.
    """
    if message.pressed:
        pressed = parse_press(message.pressed)
        if pressed is None or pressed[0] not in get_args(AnswerVerb):
            return None
        return AnswerText(approval=pressed[1], verb=cast("AnswerVerb", pressed[0]))
    found = _ANSWER.fullmatch(_answer_text(message).strip())
    if found is None:
        return None
    approval = found[2].lower()
    return AnswerText(
        approval=approval,
        verb=_WORDS[found[1].lower()],
        problem=_problem(message, approval, quoted_approval),
    )


def _answer_text(message: InboundMessage) -> str:
    """The answer, also where another person gave it: that is refused with the reason."""
    others = (part.text for part in message.attached if part.source in ("forward", "transcript"))
    return message.text or next(others, "")


def _problem(message: InboundMessage, approval: str, quoted_approval: str) -> str:
    if message.voice or any(part.source == "transcript" for part in message.attached):
        return "a voice message never answers an approval; press a button or write it"
    if message.forwarded or any(part.source == "forward" for part in message.attached):
        return "a forwarded message is somebody else's word; press a button or write it yourself"
    if message.edited:
        return "an edited message never answers an approval; write a new one"
    if not quoted_approval:
        return f"quote the question that you answer, and write: yes {approval}"
    if not quoted_approval.endswith(approval) and not quoted_approval.startswith(approval):
        return f"you quoted another question ({quoted_approval}) than {approval}"
    return ""
