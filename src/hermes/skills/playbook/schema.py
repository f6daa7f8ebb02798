"""What `playbook.yaml` may say, as types: the JSON schema is made of them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hermes.core.messages import Risk

UNDO_FOLDER_PARAMETER = "kept"
"""A parameter that every playbook has: where its steps may keep what their undo needs."""
NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,47}$"
PlaybookName = Annotated[
    str, Meta(pattern=NAME_PATTERN, description="a-z, 0-9, - and _, at most 48 characters")
]
SnippetName = Annotated[
    str, Meta(pattern=rf"{NAME_PATTERN}|^$", description="the name of something shared")
]
ShellCommand = Annotated[
    str,
    Meta(
        max_length=16_000,
        description="bash; {{name}} is replaced by the shell-quoted value of a parameter",
    ),
]
RegexText = Annotated[str, Meta(max_length=500, description="a regular expression, searched for")]
TimeoutSeconds = Annotated[float, Meta(gt=0, le=600, description="seconds")]
ParameterKind = Literal["text", "word", "number", "port", "path", "unit", "host"]


class PlaybookPart(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of all parts: a key that is not known is a mistake, not a wish."""


class ExpectedResult(PlaybookPart, kw_only=True, frozen=True):
    """All that is said must hold of how a command ended."""

    exit: int | None = 0
    """Its exit code; null when any will do."""
    contains: str = ""
    """Words that its output has."""
    lacks: str = ""
    """Words that its output must not have."""
    regex: RegexText = ""


SnippetNames = Annotated[
    tuple[PlaybookName, ...],
    Meta(description="shell that goes before the command: `_probes/NAME.sh`, the nearest"),
]


class PlaybookProbe(PlaybookPart, kw_only=True, frozen=True):
    """A look that changes nothing: a name and a command of its own, or `use` of a shared one."""

    name: PlaybookName = ""
    command: ShellCommand = ""
    use: SnippetName = ""
    """The look in `_probes/NAME.sh` of this skill, its category, or what comes with Hermes."""
    shared: SnippetNames = msgspec.field(default=(), name="with")
    expect: ExpectedResult = ExpectedResult()
    timeout: TimeoutSeconds = 10.0


class PlaybookCheck(PlaybookPart, kw_only=True, frozen=True):
    """A look that is repeated until it holds, or time is up; its own, or `use` of a shared one."""

    name: PlaybookName = ""
    command: ShellCommand = ""
    use: SnippetName = ""
    """As with a probe."""
    shared: SnippetNames = msgspec.field(default=(), name="with")
    expect: ExpectedResult = ExpectedResult()
    timeout: TimeoutSeconds = 10.0
    within: TimeoutSeconds = 5.0
    symptom: bool = False
    """It observes the symptom itself, and not what the steps write: it must fail before the first
    step, else the playbook does not act. Holding afterwards, it is evidence of recovery."""


class PlaybookStep(PlaybookPart, kw_only=True, frozen=True):
    name: PlaybookName
    command: ShellCommand
    """`{{kept}}` is the path of a folder for copies that no other run has; make it first."""
    shared: SnippetNames = msgspec.field(default=(), name="with")
    expect: ExpectedResult = ExpectedResult()
    undo: str = ""
    """The way back, with the same parameters; empty when there is nothing to take back."""
    risk: Risk = Risk.CHANGE
    timeout: TimeoutSeconds = 30.0


class PlaybookParameter(PlaybookPart, kw_only=True, frozen=True):
    """A value that differs from case to case."""

    source: PlaybookName = msgspec.field(name="from")
    """`alert`, or the name of the probe or step whose output has it."""
    kind: ParameterKind = "word"
    labels: tuple[str, ...] = ()
    """Labels of the alert that may hold it, the first that is there."""
    pattern: RegexText = ""
    """Where in the text it stands: the first group, else the whole match; else the first line."""
    default: str | None = None
    """Used when it is not found; without one, the playbook does not run."""
    about: str = ""


class PlaybookSignature(PlaybookPart, kw_only=True, frozen=True):
    """What it is for: by the alert's words, and by what the live host shows."""

    words: tuple[str, ...] = ()
    """Words and phrases of alerts it is for; the rarer ones weigh more."""
    alert: tuple[RegexText, ...] = ()
    """One of them must be found in title, text or labels; none given: any alert may be meant."""
    probes: Annotated[tuple[PlaybookProbe, ...], Meta(min_length=1)]
    """All must hold, in this order, before anything is changed."""


class Playbook(PlaybookPart, kw_only=True, frozen=True):
    version: Literal[1] = 1
    summary: str
    signature: PlaybookSignature
    parameters: dict[PlaybookName, PlaybookParameter] = {}
    steps: Annotated[tuple[PlaybookStep, ...], Meta(min_length=1)]
    verify: Annotated[tuple[PlaybookCheck, ...], Meta(min_length=1)]


def playbook_json_schema() -> dict[str, Any]:
    """For editors and other programs; `playbook.schema.json` is this."""
    made: dict[str, Any] = _sort_enums(msgspec.json.schema(Playbook))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hermes playbook",
        **made,
    }


def _sort_enums(part: Any) -> Any:
    """Choices come out of a set: the file must not change from one day to the next."""
    if isinstance(part, dict):
        return {
            key: sorted(value, key=str) if key == "enum" else _sort_enums(value)
            for key, value in part.items()
        }
    return [_sort_enums(each) for each in part] if isinstance(part, list) else part
