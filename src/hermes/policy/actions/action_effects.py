"""A tool call made plain: the steps it would take, each with its effects. What rules match on."""

import hashlib

import msgspec

from hermes.core.actions import KernelSupport
from hermes.core.events.base import RunOrigin
from hermes.core.messages import Value
from hermes.policy.commands.effects import READING_EFFECTS, CommandTarget


class ActionStep(Value, kw_only=True, frozen=True):
    """One simple command, or one file that a tool touches."""

    node: str
    """The piece of text it was read from."""
    effects: frozenset[str]
    program: str = ""
    argv: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """Those of the paths that it would write or delete."""
    repositories: tuple[str, ...] = ()
    """Folders in which it changes the git repository they belong to."""
    via: tuple[str, ...] = ()
    """Wrappers it was peeled out of: sudo, xargs, sh -c."""
    why: tuple[str, ...] = ()
    target: CommandTarget = CommandTarget()
    written: tuple[str, ...] = ()
    """Files that it runs and that this very run, or a command in a sandbox, wrote before."""

    @property
    def is_read_only(self) -> bool:
        """True when it only looks."""
        return self.effects <= READING_EFFECTS


class ActionLocation(Value, kw_only=True, frozen=True):
    environment: str = ""
    """What the place stands for: prod, staging."""
    place: str = ""
    """Its kind: local, sandbox, docker."""
    host: str = ""
    service: str = ""
    namespace: str = ""
    isolated: bool = False


class IncidentFacts(Value, kw_only=True, frozen=True):
    id: str = ""
    severity: str = ""
    service: str = ""


class ActionEffects(Value, kw_only=True, frozen=True):
    tool: str
    steps: tuple[ActionStep, ...]
    hash: str
    """Of the exact action: the same words in the same folder on the same target, running scripts
    with the same content. Grants are bound to it."""
    command: str = ""
    cwd: str = ""
    workspace: str = ""
    """The folder the work is about; `.` in a policy."""
    run: str = ""
    origin: RunOrigin = "cli"
    actor: str = ""
    tainted: bool = False
    carried: str = ""
    """Its words that came from text nobody vouches for, as far as they are known."""
    where: ActionLocation = ActionLocation()
    incident: IncidentFacts = IncidentFacts()
    variables: tuple[str, ...] = ()
    """Variables whose values, unknown here, decide what it means."""
    dynamic: tuple[str, ...] = ()
    """Why it cannot be known before it runs."""
    kernel: KernelSupport | None = None
    """What the place can enforce; None when nobody asked it."""

    @property
    def effects(self) -> frozenset[str]:
        return frozenset().union(*(step.effects for step in self.steps))

    @property
    def is_read_only(self) -> bool:
        return all(step.is_read_only for step in self.steps)


def fingerprint(*parts: object) -> str:
    """A stable hash of plain values."""
    try:
        data = msgspec.json.encode(parts, order="deterministic")
    except (TypeError, UnicodeEncodeError):  # half a surrogate pair is still an exact action
        data = repr(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(data).hexdigest()[:32]
