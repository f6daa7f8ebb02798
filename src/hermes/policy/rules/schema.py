"""The schema of the three kinds of policy documents. Unknown keys are errors.

`ActionPolicy` decides, `PolicyException` lifts a named policy for a time, `PolicyTest` contains
expected verdicts. `rules.documents` reads them, `rules.rule` compiles them.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import field

from hermes.plumbing.problems import suggest_name

WordOrWords = str | tuple[str, ...]
"""One word or a list of words; some fields allow `*` and `?`."""
PolicyEffect = Literal["allow", "dry-run", "ask", "deny"]

API_VERSION = "hermes/v1"


class DocumentSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of a document."""


class DocumentMetadata(DocumentSection, frozen=True, kw_only=True):
    name: str
    description: str = ""
    labels: dict[str, str] = {}


class PathMatch(DocumentSection, frozen=True, kw_only=True):
    """`~` is the home folder, `.` the workspace."""

    under: WordOrWords = ()
    """Folders, with everything in them."""
    exactly: WordOrWords = ()
    like: WordOrWords = ()
    """Patterns with `*` over the whole path."""


class TargetMatch(DocumentSection, frozen=True, kw_only=True):
    environment: WordOrWords = ()
    """The stage of the environment (prod, staging), or its kind (local, docker) if not set."""
    place: WordOrWords = ()
    """The kind of environment: local, sandbox, docker, ssh."""
    host: WordOrWords = ()
    service: WordOrWords = ()
    namespace: WordOrWords = ()
    isolated: bool | None = None


class IncidentMatch(DocumentSection, frozen=True, kw_only=True):
    id: WordOrWords = ()
    severity: WordOrWords = ()
    service: WordOrWords = ()


class ActorMatch(DocumentSection, frozen=True, kw_only=True):
    name: WordOrWords = ()
    origin: WordOrWords = ()
    tainted: bool | None = None


class WhenSection(DocumentSection, frozen=True, kw_only=True):
    """Facts in place of an expression: `when: {tested: true}`."""

    tested: bool | None = None
    reviewed: bool | None = None


class ToolMatch(DocumentSection, frozen=True, kw_only=True):
    name: WordOrWords = ()
    """Names such as `mcp:github/*`."""
    digest: WordOrWords = ()
    """The hash of the definition of the tool: the rule ends to match when the tool changes."""


class MatchClause(DocumentSection, frozen=True, kw_only=True):
    """All of its fields must match."""

    tool: WordOrWords | ToolMatch = ()
    """Names, or `{name: ..., digest: ...}`."""
    effects: WordOrWords = ()
    program: WordOrWords = ()
    """The name without its folder, or the path when the pattern has a slash."""
    verb: WordOrWords = ()
    """The word after the program: `commit` of `git commit`."""
    flags: WordOrWords = ()
    via: WordOrWords = ()
    """Wrappers around the program: sudo, xargs, sh -c."""
    paths: PathMatch | None = None
    """Every path it names."""
    changes: PathMatch | None = None
    """Paths it would write or delete."""
    repositories: PathMatch | None = None
    """Folders whose git repository would be changed."""
    written: bool | None = None
    """Whether it runs a file that the agent wrote."""
    reviewed: bool | None = None
    """Whether it is a step of a bundled playbook."""
    tested: bool | None = None
    """Whether its fix ended the failure on a copy of the host."""
    reversible: bool | None = None
    """Whether it is a change of a service that is known to be reversible and bounded."""
    target: TargetMatch | None = None
    incident: IncidentMatch | None = None
    actor: ActorMatch | None = None
    command: WordOrWords = ()
    """The whole command, exactly."""
    action: WordOrWords = ()
    """The hash of the exact action, as `hermes policy explain` shows it."""
    when: str | WhenSection = ""
    """A CEL expression, or facts about the action."""


class PolicyMatch(DocumentSection, frozen=True, kw_only=True):
    any: tuple[MatchClause, ...] = ()
    """One of these must match."""
    all: tuple[MatchClause, ...] = ()
    """Each of these must match."""


class ApproversSection(DocumentSection, frozen=True, kw_only=True):
    from_: tuple[str, ...] = field(default=(), name="from")
    """Groups or people; empty is anybody with the right to approve."""
    count: int = 1
    not_: tuple[str, ...] = field(default=("requester",), name="not")


class EscalationSection(DocumentSection, frozen=True, kw_only=True):
    after: str
    to: str


class GrantSection(DocumentSection, frozen=True, kw_only=True):
    scope: Literal["exact-action", "session"] = "exact-action"
    uses: int = 1
    valid_for: str = "15m"


class RateLimit(DocumentSection, frozen=True, kw_only=True):
    """Above the limit, `allow` becomes `ask`, and `ask` becomes `deny`."""

    key: Literal["service", "host", "target", "program", "tool", "run", "actor", "rule"] = "rule"
    max: int
    per: str


class DecideSection(DocumentSection, frozen=True, kw_only=True):
    effect: PolicyEffect
    announce: str = ""
    """With `ask`: announces the action, and proceeds after this time unless it is stopped."""
    approvers: ApproversSection = ApproversSection()
    timeout: str = ""
    """Without an answer by then, it is denied; empty is the value of the settings."""
    escalate: tuple[EscalationSection, ...] = ()
    grant: GrantSection = GrantSection()
    rate_limit: RateLimit | None = None
    require: Literal["", "enforced", "tested"] = ""
    """`enforced`: asks when the kernel cannot enforce the verdict. `tested`: asks when its fix did
    not end the failure on a copy of the host before."""


class PolicySpec(DocumentSection, frozen=True, kw_only=True):
    match: PolicyMatch
    decide: DecideSection
    mode: Literal["enforce", "audit"] = "enforce"
    exclude: PolicyMatch | None = None
    message: str = ""


class ActionPolicy(DocumentSection, frozen=True, kw_only=True):
    api_version: str = field(name="apiVersion")
    kind: Literal["ActionPolicy"]
    metadata: DocumentMetadata
    spec: PolicySpec


class ExceptionSpec(DocumentSection, frozen=True, kw_only=True):
    owner: str
    reason: str
    expires: datetime
    """A date without a time means its end; a time without a zone is UTC."""
    policies: WordOrWords
    """Names or patterns of the policies it lifts; `default-asks` is the default without a match."""
    match: PolicyMatch


class PolicyException(DocumentSection, frozen=True, kw_only=True):
    api_version: str = field(name="apiVersion")
    kind: Literal["PolicyException"]
    metadata: DocumentMetadata
    spec: ExceptionSpec


class ActionDescription(DocumentSection, frozen=True, kw_only=True):
    """A description of an action: a command, or a tool with its arguments."""

    command: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}
    risk: Literal["read", "change", "destroy"] = "change"
    cwd: str = ""
    home: str = ""
    origin: str = "cli"
    run: str = ""
    actor: str = ""
    environment: str = "local"
    target: str | dict[str, str] = ""
    isolated: bool = False
    tainted: bool = False
    tested: bool = False
    """Whether its fix ended the failure on a copy of the host."""
    incident: dict[str, str] = {}
    now: str = ""
    """The time in ISO format; empty is now."""


class PolicyTestCase(ActionDescription, frozen=True, kw_only=True):
    expect: PolicyEffect
    rule: str = ""
    effects: tuple[str, ...] = ()
    """Effects that it must include."""


class PolicyTestSpec(DocumentSection, frozen=True, kw_only=True):
    cases: tuple[PolicyTestCase, ...]
    set: str = ""
    """The built-in set under test; empty is the current policy."""
    defaults: dict[str, Any] = {}
    """Default values of the keys of every case."""


class PolicyTest(DocumentSection, frozen=True, kw_only=True):
    api_version: str = field(name="apiVersion")
    kind: Literal["PolicyTest"]
    metadata: DocumentMetadata
    spec: PolicyTestSpec


PolicyDocument = ActionPolicy | PolicyException | PolicyTest
DOCUMENT_KINDS: dict[str, type[PolicyDocument]] = {
    "ActionPolicy": ActionPolicy,
    "PolicyException": PolicyException,
    "PolicyTest": PolicyTest,
}


def as_words(given: WordOrWords) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


KeyPath = tuple[str | int, ...]
SchemaProblem = tuple[KeyPath, str]

_TYPE_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    str: "text",
    float: "a number",
    datetime: "a day or time such as 2026-12-31",
}


def schema_problems(kind: Any, data: Any, path: KeyPath = ()) -> Iterator[SchemaProblem]:
    """Each problem with the path of its key."""
    struct = _struct_in(kind)
    if struct is not None and not _fits_other_member(kind, data):
        yield from _section_problems(struct, data, path)
        return
    item = _item_struct(kind)
    if item is not None:
        yield from _list_problems(item, data, path)
        return
    try:
        msgspec.convert(data, kind)
    except msgspec.ValidationError:
        yield path, f"{_key_name(path)}: expected {_describe(kind)}, got {_preview(data)}"


@cache
def _fields_by_key(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def _section_problems(
    struct: type[msgspec.Struct], data: Any, path: KeyPath
) -> Iterator[SchemaProblem]:
    if not isinstance(data, dict):
        yield path, f"{_key_name(path)}: expected keys and values, got {_preview(data)}"
        return
    known = _fields_by_key(struct)
    for key, value in data.items():
        if key not in known:
            yield (
                (*path, key),
                f"unknown key {key} in {_key_name(path)}; {suggest_name(key, list(known))}",
            )
        else:
            yield from schema_problems(known[key].type, value, (*path, key))
    for key, entry in known.items():
        if entry.required and key not in data:
            yield path, f"{_key_name(path)}: {key} is missing"


def _list_problems(item: type[msgspec.Struct], data: Any, path: KeyPath) -> Iterator[SchemaProblem]:
    if not isinstance(data, list):
        yield path, f"{_key_name(path)}: expected a list, got {_preview(data)}"
        return
    for index, each in enumerate(data):
        yield from _section_problems(item, each, (*path, index))


def _union_members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _fits_other_member(kind: Any, data: Any) -> bool:
    """Return whether a text or a list stands in place of a section that may be either."""
    members = _union_members(kind)
    as_list = isinstance(data, list) and any(get_origin(each) is tuple for each in members)
    return as_list or (isinstance(data, str) and str in members)


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    for option in _union_members(kind):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return option
    return None


def _item_struct(kind: Any) -> type[msgspec.Struct] | None:
    if get_origin(kind) is not tuple:
        return None
    return _struct_in(get_args(kind)[0])


def _describe(kind: Any) -> str:
    return " or ".join(
        _type_word(option) for option in _union_members(kind) if option is not type(None)
    )


def _type_word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list"
    if get_origin(kind) is dict:
        return "keys and values"
    return _TYPE_WORDS.get(kind, f"a {kind.__name__}")


def _key_name(path: KeyPath) -> str:
    return ".".join(map(str, path)) or "the document"


def _preview(value: Any) -> str:
    if isinstance(value, dict):
        return "keys and values"
    return (
        "a list" if isinstance(value, list) else "nothing" if value is None else f"{value!r}"[:60]
    )
