"""The lifecycle of skills, their evaluation, and their use."""

from typing import Literal

from hermes.core.events.base import BaseEvent

SkillState = Literal["draft", "compiled", "validated", "trusted", "retired"]


class SkillChanged(BaseEvent, tag="skill.changed", kw_only=True, frozen=True):
    """A change of its state, with the evidence; every change can be undone."""

    skill: str
    digest: str
    state: SkillState
    before: SkillState | Literal["none"] = "none"
    parents: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    reason: str = ""
    by: str = ""
    candidate: bool = False
    """Of a version that is not in use: until it is, the version in use keeps its own state."""


class CompilerReported(BaseEvent, tag="compiler.said", kw_only=True, frozen=True):
    """A line of progress for the operator while a Python skill is built: `[Sandbox] …`."""

    skill: str
    speaker: str
    text: str


class SkillMeasured(BaseEvent, tag="skill.measured", kw_only=True, frozen=True):
    """The evaluation: paired replays with and without the skill, counted by code."""

    skill: str
    digest: str
    passed: bool
    cases: tuple[str, ...] = ()
    solved_with: int = 0
    solved_without: int = 0
    ratio: float | None = None
    """Median of seconds, or of turns, with the skill divided by without."""
    upper: float | None = None
    """Upper bound of that ratio."""
    measure: str = ""
    harmed: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class SkillUsed(BaseEvent, tag="skill.used", kw_only=True, frozen=True):
    """A use in production, after checks that are independent of the skill."""

    skill: str
    digest: str
    verified: bool
    incident: str = ""
    detail: str = ""


class SkillsReviewed(BaseEvent, tag="skill.reviewed", kw_only=True, frozen=True):
    """The agent reviewed its own failed runs; `changed` is the one draft that resulted."""

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
    """Steps that are still in force although they should have been undone."""
    dry: bool = False
    unchecked: str = ""
    """Why its signature could not be searched for, or not completely; empty when it was."""


class SkillShown(BaseEvent, tag="skill.shown", kw_only=True, frozen=True):
    """Shown to a model, or loaded by a matching signature."""

    skill: str
    how: Literal["matched", "index", "viewed"] = "viewed"
