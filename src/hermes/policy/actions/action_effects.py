"""The effects of a tool call: the steps it would take, each with its effects. Rules match these."""

import hashlib

import msgspec

from hermes.core.actions import KernelSupport
from hermes.core.events.base import RunOrigin
from hermes.core.messages import ToolDefinition, Value
from hermes.policy.commands.effects import (
    READING_EFFECTS,
    RETURNED_EFFECTS,
    CommandTarget,
)

INTERPRETER_PROGRAMS = frozenset(
    {".", "source", "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox", "expect"}
    | {"python", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "tclsh"}
    | {"Rscript", "java", "go", "awk", "gawk", "mawk", "sed", "make", "gmake", "ansible-playbook"}
    | {"psql", "mysql", "mariadb", "sqlite", "redis-cli", "vim", "ex", "ed", "gdb", "exec"}
)
"""Programs that run what is in a file they are given."""


class ActionStep(Value, kw_only=True, frozen=True):
    """One simple command, or one file that a tool reads or changes."""

    node: str
    """The part of the command that it was read from."""
    effects: frozenset[str]
    program: str = ""
    argv: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """The paths that it would write or delete."""
    repositories: tuple[str, ...] = ()
    """Folders whose git repository it changes."""
    via: tuple[str, ...] = ()
    """Wrappers around it: sudo, xargs, sh -c."""
    folder: str = ""
    """Where it runs, if these could have chosen that: `env -C folder`."""
    why: tuple[str, ...] = ()
    target: CommandTarget = CommandTarget()
    reversible: bool = False
    """Whether it is known as a change that can be undone and has a limited extent."""
    written: tuple[str, ...] = ()
    """Files that it runs and that this run, or a command in a sandbox, wrote before."""
    captured: bool = False
    """What it prints becomes words or variables of other commands."""

    @property
    def is_read_only(self) -> bool:
        """True when it only reads."""
        return self.effects <= READING_EFFECTS


def step_in_copy(step: ActionStep) -> ActionStep:
    """Return what of a step concerns the host when it runs in a copy: what it reads, not what it
    changes. A step that only changes is none that rules about programs and paths could match."""
    if step.is_read_only:
        return step
    left = step.effects & RETURNED_EFFECTS
    if not left:
        return ActionStep(node=step.node, effects=frozenset({"read"}))
    kept = left | (step.effects & READING_EFFECTS)
    why = tuple(line for line in step.why if line.partition(":")[0] in kept)
    return msgspec.structs.replace(step, effects=kept, changes=(), repositories=(), why=why)


class ActionLocation(Value, kw_only=True, frozen=True):
    environment: str = ""
    """The stage of the environment: prod, staging."""
    place: str = ""
    """The kind of environment: local, sandbox, docker."""
    host: str = ""
    service: str = ""
    namespace: str = ""
    isolated: bool = False


class IncidentFacts(Value, kw_only=True, frozen=True):
    id: str = ""
    severity: str = ""
    service: str = ""


class FilesAtVerdict(Value, kw_only=True, frozen=True):
    """Files that the verdict depends on; they must not have changed when the command opens them."""

    judged_at: int = 0
    """Nanoseconds of the clock of file times."""
    names: tuple[str, ...] = ()
    folders: tuple[tuple[str, int, int], ...] = ()
    """What was at a path, by device and number; 0 and 0 for nothing."""
    other_repositories: bool = False
    """Whether git may run in repositories that were not known."""
    made_by_command: bool = False
    """Whether the command itself may make such files, where it may write."""


class ActionEffects(Value, kw_only=True, frozen=True):
    tool: str
    steps: tuple[ActionStep, ...]
    hash: str
    """Identifies the exact action: the same words in the same folder on the same target, with
    scripts of the same content. Grants are bound to it."""
    command: str = ""
    cwd: str = ""
    workspace: str = ""
    """The working folder of the task; `.` in a policy."""
    home: str = ""
    """The home folder of the user."""
    loaded_folders: tuple[str, ...] = ()
    """Folders from which other programs and later sessions run or load files: those of PATH, and
    the home of Hermes."""
    run: str = ""
    origin: RunOrigin = "cli"
    actor: str = ""
    tainted: bool = False
    reviewed: bool = False
    """Its text is part of this program; only quoted values were filled in."""
    tested: bool = False
    """It belongs to a fix that ended the failure on a copy of the host."""
    carried: str = ""
    """Its words that came from untrusted text, as far as they are known."""
    where: ActionLocation = ActionLocation()
    incident: IncidentFacts = IncidentFacts()
    variables: tuple[str, ...] = ()
    """Variables with unknown values that decide its meaning."""
    dynamic: tuple[str, ...] = ()
    """Why its effects cannot be known before it runs."""
    kernel: KernelSupport | None = None
    """What the kernel can enforce; None when unknown."""
    protected: tuple[str, ...] = ()
    """Files of Hermes below paths that it changes."""
    files: FilesAtVerdict = FilesAtVerdict()
    definition: ToolDefinition | None = None
    """Which definition of the tool, when it is not part of this program."""
    unread: str = ""
    """What is not known of code that it may run: that of another host, or of a database."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names by which rules may call the tool."""
        named = self.definition.name if self.definition else ""
        return (self.tool, named) if named else (self.tool,)

    @property
    def effects(self) -> frozenset[str]:
        return frozenset().union(*(step.effects for step in self.steps))

    @property
    def is_read_only(self) -> bool:
        return all(step.is_read_only for step in self.steps)


def root_run(run: str) -> str:
    """The run that started a subagent: they share tasks, reports and files."""
    return run.partition("/")[0]


def fingerprint(*parts: object) -> str:
    """A stable hash of plain values."""
    try:
        data = msgspec.json.encode(parts, order="deterministic")
    except (TypeError, UnicodeEncodeError):  # text with half a surrogate pair can be hashed too
        data = repr(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(data).hexdigest()[:32]
