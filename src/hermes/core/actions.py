"""A deed before it is done: what the policy sees, what it says, and what people answer."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, runtime_checkable

from hermes.core.events.happening import Origin
from hermes.core.messages import Risk, ToolCall, Value


class Action(Value, kw_only=True, frozen=True):
    """A tool call as the policy sees it."""

    call: ToolCall
    risk: Risk
    run: str
    origin: Origin
    environment: str
    target: str
    isolated: bool
    cwd: str = ""
    """Where it would run; empty when the place cannot say."""
    command: str = ""
    """What a tool that is a command in disguise would run."""


class Decision(Value, kw_only=True, frozen=True):
    verdict: Literal["allow", "ask", "deny", "dry-run"]
    rule: str
    """Name of the rule that decided: shown to the operator and kept in the journal."""
    reason: str = ""
    effects: tuple[str, ...] = ()
    """What it would do, in one word each."""
    hash: str = ""
    """Of exactly this action; empty when the policy does not look that closely."""


class Policy(Protocol):
    """Decides on an action before it runs. Pure and synchronous: it can be tested as a table."""

    def decide(self, action: Action) -> Decision: ...


@runtime_checkable
class NotesDeeds(Protocol):
    """A policy that wants to know what was really begun: for rates, and for scripts written."""

    def started(self, action: Action) -> None: ...


class Approval(Value, kw_only=True, frozen=True):
    approved: bool
    by: str
    scope: Literal["once", "session", "always"] = "once"


Approver = Callable[[Action, Decision], Awaitable[Approval]]
"""Asks a person. Nobody answering is a no."""
