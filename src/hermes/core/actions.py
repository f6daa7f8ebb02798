"""A deed before it is done: what the policy sees, what it says, and what people answer."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, Protocol, runtime_checkable

from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.base import RunOrigin
from hermes.core.messages import Risk, ToolCall, Value

READ_ONLY_EFFECTS = frozenset({"read", "read-as-root", "network-local", "network-read"})
"""Effects of an action that changes nothing."""


class ConfinementProfile(Value, kw_only=True, frozen=True):
    """What a judged command may do; the kernel refuses the rest. The default only reads."""

    writable: tuple[str, ...] = ()
    """Paths that it may make, change and remove, with all below them."""
    templates: tuple[str, ...] = ()
    """Names that end in X: mktemp may make new files of that form."""
    beside: tuple[str, ...] = ()
    """Folders in which its program makes temporary files beside the one it changes."""
    needs: tuple[str, ...] = ()
    """Files that its program opens for writing even to read: locks, control devices."""
    repository: Literal["", "records", "files"] = ""
    """Whether it may change the records of the git repository it runs in, or its files as well."""
    repositories: tuple[str, ...] = ()
    """Folders whose repositories `repository` is about; empty is the folder where it starts."""
    repository_settings: bool = False
    """Whether it may also change the configuration and the hooks of the repository."""
    network: Literal["none", "ports", "any"] = "none"
    ports: tuple[int, ...] = ()
    """TCP ports that it may connect to, with `network: ports`."""
    sockets: tuple[str, ...] = ()
    """Unix sockets that it may connect to."""
    special: tuple[str, ...] = ()
    """Further rights by name: interfaces, raw-sockets, devices, network-settings, processes,
    listens, attach, audit."""
    own_secrets: bool = False
    """Whether it may read the keys and tokens of Hermes itself."""
    may_signal: bool = False
    hard_links: bool = False
    """Whether it may change files that have further names."""
    optional: tuple[str, ...] = ()
    """Paths that its program tries to write, and does without; a refusal is not shown."""
    peers: tuple[str, ...] = ()
    """Programs that may write on its behalf, out of reach of the kernel's rules for it."""
    gains_privileges: str = ""
    """The program in it that needs rights its user does not have, such as sudo."""
    unrestricted: str = ""
    """Why it cannot be bounded; empty when it is."""

    @property
    def describe(self) -> str:
        """In words, for people."""
        if self.unrestricted:
            return "unrestricted"
        if self.writable or self.repository or self.templates:
            places = [
                *self.writable,
                *self.templates,
                *(["the repository"] if self.repository else []),
            ]
            return f"writing only to {', '.join(places)}"
        return "read-only"


class KernelSupport(Value, kw_only=True, frozen=True):
    """What the kernel under a place can hold a command to."""

    landlock: int = 0
    """The version of Landlock; 0 is none."""
    root: bool = False
    reason: str = ""
    """Why nothing can be enforced; empty when it can."""


class BlockedAccess(Value, kw_only=True, frozen=True):
    """Something that a command tried and that its verdict does not cover."""

    what: str
    """Such as: write to /etc/hosts."""
    program: str = ""
    reason: str = ""
    optional: bool = False
    """Whether the program does the same without it."""

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        by = f" by {self.program}" if self.program else ""
        return f"{self.what}{by}{why}"


class Action(Value, kw_only=True, frozen=True):
    """A tool call as the policy sees it."""

    call: ToolCall
    risk: Risk
    run: str
    origin: RunOrigin
    environment: str
    target: str
    isolated: bool
    cwd: str = ""
    """Where it would run; empty when the place cannot say."""
    command: str = ""
    """What a tool that is a command in disguise would run."""
    kernel: KernelSupport | None = None
    """What the place can enforce; None when nobody asked it."""


class AuditModeVerdict(Value, frozen=True):
    """What a rule in audit mode would have said."""

    rule: str
    effect: str


class Decision(Value, kw_only=True, frozen=True):
    verdict: Literal["allow", "ask", "deny", "dry-run"]
    rule: str
    """Name of the rule that decided: shown to the operator and kept in the journal."""
    reason: str = ""
    effects: tuple[str, ...] = ()
    """What it would do, in one word each."""
    hash: str = ""
    """Of exactly this action; empty when the policy does not look that closely."""
    tainted: str = ""
    """Its words that came from text nobody vouches for."""
    variables: tuple[str, ...] = ()
    """Variables whose values, unknown here, decide what it means."""
    audited: tuple[AuditModeVerdict, ...] = ()
    profile: ConfinementProfile | None = None
    """What the kernel holds it to; None when the policy does not look that closely."""
    enforced: Literal["", "yes", "partly", "no"] = ""
    """Whether the place can hold it to the profile; empty when nobody asked the place."""
    unenforced: str = ""
    """What is not enforced, or why nothing is."""


class Policy(Protocol):
    """Decides on an action before it runs. Pure and synchronous: it can be tested as a table."""

    def decide(self, action: Action) -> Decision: ...


@runtime_checkable
class TracksActions(Protocol):
    """A policy that wants to know what was really begun: for rates, and for scripts written."""

    def started(self, action: Action) -> None: ...


@runtime_checkable
class TracksText(Protocol):
    """A policy that wants to know what a run has read, to tell whose words an action repeats.

    `trusted` is what a person said; what a tool brings along is not, and `call` says which it was.
    """

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None: ...


ApprovalScope = Literal["once", "session", "always"]


class Approval(Value, kw_only=True, frozen=True):
    approved: bool
    by: str
    """Who answered; `nobody` when no person could, or did."""
    scope: ApprovalScope = "once"
    reason: str = ""
    """Of a no: why, in words for the model and the person."""


Approver = Callable[[Action, Decision], Awaitable[Approval]]
"""Asks a person. Nobody answering is a no."""


@runtime_checkable
class AnswersApprovals(Protocol):
    """Somebody who is shown the request itself, and may be one of several who can answer it.

    Cancelled when it was settled elsewhere. With `announced` it goes on by itself after so many
    seconds: an answer stops it, or lets it go on at once.
    """

    async def answer(
        self, action: Action, request: ApprovalRequested, announced: float = 0.0
    ) -> Approval: ...


def approval_objection(
    request: ApprovalRequested, who: str, *, approved: bool, escalated: Iterable[str] = ()
) -> str:
    """Why this person's answer would not count, in words; empty when it does.

    Whoever asked for it may always take it back.
    """
    if not approved and who == request.requester:
        return ""
    if approved and who in request.barred:
        whose = "asked for it" if who == request.requester else "may not approve this"
        return f"{who} {whose}: somebody else has to say yes"
    may = [*request.approvers, *escalated]
    if request.approvers and who not in may:
        return f"{who} is not among those who may answer this: {', '.join(dict.fromkeys(may))}"
    return ""


_NEVER_ALWAYS_EFFECTS = frozenset({"irreversible", "wipe", "fork-bomb", "self-change"})


def why_not_always(request: ApprovalRequested) -> str:
    """Why it may not be allowed for good, in words; empty when it may."""
    if lost := sorted(_NEVER_ALWAYS_EFFECTS.intersection(request.effects)):
        return f"it is {lost[0]}: such a thing is approved one by one"
    if request.tainted:
        return "its words come from text that nobody vouches for: it is approved one by one"
    if request.variables:
        return f"what it does depends on ${request.variables[0]}: it is approved one by one"
    if not request.hash:
        return "this policy does not look closely enough to know it again"
    return ""
