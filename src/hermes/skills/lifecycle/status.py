"""Folds the state of each skill from the journal, and decides which state follows from its uses."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from hermes.core.errors import SettingsError
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.skills import SkillChanged, SkillMeasured, SkillState, SkillUsed
from hermes.core.messages import Value

AUTOMATIC_ACTOR = "hermes"
STATE_ORDER: tuple[SkillState, ...] = ("draft", "compiled", "validated", "trusted", "retired")
_ALLOWED_STATES: dict[SkillState, frozenset[SkillState]] = {
    "draft": frozenset({"compiled", "validated", "retired"}),
    "compiled": frozenset({"validated", "retired"}),
    "validated": frozenset({"trusted", "retired"}),
    "trusted": frozenset({"retired"}),
    "retired": frozenset(),
}


class SkillStatus(Value, kw_only=True, frozen=True):
    """The version of a skill that is in use, its origin, and its uses."""

    skill: str
    state: SkillState = "draft"
    digest: str = ""
    parents: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    steps: tuple[SkillChanged, ...] = ()
    measured: SkillMeasured | None = None
    """The last evaluation of the version in use or of a candidate."""
    uses: tuple[SkillUsed, ...] = ()
    """Live uses of the version in use since it got its state."""


def fold_skill_statuses(events: Iterable[Event | UnknownEvent]) -> dict[str, SkillStatus]:
    changed: dict[str, list[SkillChanged]] = {}
    measured: dict[str, SkillMeasured] = {}
    uses: dict[str, list[SkillUsed]] = {}
    for event in events:
        if isinstance(event, SkillChanged):
            changed.setdefault(event.skill, []).append(event)
            if not event.candidate:
                uses[event.skill] = []
        elif isinstance(event, SkillMeasured):
            measured[event.skill] = event
        elif isinstance(event, SkillUsed):
            uses.setdefault(event.skill, []).append(event)
    return {
        name: _build_skill_status(
            name, changed.get(name, []), measured.get(name), uses.get(name, [])
        )
        for name in {**changed, **measured, **uses}
    }


def _build_skill_status(
    name: str,
    steps: Sequence[SkillChanged],
    measured: SkillMeasured | None,
    uses: Sequence[SkillUsed],
) -> SkillStatus:
    own = [step for step in steps if not step.candidate]
    last = own[-1] if own else None
    digest = last.digest if last else ""
    parents = next((s.parents for s in reversed(own) if s.digest == digest and s.parents), ())
    return SkillStatus(
        skill=name,
        state=last.state if last else "draft",
        digest=digest,
        parents=parents,
        evidence=last.evidence if last else (),
        steps=tuple(steps),
        measured=measured,
        uses=tuple(use for use in uses if use.digest == digest),
    )


def change_state(
    status: SkillStatus, to: SkillState, *, run: str, by: str, reason: str = ""
) -> SkillChanged:
    """One step up, or any step down. Raises `SettingsError` for a step that skips the evidence."""
    forward = STATE_ORDER.index(to) > STATE_ORDER.index(status.state)
    if forward and to not in _ALLOWED_STATES[status.state]:
        missing = STATE_ORDER[STATE_ORDER.index(status.state) + 1]
        raise SettingsError(
            f"{status.skill} is {status.state}: it cannot become {to} before it is {missing}; "
            f"see: hermes skills promote {status.skill}"
        )
    if to == status.state:
        raise SettingsError(f"{status.skill} is {to} already")
    return SkillChanged(
        run=run,
        skill=status.skill,
        digest=status.digest,
        state=to,
        before=status.state,
        parents=status.parents,
        reason=reason,
        by=by,
    )


def find_parent_version(status: SkillStatus) -> SkillChanged | None:
    """The last state change of the parent of the version in use."""
    for digest in reversed(status.parents):
        own = [s for s in status.steps if s.digest == digest and not s.candidate]
        if own:
            return own[-1]
    return None


class SkillStateChange(Value, kw_only=True, frozen=True):
    event: SkillChanged
    restore: str = ""
    """Digest of the version to restore; empty when none."""


def decide_after_use(
    status: SkillStatus, *, run: str, live_uses: int = 3
) -> SkillStateChange | None:
    """The state change that follows from the uses so far; None when there is none."""
    failed = [use for use in status.uses if not use.verified]
    if failed and status.state in ("validated", "trusted"):
        why = f"a live use was not verified: {failed[-1].detail}"
        return roll_back(status, run=run, reason=why)
    good = sum(use.verified for use in status.uses)
    if status.state == "validated" and good >= live_uses:
        reason = f"{good} live uses verified"
        trusted = change_state(status, "trusted", run=run, by=AUTOMATIC_ACTOR, reason=reason)
        incidents = tuple(use.incident for use in status.uses if use.incident)
        return SkillStateChange(event=replace(trusted, evidence=incidents))
    return None


def roll_back(status: SkillStatus, *, run: str, reason: str) -> SkillStateChange:
    """Back to the parent version; without a usable parent the skill becomes a draft again."""
    draft = change_state(status, "draft", run=run, by=AUTOMATIC_ACTOR, reason=reason)
    before = find_parent_version(status)
    if before is None or before.state not in ("validated", "trusted"):
        return SkillStateChange(event=draft)
    event = replace(
        draft,
        digest=before.digest,
        state=before.state,
        parents=before.parents,
        evidence=before.evidence,
        reason=f"rolled back from {status.digest[:12]}: {reason}",
    )
    return SkillStateChange(event=event, restore=before.digest)
