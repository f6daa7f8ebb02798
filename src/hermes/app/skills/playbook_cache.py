"""The playbooks that incidents can use, kept in memory.

They are read in a thread, and again only when a file or the state of a skill has changed: reading
dozens of files must not delay an alert.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import anyio
from anyio import to_thread

from hermes.app.skills.library import open_library, read_skill_states
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillState
from hermes.core.protocols import Journal
from hermes.settings.load import LoadedSettings
from hermes.skills.discovery import SkillRoot
from hermes.skills.library import Skill
from hermes.skills.matching import SkillMatcherCache

FileStamps = tuple[tuple[str, int, int, int], ...]


class _LibraryStamp(NamedTuple):
    states: tuple[tuple[str, str], ...]
    files: FileStamps


class PlaybookCache:
    """Skills with a playbook, and which of them match an alert."""

    def __init__(self, loaded: LoadedSettings, journal: Journal) -> None:
        self._loaded, self._journal = loaded, journal
        self._reading = anyio.Lock()
        self._stamp: _LibraryStamp | None = None
        self._skills: Sequence[Skill] = ()
        self.index = SkillMatcherCache()

    async def skills(self) -> Sequence[Skill]:
        async with self._reading:
            states = await read_skill_states(self._journal)
            await to_thread.run_sync(self._refresh, states)
            return self._skills

    async def fill(self) -> None:
        """Read the library before the first alert."""
        await self.index.matcher(await self.skills())

    def _refresh(self, states: Mapping[str, SkillState]) -> None:
        library = open_library(self._loaded, states=states)
        stamp = _LibraryStamp(tuple(sorted(states.items())), _file_stamps(library.roots))
        if stamp != self._stamp:
            self._skills = [skill for skill in library.skills if _is_playable(skill)]
            self._stamp = stamp


def _is_playable(skill: Skill) -> bool:
    """Everything needed of it is read here, in the background; a broken one is left to `hermes
    skills lint`."""
    try:
        return skill.playbook is not None and bool(skill.digest)
    except (OSError, SettingsError):
        return False


def _file_stamps(roots: Sequence[SkillRoot]) -> FileStamps:
    """Every file with values that change when it is written."""
    found = []
    for root in roots:
        for folder, _, names in os.walk(root.path):
            for name in names:
                with suppress(OSError):
                    stat = os.stat(f"{folder}/{name}", follow_symlinks=False)  # noqa: PTH116 - fast
                    found.append((f"{folder}/{name}", stat.st_ino, stat.st_mtime_ns, stat.st_size))
    return tuple(sorted(found))
