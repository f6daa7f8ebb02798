"""What an incident leaves behind once its fix is proved: trust, a draft of a skill, a few facts."""

from collections.abc import Sequence

from hermes.app.house import House
from hermes.app.lifecycle import Lives
from hermes.app.skills import open_library, states_in
from hermes.core.events.incidents import ChangeBegan
from hermes.core.events.skills import PlaybookStarted, SkillChanged, SkillUsed
from hermes.core.protocols import Recorded
from hermes.skills.distill.deeds import NotDistilled
from hermes.skills.distill.distil import distil
from hermes.sre.case import Case
from hermes.sre.report.notes import notes_of
from hermes.sre.report.reading import earlier, records_of


async def learn(house: House, case: Case) -> None:
    """Once for each incident, also after a crash. Called for verified fixes only."""
    records = await records_of(house.journal, case.run)
    if any(isinstance(each.event, SkillUsed | SkillChanged) for each in records):
        return
    states = await states_in(house.journal)
    library = open_library(house.loaded, states=states)
    lives = Lives(house.loaded, house.journal, house.bus.publish, lambda: library)
    playbook = _playbook(records)
    if playbook is not None:
        await lives.used(
            playbook.skill, playbook.digest, verified=True, run=case.run, incident=case.incident
        )
    else:
        await _draft(lives, records, case)
    await _note(house, records, case)


async def _draft(lives: Lives, records: Sequence[Recorded], case: Case) -> None:
    try:
        made = await distil(records)
    except NotDistilled:  # not every fix can be repeated: that is no trouble
        return
    await lives.draft(made, run=case.run)


async def _note(house: House, records: Sequence[Recorded], case: Case) -> None:
    before = await earlier(house.journal, records)
    await house.memory.note(case.run, notes_of(records, earlier=before))


def _playbook(records: Sequence[Recorded]) -> PlaybookStarted | None:
    """The one whose changes stand; None when a model mended it."""
    changes = [each.event for each in records if isinstance(each.event, ChangeBegan)]
    played = [each.event for each in records if isinstance(each.event, PlaybookStarted)]
    last = changes[-1].by if changes else ""
    return next((each for each in reversed(played) if each.skill == last), None)
