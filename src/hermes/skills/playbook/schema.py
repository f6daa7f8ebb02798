"""What `playbook.yaml` may say, as types: the JSON schema is made of them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hermes.core.messages import Risk

KEPT = "kept"
"""A parameter that every playbook has: where its steps may keep what their undo needs."""
NAME = r"^[a-z][a-z0-9_-]{0,47}$"
Name = Annotated[str, Meta(pattern=NAME, description="a-z, 0-9, - and _, at most 48 characters")]
Use = Annotated[str, Meta(pattern=rf"{NAME}|^$", description="the name of something shared")]
Command = Annotated[
    str,
    Meta(
        max_length=16_000,
        description="bash; {{name}} is replaced by the shell-quoted value of a parameter",
    ),
]
Regex = Annotated[str, Meta(max_length=500, description="a regular expression, searched for")]
Seconds = Annotated[float, Meta(gt=0, le=600, description="seconds")]
Kind = Literal["text", "word", "number", "port", "path", "unit", "host"]


class Part(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of all parts: a key that is not known is a mistake, not a wish."""


class Expect(Part, kw_only=True, frozen=True):
    """All that is said must hold of how a command ended."""

    exit: int | None = 0
    """Its exit code; null when any will do."""
    contains: str = ""
    """Words that its output has."""
    lacks: str = ""
    """Words that its output must not have."""
    regex: Regex = ""


Shared = Annotated[
    tuple[Name, ...],
    Meta(description="shell that goes before the command: `_probes/NAME.sh`, the nearest"),
]


class Probe(Part, kw_only=True, frozen=True):
    """A look that changes nothing: a name and a command of its own, or `use` of a shared one."""

    name: Name = ""
    command: Command = ""
    use: Use = ""
    """The look in `_probes/NAME.sh` of this skill, its category, or what comes with Hermes."""
    shared: Shared = msgspec.field(default=(), name="with")
    expect: Expect = Expect()
    timeout: Seconds = 10.0


class Check(Part, kw_only=True, frozen=True):
    """A look that is repeated until it holds, or time is up; its own, or `use` of a shared one."""

    name: Name = ""
    command: Command = ""
    use: Use = ""
    """As with a probe."""
    shared: Shared = msgspec.field(default=(), name="with")
    expect: Expect = Expect()
    timeout: Seconds = 10.0
    within: Seconds = 5.0
    symptom: bool = False
    """It observes the symptom itself, and not what the steps write: it must fail before the first
    step, else the playbook does not act. Holding afterwards, it is evidence of recovery."""


class Step(Part, kw_only=True, frozen=True):
    name: Name
    command: Command
    """`{{kept}}` is the path of a folder for copies that no other run has; make it first."""
    shared: Shared = msgspec.field(default=(), name="with")
    expect: Expect = Expect()
    undo: str = ""
    """The way back, with the same parameters; empty when there is nothing to take back."""
    risk: Risk = Risk.CHANGE
    timeout: Seconds = 30.0


class Parameter(Part, kw_only=True, frozen=True):
    """A value that differs from case to case."""

    source: Name = msgspec.field(name="from")
    """`alert`, or the name of the probe or step whose output has it."""
    kind: Kind = "word"
    labels: tuple[str, ...] = ()
    """Labels of the alert that may hold it, the first that is there."""
    pattern: Regex = ""
    """Where in the text it stands: the first group, else the whole match; else the first line."""
    default: str | None = None
    """Used when it is not found; without one, the playbook does not run."""
    about: str = ""


class Signature(Part, kw_only=True, frozen=True):
    """What it is for: by the alert's words, and by what the live host shows."""

    words: tuple[str, ...] = ()
    """Words and phrases of alerts it is for; the rarer ones weigh more."""
    alert: tuple[Regex, ...] = ()
    """One of them must be found in title, text or labels; none given: any alert may be meant."""
    probes: Annotated[tuple[Probe, ...], Meta(min_length=1)]
    """All must hold, in this order, before anything is changed."""


class Playbook(Part, kw_only=True, frozen=True):
    version: Literal[1] = 1
    summary: str
    signature: Signature
    parameters: dict[Name, Parameter] = {}
    steps: Annotated[tuple[Step, ...], Meta(min_length=1)]
    verify: Annotated[tuple[Check, ...], Meta(min_length=1)]


def json_schema() -> dict[str, Any]:
    """For editors and other programs; `playbook.schema.json` is this."""
    made: dict[str, Any] = _in_order(msgspec.json.schema(Playbook))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hermes playbook",
        **made,
    }


def _in_order(part: Any) -> Any:
    """Choices come out of a set: the file must not change from one day to the next."""
    if isinstance(part, dict):
        return {
            key: sorted(value, key=str) if key == "enum" else _in_order(value)
            for key, value in part.items()
        }
    return [_in_order(each) for each in part] if isinstance(part, list) else part
