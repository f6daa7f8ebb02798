"""What was learned to do, what proved it, and how it went when it was done."""

from typing import Literal

from hermes.core.events.happening import Happening

SkillState = Literal["draft", "compiled", "validated", "trusted", "retired"]


class SkillChanged(Happening, tag="skill.changed", kw_only=True, frozen=True):
    """A step of its life, with what it rests on; every step can be taken back."""

    skill: str
    digest: str
    state: SkillState
    before: SkillState | Literal["none"] = "none"
    parents: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    reason: str = ""
    by: str = ""


class PlaybookStarted(Happening, tag="playbook.started", kw_only=True, frozen=True):
    skill: str
    digest: str
    parameters: tuple[tuple[str, str], ...] = ()
    dry: bool = False


class PlaybookStepped(Happening, tag="playbook.stepped", kw_only=True, frozen=True):
    skill: str
    step: str
    call_id: str
    ok: bool
    detail: str = ""
    undo: str = ""
    phase: Literal["probe", "step", "verify", "undo"] = "step"
    seconds: float = 0.0


class PlaybookEnded(Happening, tag="playbook.ended", kw_only=True, frozen=True):
    skill: str
    outcome: Literal["applied", "declined", "unmet", "refused", "undone", "failed"]
    """declined: the probes did not confirm it; unmet: a step did not do what it should."""
    step: str = ""
    detail: str = ""
    seconds: float = 0.0
    steps: int = 0
    """How many of them changed something."""
    not_undone: tuple[str, ...] = ()
    """Steps that are still in force although they should have been taken back."""
    dry: bool = False


class SkillShown(Happening, tag="skill.shown", kw_only=True, frozen=True):
    """Put before a model, or loaded by a matching signature."""

    skill: str
    how: Literal["matched", "index", "viewed"] = "viewed"


SkillEvent = SkillChanged | PlaybookStarted | PlaybookStepped | PlaybookEnded | SkillShown
