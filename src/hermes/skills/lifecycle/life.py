"""Where each skill stands, folded from the journal, and which steps are open to it."""

from collections.abc import Iterable, Sequence

from hermes.core.errors import SettingsError
from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.skills import SkillChanged, SkillMeasured, SkillState, SkillUsed
from hermes.core.messages import Value

ORDER: tuple[SkillState, ...] = ("draft", "compiled", "validated", "trusted", "retired")
_NEXT: dict[SkillState, frozenset[SkillState]] = {
    "draft": frozenset({"compiled", "validated", "retired"}),
    "compiled": frozenset({"validated", "retired"}),
    "validated": frozenset({"trusted", "retired"}),
    "trusted": frozenset({"retired"}),
    "retired": frozenset(),
}


class Life(Value, kw_only=True, frozen=True):
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


def lives_in(events: Iterable[Event | Unknown]) -> dict[str, Life]:
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
        name: _life(name, changed.get(name, []), measured.get(name), uses.get(name, []))
        for name in {**changed, **measured, **uses}
    }


def _life(
    name: str,
    steps: Sequence[SkillChanged],
    measured: SkillMeasured | None,
    uses: Sequence[SkillUsed],
) -> Life:
    own = [step for step in steps if not step.candidate]
    last = own[-1] if own else None
    digest = last.digest if last else ""
    parents = next((s.parents for s in reversed(own) if s.digest == digest and s.parents), ())
    return Life(
        skill=name,
        state=last.state if last else "draft",
        digest=digest,
        parents=parents,
        evidence=last.evidence if last else (),
        steps=tuple(steps),
        measured=measured,
        uses=tuple(use for use in uses if use.digest == digest),
    )


def step(life: Life, to: SkillState, *, run: str, by: str, reason: str = "") -> SkillChanged:
    """One step on, or any step back. Raises `SettingsError` for one that skips the proof."""
    forward = ORDER.index(to) > ORDER.index(life.state)
    if forward and to not in _NEXT[life.state]:
        missing = ORDER[ORDER.index(life.state) + 1]
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


def version_before(life: Life) -> SkillChanged | None:
    """The step that brought the parent of the version in use to where it stood."""
    for digest in reversed(life.parents):
        own = [s for s in life.steps if s.digest == digest and not s.candidate]
        if own:
            return own[-1]
    return None
