"""Where each skill stands, folded from the journal, and which steps are open to it."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from hermes.core.errors import SettingsError
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.skills import SkillChanged, SkillMeasured, SkillState, SkillUsed
from hermes.core.messages import Value

STATE_ORDER: tuple[SkillState, ...] = ("draft", "compiled", "validated", "trusted", "retired")
_ALLOWED_STATES: dict[SkillState, frozenset[SkillState]] = {
    "draft": frozenset({"compiled", "validated", "retired"}),
    "compiled": frozenset({"validated", "retired"}),
    "validated": frozenset({"trusted", "retired"}),
    "trusted": frozenset({"retired"}),
    "retired": frozenset(),
}


class SkillStatus(Value, kw_only=True, frozen=True):
    """One skill: what is in use, what it came from, and what has been seen of it."""

    skill: str
    state: SkillState = "draft"
    digest: str = ""
    parents: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    steps: tuple[SkillChanged, ...] = ()
    measured: SkillMeasured | None = None
    """The last gate that the version in use, or a candidate, went through."""
    uses: tuple[SkillUsed, ...] = ()
    """Live uses of the version in use since it got its state."""


def fold_skill_statuses(events: Iterable[Event | UnknownEvent]) -> dict[str, SkillStatus]:
    """Of every skill that the journal knows."""
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
    life: SkillStatus, to: SkillState, *, run: str, by: str, reason: str = ""
) -> SkillChanged:
    """One step on, or any step back. Raises `SettingsError` for one that skips the proof."""
    forward = STATE_ORDER.index(to) > STATE_ORDER.index(life.state)
    if forward and to not in _ALLOWED_STATES[life.state]:
        missing = STATE_ORDER[STATE_ORDER.index(life.state) + 1]
        raise SettingsError(
            f"{life.skill} is {life.state}: it cannot become {to} before it is {missing}; "
            f"see: hermes skills promote {life.skill}"
        )
    if to == life.state:
        raise SettingsError(f"{life.skill} is {to} already")
    return SkillChanged(
        run=run,
        skill=life.skill,
        digest=life.digest,
        state=to,
        before=life.state,
        parents=life.parents,
        reason=reason,
        by=by,
    )


def find_parent_version(life: SkillStatus) -> SkillChanged | None:
    """The step that brought the parent of the version in use to where it stood."""
    for digest in reversed(life.parents):
        own = [s for s in life.steps if s.digest == digest and not s.candidate]
        if own:
            return own[-1]
    return None


AUTOMATIC_ACTOR = "hermes"


class SkillStateChange(Value, kw_only=True, frozen=True):
    event: SkillChanged
    restore: str = ""
    """Digest of the version that has to come back into use; empty when none has to."""


def decide_after_use(life: SkillStatus, *, run: str, live_uses: int = 3) -> SkillStateChange | None:
    """What follows from the uses so far; None when nothing does."""
    failed = [use for use in life.uses if not use.verified]
    if failed and life.state in ("validated", "trusted"):
        return roll_back(life, run=run, reason=f"a live use did not hold: {failed[-1].detail}")
    good = sum(use.verified for use in life.uses)
    if life.state == "validated" and good >= live_uses:
        reason = f"{good} live uses verified"
        trusted = change_state(life, "trusted", run=run, by=AUTOMATIC_ACTOR, reason=reason)
        incidents = tuple(use.incident for use in life.uses if use.incident)
        return SkillStateChange(event=replace(trusted, evidence=incidents))
    return None


def roll_back(
    life: SkillStatus, *, run: str, reason: str, by: str = AUTOMATIC_ACTOR
) -> SkillStateChange:
    """To its parent as it stood; one without a parent becomes a draft again, and acts no more."""
    before = find_parent_version(life)
    if before is None or before.state not in ("validated", "trusted"):
        return SkillStateChange(event=change_state(life, "draft", run=run, by=by, reason=reason))
    event = SkillChanged(
        run=run,
        skill=life.skill,
        digest=before.digest,
        state=before.state,
        before=life.state,
        parents=before.parents,
        evidence=before.evidence,
        reason=f"rolled back from {life.digest[:12]}: {reason}",
        by=by,
    )
    return SkillStateChange(event=event, restore=before.digest)
