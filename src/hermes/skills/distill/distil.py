"""Makes a draft of a verified run by rules alone: no model has a word in it."""

from collections.abc import Sequence

from hermes.core.protocols import Recorded
from hermes.skills.distill.deeds import Deed, NotDistilled, Story, story_of
from hermes.skills.distill.evidence import Sign, signs
from hermes.skills.distill.literals import Given, from_alert, from_looks
from hermes.skills.distill.rehearsal import Contrast, Rehearse, contrasts, reduce_changes
from hermes.skills.distill.writing import (
    MOST_CHECKS,
    Check,
    Distilled,
    body_of,
    case_of,
    playbook_text,
    skill_name,
    told_words,
)

SHORT = 40
"""An output so short is itself what a check expects."""


async def distil(
    records: Sequence[Recorded], *, name: str = "", rehearse: Rehearse | None = None
) -> Distilled:
    """Raises `NotDistilled`. Without a rehearsal nothing is dropped, and signs are guesses."""
    story = story_of(records)
    steps: list[Deed] = list(story.changes)
    seen: list[Contrast] = []
    if rehearse is not None:
        steps = await reduce_changes(story.changes, rehearse)
        looks = [deed.command for deed in (*story.before, *story.after)]
        seen = await contrasts(looks, steps, rehearse)
    dropped = [deed for deed in story.changes if deed not in steps]
    given = _given(story, steps)
    found = signs(story, [*given, *_own_value(story)], seen)
    checks = _checks(story, seen, found)
    draft = Distilled(
        name=name or skill_name(story, given),
        description=_description(story),
        body=body_of(story, steps, checks),
        playbook=playbook_text(story, steps, given, found, checks, told_words(story, given)),
        case=case_of(story, steps, dropped),
    )
    draft.parsed()
    return draft


def _given(story: Story, steps: Sequence[Deed]) -> list[Given]:
    commands = [deed.command for deed in (*steps, *story.after)]
    looks = [deed.command for deed in story.before]
    alert = from_alert(story.facts, [*commands, *looks])
    changes = [deed.command for deed in steps]
    return [*alert, *from_looks(story.before, changes, alert)]


def _own_value(story: Story) -> list[Given]:
    """The value that was wrong belongs to this case: the next one has another."""
    value = story.diagnosis.value if story.diagnosis else ""
    return [Given(name="value", value=value, kind="text")] if len(value) >= 2 else []


def _checks(story: Story, seen: Sequence[Contrast], found: Sequence[Sign]) -> list[Check]:
    """Looks after the fix that would not have held before it."""
    made: list[Check] = []
    for look in story.after:
        check = Check(command=look.command, contains=_short(look.output))
        if all(_tells(check, each) for each in seen):
            made.append(check)
    if not made and seen:
        for sign in found:
            after = seen[0].after.get(sign.command)
            if sign.changes and after is not None and after.code == 0:
                check = Check(command=sign.command, contains=_short(after.output))
                made += [check] if all(_tells(check, each) for each in seen) else []
    if not made:
        raise NotDistilled(
            "no look of the run tells broken from mended: look at the service after the fix"
        )
    return list({check.command: check for check in made}.values())[:MOST_CHECKS]


def _tells(check: Check, seen: Contrast) -> bool:
    before, after = seen.before.get(check.command), seen.after.get(check.command)
    if before is None or after is None:
        return False
    held = after.code == 0 and check.contains in after.output
    return held and not (before.code == 0 and check.contains in before.output)


def _short(output: str) -> str:
    text = output.strip()
    return text if len(text) <= SHORT and "\n" not in text else ""


def _description(story: Story) -> str:
    cause = story.diagnosis.mechanism if story.diagnosis else ""
    what = f"Mends: {cause}. " if cause else ""
    text = f'{what}Learned from a verified incident; for alerts such as "{story.facts.title}".'
    return " ".join(text.split())[:1000]
