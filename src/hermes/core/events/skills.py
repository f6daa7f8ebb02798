"""What was learned to do, what proved it, and how it went when it was done."""

from typing import Literal

from hermes.core.events.base import BaseEvent

SkillState = Literal["draft", "compiled", "validated", "trusted", "retired"]


class SkillChanged(BaseEvent, tag="skill.changed", kw_only=True, frozen=True):
    """A step of its life, with what it rests on; every step can be taken back."""

    skill: str
    digest: str
    state: SkillState
    before: SkillState | Literal["none"] = "none"
    parents: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    reason: str = ""
    by: str = ""
    candidate: bool = False
    """Of a version that is not in use: until it is, the one in use keeps its own state."""


class CompilerReported(BaseEvent, tag="compiler.said", kw_only=True, frozen=True):
    """A line that the operator reads while a Python skill is made: `[Sandbox] …`."""

    skill: str
    speaker: str
    text: str


class SkillMeasured(BaseEvent, tag="skill.measured", kw_only=True, frozen=True):
    """The gate: paired replays with and without the skill, counted by code."""

    skill: str
    digest: str
    passed: bool
    cases: tuple[str, ...] = ()
    solved_with: int = 0
    solved_without: int = 0
    ratio: float | None = None
    """Median of seconds, or of turns, with the skill over without."""
    upper: float | None = None
    """Upper bound of that ratio."""
    measure: str = ""
    harmed: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class SkillUsed(BaseEvent, tag="skill.used", kw_only=True, frozen=True):
    """A live use, after checks that the skill has no hand in."""

    skill: str
    digest: str
    verified: bool
    incident: str = ""
    detail: str = ""


class SkillsReviewed(BaseEvent, tag="skill.reviewed", kw_only=True, frozen=True):
    """The agent read its own failing runs; `changed` is the one draft that came of it."""

    why: str
    runs: tuple[str, ...] = ()
    changed: str = ""
    accepted: bool = False
    detail: str = ""


class PlaybookStarted(BaseEvent, tag="playbook.started", kw_only=True, frozen=True):
    skill: str
    digest: str
    parameters: tuple[tuple[str, str], ...] = ()
    dry: bool = False


class PlaybookStepped(BaseEvent, tag="playbook.stepped", kw_only=True, frozen=True):
    skill: str
    step: str
    call_id: str
    ok: bool
    detail: str = ""
    undo: str = ""
    phase: Literal["probe", "step", "verify", "undo"] = "step"
    seconds: float = 0.0


class PlaybookEnded(BaseEvent, tag="playbook.ended", kw_only=True, frozen=True):
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
    unchecked: str = ""
    """Why its signature could not be looked for, or not completely; empty when it was."""


class SkillShown(BaseEvent, tag="skill.shown", kw_only=True, frozen=True):
    """Put before a model, or loaded by a matching signature."""

    skill: str
    how: Literal["matched", "index", "viewed"] = "viewed"


SkillEvent = (
    SkillChanged
    | CompilerReported
    | SkillMeasured
    | SkillUsed
    | SkillsReviewed
    | PlaybookStarted
    | PlaybookStepped
    | PlaybookEnded
    | SkillShown
)
