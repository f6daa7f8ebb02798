"""The files on which the verdict of a command depends, as they are when it is judged.

Git, make and others run what they find in files of the folder they are in. The policy looks whether
the agent wrote such a file, or what is in it. A command may wait, or run beside another one that
makes or replaces the file. So the supervisor checks when such a file is opened that it is as old as
the verdict, and that the folders above are those that were looked at.
"""

import os
import posixpath
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from hermes.policy.actions.action_effects import ActionStep, FilesAtVerdict
from hermes.policy.actions.confinement_profile import git_verb
from hermes.policy.actions.implicit_files import implicit_files_of, writes_trees
from hermes.policy.actions.lent_access import runs_git_in_unknown_folder
from hermes.policy.actions.repository_programs import find_repository_records
from hermes.policy.commands.effects import word_set

_GIT_SETTINGS = (
    *("config", "config.worktree", ".git", "commondir", "hooks/*", ".gitattributes"),
    *(".gitmodules", "info/attributes", "info/alternates", ".lfsconfig", ".pre-commit-config.yaml"),
)
"""Files of git that name programs or other repositories; others change all the time."""
_SETTINGS_OF_USERS = word_set("curl wget psql vim gdb docker docker-compose")
"""Programs whose files are in home folders, and asked about when they are written."""
_RECORDING_VERBS = word_set("add commit fetch branch tag notes")
MAX_FOLDERS = 400


def file_clock_ns() -> int:
    """The time by the clock with which file systems mark changes."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME))


def files_at_verdict(
    steps: Sequence[ActionStep],
    folders_of: Callable[[ActionStep], Sequence[str]],
    judged_at: int,
) -> FilesAtVerdict:
    """`folders_of` tells where a program may find its files."""
    names: dict[str, None] = {}
    places: dict[str, None] = {}
    anywhere = False
    for step in steps:
        if patterns := _patterns_of(step):
            names.update(dict.fromkeys(patterns))
            found = folders_of(step)
            anywhere = anywhere or runs_git_in_unknown_folder(step, found)
            for folder in found:
                places.update(dict.fromkeys(_places_to_check(folder)))
    if not names:
        return FilesAtVerdict()
    return FilesAtVerdict(
        judged_at=judged_at,
        names=tuple(names),
        folders=tuple(map(_identity, [*places][:MAX_FOLDERS])),
        other_repositories=anywhere,
        made_by_command=any(_may_make(step, names) for step in steps),
    )


def _patterns_of(step: ActionStep) -> tuple[str, ...]:
    name = posixpath.basename(step.program)
    if name == "git":
        return _GIT_SETTINGS
    return () if name in _SETTINGS_OF_USERS else implicit_files_of(step.program, step.argv)


def _places_to_check(folder: str) -> Iterator[str]:
    """The folder, all above it, and where each may have a repository; also with links resolved."""
    if not folder.startswith("/") or any(mark in folder for mark in "…*?["):
        return
    for start in dict.fromkeys((posixpath.normpath(folder), os.path.realpath(folder))):
        place = start
        while place != "/":
            yield place
            yield f"{place}/.git"
            place = posixpath.dirname(place)
    yield from map(os.path.realpath, find_repository_records(folder))


def _identity(path: str) -> tuple[str, int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return path, 0, 0
    return path, status.st_dev, status.st_ino


def _may_make(step: ActionStep, names: dict[str, None]) -> bool:
    """Return whether the command itself may make such files, so that new ones are its own."""
    if not step.changes and not step.repositories:
        return False
    if posixpath.basename(step.program) == "git":
        return git_verb(step) not in _RECORDING_VERBS
    return writes_trees(step.program, step.flags) or any(
        fnmatchcase(path, f"*/{name}") for path in step.changes for name in names
    )
