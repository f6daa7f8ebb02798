"""Live uses: enough that verified make a skill trusted, one that did harm takes it back."""

from msgspec.structs import replace

from hermes.core.events.skills import SkillChanged
from hermes.core.messages import Value
from hermes.skills.lifecycle.life import Life, step, version_before

BY = "hermes"


class Verdict(Value, kw_only=True, frozen=True):
    event: SkillChanged
    restore: str = ""
    """Digest of the version that has to come back into use; empty when none has to."""


def after_use(life: Life, *, run: str, live_uses: int = 3) -> Verdict | None:
    """What follows from the uses so far; None when nothing does."""
    failed = [use for use in life.uses if not use.verified]
    if failed and life.state in ("validated", "trusted"):
        return roll_back(life, run=run, reason=f"a live use did not hold: {failed[-1].detail}")
    good = sum(use.verified for use in life.uses)
    if life.state == "validated" and good >= live_uses:
        reason = f"{good} live uses verified"
        trusted = step(life, "trusted", run=run, by=BY, reason=reason)
        incidents = tuple(use.incident for use in life.uses if use.incident)
        return Verdict(event=replace(trusted, evidence=incidents))
    return None


def roll_back(life: Life, *, run: str, reason: str, by: str = BY) -> Verdict:
    """To its parent as it stood; one without a parent becomes a draft again, and acts no more."""
    before = version_before(life)
    if before is None or before.state not in ("validated", "trusted"):
        return Verdict(event=step(life, "draft", run=run, by=by, reason=reason))
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
    return Verdict(event=event, restore=before.digest)
