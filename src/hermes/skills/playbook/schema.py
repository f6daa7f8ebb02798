"""Defines the types of `playbook.yaml`; the JSON schema is generated from them."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hermes.core.messages import Risk

UNDO_FOLDER_PARAMETER = "kept"
"""A predefined parameter: the folder where steps may keep what their undo needs."""
FUNCTIONS_PLACEHOLDER = "supervisor_functions"
"""Stands for shell functions that answer about units, whatever supervisors the host has."""
KUBECTL_PLACEHOLDER = "kubectl"
"""Stands for kubectl with the connection of the settings."""
NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,47}$"
PlaybookName = Annotated[
    str, Meta(pattern=NAME_PATTERN, description="a-z, 0-9, - and _, at most 48 characters")
]
SnippetName = Annotated[
    str, Meta(pattern=rf"{NAME_PATTERN}|^$", description="the name of a shared snippet")
]
ShellCommand = Annotated[
    str,
    Meta(
        max_length=16_000,
        description="bash; {{name}} is replaced by the shell-quoted value of a parameter; in steps "
        "{{restart}}, {{start}}, {{stop}}, {{reload}}, {{enable}}, {{disable}} and "
        "{{reload_definitions}} by the command of the supervisor of the parameter `unit`, and "
        "{{restart name}} by that of the parameter `name`",
    ),
]
RegexText = Annotated[str, Meta(max_length=500, description="a regular expression, searched for")]
TimeoutSeconds = Annotated[float, Meta(gt=0, le=600, description="seconds")]
ParameterKind = Literal["text", "word", "number", "port", "path", "unit", "service", "host"]


class PlaybookPart(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of all parts: unknown keys are refused."""


class ExpectedResult(PlaybookPart, kw_only=True, frozen=True):
    """The expected result of a command; all given conditions must hold."""

    exit: int | None = 0
    """The exit code; null when any is accepted."""
    contains: str = ""
    """Text that the output must have."""
    lacks: str = ""
    """Text that the output must not have."""
    regex: RegexText = ""


SnippetNames = Annotated[
    tuple[PlaybookName, ...],
    Meta(description="shell snippets put before the command: the nearest `_probes/NAME.sh`"),
]


class PlaybookProbe(PlaybookPart, kw_only=True, frozen=True):
    """A command that only reads: with a name and a command, or `use` of a shared one."""

    name: PlaybookName = ""
    command: ShellCommand = ""
    use: SnippetName = ""
    """The command in `_probes/NAME.sh` of this skill, of its category, or bundled."""
    shared: SnippetNames = msgspec.field(default=(), name="with")
    expect: ExpectedResult = ExpectedResult()
    timeout: TimeoutSeconds = 10.0


class PlaybookCheck(PlaybookProbe, kw_only=True, frozen=True):
    """A probe that is repeated until it holds or the time is up."""

    within: TimeoutSeconds = 5.0
    symptom: bool = False
    """It checks the symptom itself, and not what the steps write: it must fail before the first
    step, else no step runs. When it holds afterwards, it is evidence of recovery."""


class PlaybookStep(PlaybookPart, kw_only=True, frozen=True):
    name: PlaybookName
    command: ShellCommand
    """`{{kept}}` is the path of a folder for copies of this run only; create it first."""
    shared: SnippetNames = msgspec.field(default=(), name="with")
    expect: ExpectedResult = ExpectedResult()
    undo: str = ""
    """The command that undoes the step, with the same parameters; empty when not needed."""
    risk: Risk = Risk.CHANGE
    timeout: TimeoutSeconds = 30.0


class PlaybookParameter(PlaybookPart, kw_only=True, frozen=True):
    """A value that differs between incidents."""

    source: PlaybookName = msgspec.field(name="from")
    """`alert`, or the name of the probe or step whose output has it."""
    kind: ParameterKind = "word"
    labels: tuple[str, ...] = ()
    """Labels of the alert that may hold it; the first present one is used."""
    pattern: RegexText = ""
    """Finds it in the text: the first group or the whole match; without pattern, the first line."""
    default: str | None = None
    """Used when it is not found; without one, the playbook does not run."""
    about: str = ""


class PlaybookSignature(PlaybookPart, kw_only=True, frozen=True):
    """When the playbook applies: by the words of the alert, and by probes on the host."""

    words: tuple[str, ...] = ()
    """Words and phrases of matching alerts; rare ones weigh more."""
    alert: tuple[RegexText, ...] = ()
    """One of them must match title, text or labels; without any, every alert may match."""
    probes: Annotated[tuple[PlaybookProbe, ...], Meta(min_length=1)]
    """All must hold, in this order, before anything is changed."""


class Playbook(PlaybookPart, kw_only=True, frozen=True):
    version: Literal[1] = 1
    summary: str
    signature: PlaybookSignature
    parameters: dict[PlaybookName, PlaybookParameter] = {}
    steps: Annotated[tuple[PlaybookStep, ...], Meta(min_length=1)]
    verify: Annotated[tuple[PlaybookCheck, ...], Meta(min_length=1)]
    testable: bool = True
    """False where it acts on running processes or sessions: a copy of the host has others, so a
    test there says nothing."""
