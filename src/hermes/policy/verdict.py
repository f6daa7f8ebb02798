"""What the gate says about an action, with everything an approver or an auditor needs to see."""

from typing import Literal

from hermes.core.actions import Audited, Decision
from hermes.core.messages import Value

__all__ = ["Ask", "Audited", "Escalate", "NearMiss", "Verdict"]


class Escalate(Value, frozen=True):
    after: float
    to: str


class Ask(Value, kw_only=True, frozen=True):
    """How a person is asked. Seconds throughout."""

    approvers: tuple[str, ...] = ()
    """Groups or people who may answer; empty is anybody who may approve at all."""
    count: int = 1
    excluded: tuple[str, ...] = ("requester",)
    timeout: float = 600.0
    """No answer by then is a no."""
    announce: float = 0.0
    """Above 0: say what will be done, and go on after that time unless somebody stops it."""
    escalate: tuple[Escalate, ...] = ()
    grant_scope: Literal["exact-action", "session"] = "exact-action"
    grant_uses: int = 1
    grant_seconds: float = 900.0
    waits: bool = False
    """The rule itself says who answers, or until when: also waited for where nobody sits."""

    @property
    def barred(self) -> tuple[str, ...]:
        """Who may not say yes. A plain question is for whoever sits there, and asked for it."""
        if self.approvers or self.count > 1:
            return self.excluded
        return tuple(name for name in self.excluded if name != "requester")


class NearMiss(Value, frozen=True):
    """A rule that would have matched but for a few of its fields."""

    rule: str
    effect: str
    missed: tuple[str, ...]
    node: str = ""


class Verdict(Decision, kw_only=True, frozen=True):
    node: str = ""
    """The piece of the command that decided."""
    why: str = ""
    """Why that piece has its effects."""
    ask: Ask | None = None
    undo: str = ""
    """How to take it back, in the words of whoever wrote the step; else it is looked for."""
    also: tuple[str, ...] = ()
    """Further rules that were as strict."""
    lifted: tuple[str, ...] = ()
    """Exceptions that made it laxer, as `exception > rule`."""
    near: tuple[NearMiss, ...] = ()
    """Only in `examine`: looking for it costs time."""
    counted: tuple[tuple[str, str], ...] = ()
    """Rate limits that this action counts towards once it starts: rule and key."""
