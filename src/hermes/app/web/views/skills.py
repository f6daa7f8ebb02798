"""Skills with their state, evaluations and uses; one skill with its text; and retirement."""

from pathlib import Path

import anyio.to_thread

from hermes.app.incidents.views import PlainObject
from hermes.app.people import require_known
from hermes.app.skills.library import open_library, read_skill_states, retire_skill
from hermes.app.skills.lifecycle import SKILL_EVENT_KINDS
from hermes.app.skills.usage import SkillUsageRow, count_usage
from hermes.core.events.skills import SkillUsed
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings
from hermes.skills.library import Skill, SkillLibrary
from hermes.skills.lifecycle.status import STATE_ORDER, SkillStatus, fold_skill_statuses
from hermes.skills.playbook.reader import PLAYBOOK_FILE

MAX_TEXT_CHARS = 40_000
MAX_SHOWN_USES = 20


class HomeSkills:
    """Fulfils what the pages of skills show and do."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded, self._journal = loaded, journal

    async def skills(self, *, state: str = "", words: str = "") -> list[PlainObject]:
        """All skills, those of this home first; `words` must all be in name or description."""
        library, statuses = await self._library(), await self._statuses()
        uses = {each.skill: each for each in await count_usage(self._journal)}
        wanted = words.casefold().split()
        found = [
            _summary(skill, statuses.get(skill.name), uses.get(skill.name))
            for skill in library.skills_by_name.values()
            if (not state or skill.state == state)
            and all(word in f"{skill.name} {skill.description}".casefold() for word in wanted)
        ]
        order: dict[str, int] = {name: at for at, name in enumerate(reversed(STATE_ORDER))}
        found.sort(key=lambda each: (each["origin"] == "bundled", order[str(each["state"])]))
        return found

    async def skill(self, name: str) -> PlainObject:
        """One skill with its text and its life. Raises `SettingsError`."""
        library, statuses = await self._library(), await self._statuses()
        skill, status = library.find(name), statuses.get(name)
        uses = {each.skill: each for each in await count_usage(self._journal)}
        playbook = skill.read_linked_file(PLAYBOOK_FILE) if PLAYBOOK_FILE in skill.files else ""
        return {
            **_summary(skill, status, uses.get(name)),
            "body": skill.text.body.strip()[:MAX_TEXT_CHARS],
            "playbook": playbook[:MAX_TEXT_CHARS],
            "files": skill.files,
            "digest": skill.digest,
            "folder": str(skill.folder),
            "life": _life(status),
            "uses": [_use(each) for each in reversed(status.uses[-MAX_SHOWN_USES:])]
            if status is not None
            else [],
        }

    async def retire(self, name: str, *, back: bool, reason: str, person: str) -> str:
        """Raises `HermesError`."""
        who = await require_known(self._loaded, self._journal, person)
        skill = (await self._library()).find(name)
        state = await retire_skill(self._journal, skill, person=who, back=back, reason=reason)
        return f"{name} is {state}" + ("; it is not matched or run any more" if not back else "")

    async def _library(self) -> SkillLibrary:
        states = await read_skill_states(self._journal)
        library = open_library(self._loaded, Path.cwd(), states)
        # Reads the files, which takes a while with a cold disk.
        await anyio.to_thread.run_sync(lambda: library.skills_by_name)
        return library

    async def _statuses(self) -> dict[str, SkillStatus]:
        events = [each.event async for each in self._journal.read(kinds=SKILL_EVENT_KINDS)]
        return fold_skill_statuses(events)


def _summary(skill: Skill, status: SkillStatus | None, uses: SkillUsageRow | None) -> PlainObject:
    measured = status.measured if status is not None else None
    live = status.uses if status is not None else ()
    return {
        "name": skill.name,
        "description": skill.description,
        "category": skill.category,
        "origin": skill.origin,
        "state": skill.state,
        "playbook": (skill.folder / PLAYBOOK_FILE).is_file(),
        "measured": {
            "passed": measured.passed,
            "cases": list(measured.cases),
            "solved_with": measured.solved_with,
            "solved_without": measured.solved_without,
            "ratio": measured.ratio,
            "upper": measured.upper,
            "measure": measured.measure,
            "harmed": list(measured.harmed),
            "reasons": list(measured.reasons),
            "at": measured.at.isoformat(),
        }
        if measured is not None
        else None,
        "live_uses": len(live),
        "live_failed": sum(not use.verified for use in live),
        "applied": uses.applied if uses is not None else 0,
        "undone": uses.undone if uses is not None else 0,
        "declined": uses.declined if uses is not None else 0,
        "shown": uses.shown if uses is not None else 0,
        "seconds": uses.seconds if uses is not None else None,
    }


def _life(status: SkillStatus | None) -> list[PlainObject]:
    """The states that it had, the newest first."""
    return [
        {
            "at": each.at.isoformat(),
            "state": each.state,
            "before": each.before,
            "by": each.by,
            "reason": each.reason,
            "evidence": list(each.evidence),
            "candidate": each.candidate,
        }
        for each in reversed(status.steps if status is not None else ())
    ]


def _use(use: SkillUsed) -> PlainObject:
    return {
        "at": use.at.isoformat(),
        "verified": use.verified,
        "incident": use.incident,
        "detail": use.detail,
    }
