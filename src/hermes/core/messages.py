"""Values that pass between the agent, the model and the tools."""

from enum import StrEnum
from typing import Any, Literal

import msgspec


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of every value: immutable, compared by content, small as JSON.

    Unknown fields are ignored when reading, so that two versions can share one journal.
    """


class Risk(StrEnum):
    """The kind of change that a tool may make; a policy checks it first."""

    READ = "read"
    CHANGE = "change"
    DESTROY = "destroy"


class ToolSpec(Value, kw_only=True, frozen=True):
    """A tool as the model and the policy see it."""

    name: str
    description: str
    parameters: dict[str, Any]
    risk: Risk
    alone: bool = False
    """True when it must not run beside other calls of the same message."""


class ToolCall(Value, frozen=True):
    id: str
    name: str
    arguments: dict[str, Any] = {}
    malformed: str = ""
    """The raw argument text when it was not a JSON object; the executor reports that to the model.
    """


class RemoteTarget(Value, kw_only=True, frozen=True):
    """Where a call acts when that is not the environment of the agent. The tool says it, never the
    model; such a call is never isolated."""

    kind: str
    """The kind of system: prometheus, kubernetes, mcp."""
    host: str = ""
    namespace: str = ""
    service: str = ""


class OutgoingRequest(Value, kw_only=True, frozen=True):
    """The HTTP request that a call would send. The tool says it, never the model."""

    method: str
    url: str
    body: str = ""
    effect: Literal["", "read", "write", "delete", "service-change"] = ""
    """What the definition of the tool says about exactly this path; empty: the method decides."""
    configured: bool = False
    """Whether the operator named its host in the settings."""
    undo: str = ""
    """How it is undone, for people; empty when it is not known."""
    price_usd: float = 0.0
    """What it costs, about, in US dollars; 0 when nothing, or when it is not known."""


class ToolDefinition(Value, kw_only=True, frozen=True):
    """Identifies the definition of a tool that is not part of this program."""

    name: str = ""
    """The name for rules, such as `mcp:github/create_issue`; empty: the name of the tool."""
    digest: str = ""
    """The hash of the definition: an approval ends when it changes. Empty: the command tells all.
    """


MAX_PICTURE_SIDE_PX = 1_568
MAX_PICTURE_BYTES = 1_000_000
"""A larger picture is not sent to a model."""
MAX_SENT_PICTURES = 3
"""Older pictures of a conversation are described in words."""
PIXELS_PER_TOKEN = 750
PICTURE_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")
"""How the files begin that may be pictures."""


class Picture(Value, kw_only=True, frozen=True):
    """A picture in a message or a result. Its bytes are an artifact, never part of the journal."""

    artifact: str
    media: str
    """What its content says it is: image/png, image/jpeg, image/webp or image/gif."""
    width: int
    height: int
    bytes: int
    alt: str = ""
    """What stands in its place where it is not shown; it is as trustworthy as the picture."""

    @property
    def fits(self) -> bool:
        """Whether it is small enough to be sent to a model."""
        side = max(self.width, self.height)
        return side <= MAX_PICTURE_SIDE_PX and self.bytes <= MAX_PICTURE_BYTES

    @property
    def tokens(self) -> int:
        return -(-self.width * self.height // PIXELS_PER_TOKEN)

    def describe(self) -> str:
        size = f"{self.width} × {self.height}, {self.media.removeprefix('image/')}"
        return f"[picture: {self.alt or 'not described'} ({size}, {self.artifact})]"


class LoadedPicture(Picture, kw_only=True, frozen=True):
    """A picture with its bytes, on its way to a model. It is never journalled."""

    data: bytes


class ToolResult(Value, kw_only=True, frozen=True):
    call_id: str
    content: str
    status: Literal["ok", "error", "denied"] = "ok"
    artifact: str = ""
    """Where the whole text is kept when `content` is only a preview."""
    pictures: tuple[Picture, ...] = ()


class AttachedText(Value, frozen=True):
    """Text in a message that its sender did not type: it is untrusted."""

    source: Literal[
        "quote", "forward", "thread", "file", "link", "transcript", "output", "job", "webhook"
    ]
    text: str
    author: str = ""


class Message(Value, kw_only=True, frozen=True):
    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    attached: tuple[AttachedText, ...] = ()
    """Of a user message: what others wrote. The model sees it marked as data."""
    key: str = ""
    """Which message of a chat it is, so that each is answered once."""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    result: ToolResult | None = None
    wire: tuple[dict[str, Any], ...] = ()
    """Blocks that only the provider understands and expects back, such as signed thinking."""
    pictures: tuple[Picture, ...] = ()
    """Of a user message: what the person sent; those of a result are in the result."""


def describe_pictures(message: Message) -> Message:
    """The message with words in the place of its pictures."""
    result = message.result
    found = message.pictures if result is None else result.pictures
    if not found:
        return message
    words = [picture.describe() for picture in found]
    if result is None:
        text = "\n".join([message.text, *words])
        return msgspec.structs.replace(message, text=text, pictures=())
    content = "\n".join([result.content, *words])
    result = msgspec.structs.replace(result, content=content, pictures=())
    return msgspec.structs.replace(message, result=result)


class Usage(Value, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cost_usd + other.cost_usd,
        )

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Completion(Value, kw_only=True, frozen=True):
    message: Message
    usage: Usage = Usage()
    model: str = ""
    """The model that really answered: it may be a fallback."""
    beside: Usage = Usage()
    """What other models used that were asked for this answer."""
    finish: Literal["stop", "calls", "length", "filtered"] = "stop"


class CompletionDelta(Value, frozen=True):
    """A part of an answer while it is being written. Shown live, never journalled."""

    text: str = ""
    reasoning: str = ""
    tool: str = ""
    """Name of a tool the model has begun to call."""
