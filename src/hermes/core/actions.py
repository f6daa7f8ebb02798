"""Actions before they run: what the policy sees, what it decides, and what people answer."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.base import RunOrigin
from hermes.core.messages import (
    OutgoingRequest,
    RemoteTarget,
    Risk,
    ToolCall,
    ToolDefinition,
    Value,
)
from hermes.core.people import explain_unnamed, is_unnamed

READ_ONLY_EFFECTS = frozenset({"read", "read-as-root", "network-local", "network-read"})
"""Effects of an action that changes nothing."""


class ConfinementProfile(Value, kw_only=True, frozen=True):
    """The rights of a command according to the policy; the kernel refuses the rest. By default it
    may only read."""

    changes: bool = False
    """Whether it was judged to change something, on this host or another. A command that only reads
    ends when Hermes is killed."""
    writable: tuple[str, ...] = ()
    """Paths that it may create, change and remove, with everything below them."""
    protected: tuple[str, ...] = ()
    """Paths that it may not change, although they are below `writable` or in a repository."""
    templates: tuple[str, ...] = ()
    """Names that end in X: mktemp may create new files of that form."""
    beside: tuple[str, ...] = ()
    """Folders in which its program creates temporary files beside the file it changes."""
    needs: tuple[str, ...] = ()
    """Files that its program opens for writing even to read: locks, control devices."""
    repository: Literal["", "records", "files"] = ""
    """Whether it may change the records of the git repository it runs in, or its files as well."""
    repositories: tuple[str, ...] = ()
    """Folders whose repositories `repository` is about; empty: the folder where it starts."""
    repository_settings: bool = False
    """Whether it may also change the configuration and the hooks of the repository."""
    network: Literal["none", "ports", "any"] = "none"
    ports: tuple[int, ...] = ()
    """TCP ports that it may connect to, with `network: ports`."""
    sockets: tuple[str, ...] = ()
    """Unix sockets that it may connect to."""
    connecting: tuple[str, ...] = ()
    """The programs in it that may use the network and these sockets; empty: all of them."""
    special: tuple[str, ...] = ()
    """Further rights by name: interfaces, raw-sockets, devices, network-settings, processes,
    listens, attach, audit."""
    hidden: tuple[str, ...] = ()
    """Files that it finds without their secrets; `~` stands for each home folder."""
    refused_reads: tuple[str, ...] = ()
    """Patterns of files that it may not read, because the policy did not know all that it reads;
    `!` marks exceptions. Empty: it may read all files."""
    granted_reads: tuple[str, ...] = ()
    """Those that a program in it may read all the same, because it logs in with them, as
    `program:pattern`; `*` is any program."""
    judged_at: int = 0
    """When it was judged, in nanoseconds of the clock of file times; 0: no file was looked at."""
    judged_files: tuple[str, ...] = ()
    """Names of files on which the verdict depends, and that must not have changed since."""
    judged_folders: tuple[tuple[str, int, int], ...] = ()
    """What was at the paths of their folders, by device and number; 0 and 0 for nothing."""
    may_make_judged: bool = False
    """Whether it may make such files itself, where it may write."""
    other_repositories: bool = False
    """Whether git may use repositories beside those folders."""
    own_secrets: bool = False
    """Whether it may read the keys and tokens of Hermes itself."""
    read_only_databases: bool = False
    """Whether its sessions with PostgreSQL servers are opened for reading only."""
    may_signal: bool = False
    hard_links: bool = False
    """Whether it may change files that have several names (hard links)."""
    setuid_files: bool = False
    """Whether it may make files that run with the rights of their owner."""
    max_file_bytes: int = 0
    """How large a file may become that it writes; 0: any size, because a person approved it."""
    optional: tuple[str, ...] = ()
    """Paths that its program tries to write but does not need; a refusal is not shown."""
    peers: tuple[str, ...] = ()
    """Programs that may write on its behalf; the kernel's rules for the command do not reach them.
    """
    gains_privileges: str = ""
    """The program in it that needs rights its user does not have, such as sudo."""
    root_launcher: bool = False
    """Whether it only runs `sudo` with commands that the launcher of root confines itself."""
    unrestricted: str = ""
    """Why it cannot be confined; empty when it can."""

    @property
    def describe(self) -> str:
        """A description for people."""
        if self.unrestricted:
            return "unrestricted"
        if self.writable or self.repository or self.templates:
            paths = [
                *self.writable,
                *self.templates,
                *(["the repository"] if self.repository else []),
            ]
            size = f", no file above {self.max_file_bytes >> 30} GiB" if self.max_file_bytes else ""
            return f"writing only to {', '.join(paths)}{size}"
        return "read-only"


class KernelSupport(Value, kw_only=True, frozen=True):
    """The restrictions that the kernel under an environment can enforce."""

    landlock: int = 0
    """The version of Landlock; 0 is none."""
    root: bool = False
    reason: str = ""
    """Why nothing can be enforced; empty when it can."""
    root_commands: tuple[str, ...] = ()
    """Commands that the launcher of root runs after `sudo`, confined."""
    unconfined_root_commands: tuple[str, ...] = ()
    """Those that it runs with all rights of root."""
    root_readers: tuple[str, ...] = ()
    """Programs that it runs after `sudo` with any words, confined to reading some folders."""
    visible_secrets: str = ""
    """Why files with secrets stay readable for a confined command; empty when they are hidden."""


class BlockedAccess(Value, kw_only=True, frozen=True):
    """An access that a command tried and that its verdict does not cover."""

    what: str
    """For example: write to /etc/hosts."""
    program: str = ""
    reason: str = ""
    optional: bool = False
    """Whether the program works the same without it."""

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
    """The working directory; empty when the environment does not know it."""
    command: str = ""
    """The command line, when the tool runs a command."""
    reviewed: bool = False
    """Its text is part of this program; only quoted values were filled in."""
    tested: bool = False
    """It belongs to a fix that ended the failure on a copy of the host."""
    kernel: KernelSupport | None = None
    """What the environment can enforce; None when it was not asked."""
    actor: str = ""
    """For whom: the name of a person, or `channel:id` for one who has none."""
    remote: RemoteTarget | None = None
    """Where it acts, when that is not the environment; it is never isolated then."""
    request: OutgoingRequest | None = None
    """What it would send, when the tool sends one HTTP request."""
    definition: ToolDefinition | None = None
    """Which definition of the tool, when it is not part of this program."""


def argument_text(value: object) -> str:
    """Return every text in the arguments of a call, unchanged, each on a line of its own."""
    if isinstance(value, Mapping):
        return "\n".join(argument_text(each) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return "\n".join(map(argument_text, value))
    return str(value)


class AuditModeVerdict(Value, frozen=True):
    """The verdict that a rule in audit mode would have given."""

    rule: str
    effect: str


class Decision(Value, kw_only=True, frozen=True):
    verdict: Literal["allow", "ask", "deny", "dry-run"]
    rule: str
    """Name of the rule that decided: shown to the operator and kept in the journal."""
    reason: str = ""
    effects: tuple[str, ...] = ()
    """What it would do, one word for each effect."""
    hash: str = ""
    """Hash of exactly this action; empty when the policy computes none."""
    tainted: str = ""
    """Its words that came from untrusted text."""
    variables: tuple[str, ...] = ()
    """Variables with unknown values that decide what it means."""
    audited: tuple[AuditModeVerdict, ...] = ()
    profile: ConfinementProfile | None = None
    """What the kernel enforces; None when the policy computes no profile."""
    enforced: Literal["", "yes", "partly", "no"] = ""
    """Whether the environment can enforce the profile; empty when it was not asked."""
    unenforced: str = ""
    """What is not enforced, or why nothing is."""


class Policy(Protocol):
    """Decides on an action before it runs. Pure and synchronous: it can be tested as a table."""

    def decide(self, action: Action) -> Decision: ...


@runtime_checkable
class DecidesTogether(Protocol):
    """A policy that decides on many actions at once for less than one after the other."""

    async def decide_all(self, actions: Sequence[Action]) -> Sequence[Decision]: ...


@runtime_checkable
class TracksActions(Protocol):
    """A policy that remembers started actions: for rate limits, and for scripts that they wrote."""

    def record_start(self, action: Action) -> None: ...


@runtime_checkable
class TracksText(Protocol):
    """A policy that remembers what a run has read, to find where the words of an action come from.

    `trusted` is true for the text of a person and false for tool output; `call` is the tool call
    that returned the text.
    """

    def record_text(
        self, run: str, text: str, trusted: bool, call: ToolCall | None = None
    ) -> None: ...


class PolicyWrapper:
    """Passes everything on to another policy. Implements `Policy`, `TracksActions` and
    `TracksText`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, action: Action) -> Decision:
        return self._policy.decide(action)

    def record_start(self, action: Action) -> None:
        if isinstance(self._policy, TracksActions):
            self._policy.record_start(action)

    def record_text(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        if isinstance(self._policy, TracksText):
            self._policy.record_text(run, text, trusted, call)


ApprovalScope = Literal["once", "session", "always"]


class Approval(Value, kw_only=True, frozen=True):
    approved: bool
    by: str
    """Who answered; `nobody` when no person could or did."""
    scope: ApprovalScope = "once"
    reason: str = ""
    """The reason for a refusal, for the model and the person."""


Approver = Callable[[Action, Decision], Awaitable[Approval]]
"""Asks a person. No answer means no."""


def why_changed(asked: Decision, now: Decision) -> str:
    """Return why a yes to one decision does not hold for another; empty when it does."""
    if now.hash != asked.hash:
        return "what it would do has changed since people were asked"
    return f"the rule {now.rule} forbids it by now" if now.verdict == "deny" else ""


DecideAction = Callable[[Action], Decision]


@runtime_checkable
class DecidesAgain(Protocol):
    """An approver that has the action decided on once more after a yes, by the policy that asked:
    another one may see another action in it."""

    async def approve(
        self, action: Action, decision: Decision, decide: DecideAction
    ) -> Approval: ...


@runtime_checkable
class AnswersApprovals(Protocol):
    """An approver that is shown the request itself, and may be one of several that can answer it.

    Cancelled when the request was settled elsewhere. With `announced` the action continues after
    that many seconds: an answer stops it, or lets it continue at once.
    """

    async def answer(
        self, action: Action, request: ApprovalRequested, announced: float = 0.0
    ) -> Approval: ...


def approval_objection(
    request: ApprovalRequested, who: str, *, approved: bool, escalated: Iterable[str] = ()
) -> str:
    """Return why this person's answer would not count; empty when it counts.

    The person who requested the action may always withdraw it.
    """
    if not approved and who == request.requester:
        return ""
    if approved and is_unnamed(who):
        return explain_unnamed(who)
    if approved and who in request.barred:
        whose = "asked for it" if who == request.requester else "may not approve this"
        return f"{who} {whose}: somebody else must approve it"
    may = [*request.approvers, *escalated]
    if request.approvers and who not in may:
        return f"{who} is not among those who may answer this: {', '.join(dict.fromkeys(may))}"
    return ""


_NEVER_ALWAYS_EFFECTS = frozenset({"irreversible", "wipe", "fork-bomb", "self-change"})


def why_not_always(request: ApprovalRequested) -> str:
    """Return why it may not be allowed permanently; empty when it may."""
    if lost := sorted(_NEVER_ALWAYS_EFFECTS.intersection(request.effects)):
        return f"it is {lost[0]}: it must be approved each time"
    if request.tainted:
        return "its words come from untrusted text: it must be approved each time"
    if request.variables:
        return f"what it does depends on ${request.variables[0]}: it must be approved each time"
    if not request.hash:
        return "this policy does not look closely enough to know it again"
    return ""
