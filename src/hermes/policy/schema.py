"""The three kinds of policy document, as they are written. Unknown keys are mistakes.

`ActionPolicy` decides, `PolicyException` lifts a named policy for a while, `PolicyTest` says what
the verdicts should be. `policy.documents` reads them, `policy.rules` makes them ready to match.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import field

Words = str | tuple[str, ...]
"""One word or a list of them; with `*` and `?` where the field says so."""
Effect = Literal["allow", "dry-run", "ask", "deny"]

VERSION = "hermes/v1"


class Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of a document."""


class Metadata(Form, frozen=True, kw_only=True):
    name: str
    description: str = ""
    labels: dict[str, str] = {}


class PathMatch(Form, frozen=True, kw_only=True):
    """`~` is the home folder, `.` the folder the work is about."""

    under: Words = ()
    """Folders, with all that is in them."""
    exactly: Words = ()
    like: Words = ()
    """Patterns with `*` over the whole path."""


class TargetMatch(Form, frozen=True, kw_only=True):
    environment: Words = ()
    """What the place stands for (prod, staging), or its kind (local, docker) if nobody said."""
    place: Words = ()
    """Its kind: local, sandbox, docker, ssh."""
    host: Words = ()
    service: Words = ()
    namespace: Words = ()
    isolated: bool | None = None


class IncidentMatch(Form, frozen=True, kw_only=True):
    id: Words = ()
    severity: Words = ()
    service: Words = ()


class ActorMatch(Form, frozen=True, kw_only=True):
    name: Words = ()
    origin: Words = ()
    tainted: bool | None = None


class Clause(Form, frozen=True, kw_only=True):
    """All of its fields must fit."""

    tool: Words = ()
    effects: Words = ()
    program: Words = ()
    """The name without its folder, or with it when the pattern has a slash."""
    verb: Words = ()
    """The word after the program: `commit` of `git commit`."""
    flags: Words = ()
    via: Words = ()
    """Wrappers around the program: sudo, xargs, sh -c."""
    paths: PathMatch | None = None
    """Every path it names."""
    changes: PathMatch | None = None
    """Paths it would write or delete."""
    repositories: PathMatch | None = None
    """Folders in which git would change the repository they belong to."""
    written: bool | None = None
    """Whether it runs a file that the agent itself wrote."""
    target: TargetMatch | None = None
    incident: IncidentMatch | None = None
    actor: ActorMatch | None = None
    command: Words = ()
    """The whole command, exactly."""
    action: Words = ()
    """The hash of the exact action, as `hermes policy explain` shows it."""
    when: str = ""
    """A CEL expression."""


class Match(Form, frozen=True, kw_only=True):
    any: tuple[Clause, ...] = ()
    """One of these must fit."""
    all: tuple[Clause, ...] = ()
    """Each of these must fit."""


class Approvers(Form, frozen=True, kw_only=True):
    from_: tuple[str, ...] = field(default=(), name="from")
    """Groups or people; empty is anybody who may approve at all."""
    count: int = 1
    not_: tuple[str, ...] = field(default=("requester",), name="not")


class Escalation(Form, frozen=True, kw_only=True):
    after: str
    to: str


class GrantForm(Form, frozen=True, kw_only=True):
    scope: Literal["exact-action", "session"] = "exact-action"
    uses: int = 1
    valid_for: str = "15m"


class RateLimit(Form, frozen=True, kw_only=True):
    """Past it an allow asks, and an ask is denied."""

    key: Literal["service", "host", "target", "program", "tool", "run", "actor", "rule"] = "rule"
    max: int
    per: str


class Decide(Form, frozen=True, kw_only=True):
    effect: Effect
    announce: str = ""
    """With `ask`: says what will be done and goes on after this time unless somebody stops it."""
    approvers: Approvers = Approvers()
    timeout: str = ""
    """No answer by then is a no; empty is what the settings say."""
    escalate: tuple[Escalation, ...] = ()
    grant: GrantForm = GrantForm()
    rate_limit: RateLimit | None = None
    require: Literal["", "enforced"] = ""
    """`enforced`: asks where the kernel cannot hold the command to its verdict."""


class PolicySpec(Form, frozen=True, kw_only=True):
    match: Match
    decide: Decide
    mode: Literal["enforce", "audit"] = "enforce"
    exclude: Match | None = None
    message: str = ""


class ActionPolicy(Form, frozen=True, kw_only=True):
    api_version: str = field(name="apiVersion")
    kind: Literal["ActionPolicy"]
    metadata: Metadata
    spec: PolicySpec


class ExceptionSpec(Form, frozen=True, kw_only=True):
    owner: str
    reason: str
    expires: datetime
    """A day lasts until its end; a time without a zone is UTC."""
    policies: Words
    """Names or patterns of the policies it lifts; `default-asks` is what no policy matched."""
    match: Match


class PolicyException(Form, frozen=True, kw_only=True):
    api_version: str = field(name="apiVersion")
    kind: Literal["PolicyException"]
    metadata: Metadata
    spec: ExceptionSpec


class Given(Form, frozen=True, kw_only=True):
    """An action as people write one down: a command, or a tool with its arguments."""

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
    incident: dict[str, str] = {}
    now: str = ""
    """When, in ISO form; empty is now."""


class Case(Given, frozen=True, kw_only=True):
    expect: Effect
    rule: str = ""
    effects: tuple[str, ...] = ()
    """Effects it must have, among others."""


class CasesSpec(Form, frozen=True, kw_only=True):
    cases: tuple[Case, ...]
    set: str = ""
    """The built-in set under test; empty is the policy at hand."""
    defaults: dict[str, Any] = {}
    """Keys that every case has unless it says otherwise."""


class PolicyTest(Form, frozen=True, kw_only=True):
    api_version: str = field(name="apiVersion")
    kind: Literal["PolicyTest"]
    metadata: Metadata
    spec: CasesSpec


Document = ActionPolicy | PolicyException | PolicyTest
KINDS: dict[str, type[Document]] = {
    "ActionPolicy": ActionPolicy,
    "PolicyException": PolicyException,
    "PolicyTest": PolicyTest,
}


def words(given: Words) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given
