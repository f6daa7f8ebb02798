"""The library of those who answer alerts: as it is now, and in memory before an alert comes.

It is read beside the loop, and again only when a file or the state of a skill is another: dozens
of files must not hold up an alert.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import anyio
from anyio import to_thread

from hermes.app.skills import open_library, states_in
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillState
from hermes.core.protocols import Journal
from hermes.settings.load import Loaded
from hermes.skills.cards import Root
from hermes.skills.library import Skill
from hermes.skills.matching import Index

Files = tuple[tuple[str, int, int, int], ...]


class _Stamp(NamedTuple):
    states: tuple[tuple[str, str], ...]
    files: Files


class Shelf:
    """Skills with a playbook, and which of them an alert may be about."""

    def __init__(self, loaded: Loaded, journal: Journal) -> None:
        self._loaded, self._journal = loaded, journal
        self._reading = anyio.Lock()
        self._stamp: _Stamp | None = None
        self._skills: Sequence[Skill] = ()
        self.index = Index()

    async def skills(self) -> Sequence[Skill]:
        async with self._reading:
            states = await states_in(self._journal)
            await to_thread.run_sync(self._refresh, states)
            return self._skills

    async def fill(self) -> None:
        """Before the first alert comes."""
        await self.index.matcher(await self.skills())

    def _refresh(self, states: Mapping[str, SkillState]) -> None:
        library = open_library(self._loaded, states=states)
        stamp = _Stamp(tuple(sorted(states.items())), _files(library.roots))
        if stamp != self._stamp:
            self._skills = [skill for skill in library.skills if _playable(skill)]
            self._stamp = stamp


def _playable(skill: Skill) -> bool:
    """All that is needed of it is read here, where it holds up nobody; one that is broken is left
    to `hermes skills lint`."""
    try:
        return skill.playbook is not None and bool(skill.digest)
    except (OSError, SettingsError):
        return False


def _files(roots: Sequence[Root]) -> Files:
    """Every file with what changes when somebody writes to it."""
    found = []
    for root in roots:
        for folder, _, names in os.walk(root.path):
            for name in names:
                with suppress(OSError):
                    told = os.stat(f"{folder}/{name}", follow_symlinks=False)  # noqa: PTH116 - fast
                    found.append((f"{folder}/{name}", told.st_ino, told.st_mtime_ns, told.st_size))
    return tuple(sorted(found))
