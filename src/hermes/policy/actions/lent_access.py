"""Access that a program would get only because its neighbours in a command need it.

All programs of a command run under one profile: the network that `dig` needs, a Python beside it
could use as well. So each program that would get more than it needs itself has to be a plain one,
which does just what its words say and runs no code of the folder it is in. What the user's own
home and the system configure counts as theirs.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from hermes.core.actions import ConfinementProfile
from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.actions.confinement_profile import (
    build_profile,
    git_verb,
    profile_without_steps,
)
from hermes.policy.actions.project_files import describe_unread_files
from hermes.policy.actions.repository_programs import find_configured_program
from hermes.policy.commands import tables
from hermes.policy.commands.effects import word_set
from hermes.policy.programs.resource_access import REMOTE_WRAPPERS
from hermes.policy.programs.table_effects import has_only_reading_words

_PLAIN_VERBS = word_set(
    "rev-parse config ls-tree rev-list symbolic-ref for-each-ref show-ref version help"
    " count-objects var check-ignore"
)
"""Verbs of git that run no program of the configuration."""
_HARMLESS_MAKERS = word_set("git mkdir rmdir rm touch chmod chown chgrp")
"""Programs that change a folder and bring no code of others into it."""
_FOLDER_OPTIONS = ("-C", "--git-dir", "--work-tree")
_GLOB_CHARACTERS, _UNKNOWN_CHARACTERS = re.compile(r"[*?\[]"), re.compile(r"[…*?\[]")
_LOOPING_WRAPPERS = frozenset({"find", "fd", "parallel", "xargs"})
_FILE_OPTION = re.compile(
    r"(?:(?P<list>--files0?-from|-T)|-f|-in|--[\w-]*(?:file|from|input)[\w-]*)(?:=|$)"
)
"""Options that name a file to read, or a file with a list of such files."""
_VERSION_WORDS = frozenset({"--version", "-V", "-v", "-version", "version", "--help", "-h", "help"})
_CONFIGURED_VERSIONS = frozenset({"mvn", "gradle", "cargo", "rustc"})
"""Programs that read files of the folder even to tell their version."""
_ACCESS_NAMES = {
    "own_secrets": "the keys of Hermes",
    "hidden": "the credentials",
    "network": "the network access",
    "ports": "the network access",
    "sockets": "the sockets",
    "special": "the special access",
    "may_signal": "the right to send signals",
    **dict.fromkeys(("writable", "templates", "beside", "needs"), "the write access"),
    **dict.fromkeys(("repository", "repositories"), "the write access to the repository"),
}
"""Parts of a profile, with the access that they give."""
_SHOWS_SECRETS = frozenset({"own_secrets", "hidden"})
"""Access with which it matters which files are read; other secrets found at run time are refused
when they are opened."""


def mark_lent_access(
    effects: ActionEffects, folders_of: Callable[[ActionStep], Sequence[str]] | None
) -> ActionEffects:
    """Marks each program that would get access of its neighbours and is not known to be plain.

    `folders_of` tells where a program runs; None for another host, whose files cannot be looked
    into: then the decision says what it rests on.
    """
    if len(effects.steps) == 1 and not _runs_git(effects.steps[0]):
        return effects  # it has no neighbours
    profile, nothing = build_profile(effects), profile_without_steps()
    if profile.unrestricted or not _lent_parts(profile, nothing):
        return effects
    steps, unread = [], effects.unread
    for step in effects.steps:
        # What git itself needs counts as lent: a repository runs programs.
        own = nothing if _runs_git(step) else build_profile(replace(effects, steps=(step,)))
        lent = () if REMOTE_WRAPPERS.intersection(step.via) else _lent_parts(profile, own)
        reason = ""
        if lent and folders_of is None and _finds_code(step):
            unread = describe_unread_files(step)
        elif lent:
            reason = _find_reason(effects, step, lent, folders_of, profile, own)
        if reason:
            why = f"exec-dynamic: {reason} {_describe_access(effects, step, own)}"
            step = replace(step, effects=step.effects | {"exec-dynamic"}, why=(*step.why, why))
        steps.append(step)
    return replace(effects, steps=tuple(steps), unread=unread)


def _runs_git(step: ActionStep) -> bool:
    return posixpath.basename(step.program) == "git"


def _finds_code(step: ActionStep) -> bool:
    """Return whether it may be a plain program, but only after a look at files."""
    name = posixpath.basename(step.program)
    return _is_python(name) or (name == "git" and git_verb(step) not in _PLAIN_VERBS)


def _is_python(name: str) -> bool:
    return name.rstrip("0123456789.") == "python"


def _lent_parts(profile: ConfinementProfile, own: ConfinementProfile) -> tuple[str, ...]:
    """The parts of the profile that grant more than a program has for itself."""
    return tuple(part for part in _ACCESS_NAMES if _grants_more(part, profile, own))


def _grants_more(part: str, profile: ConfinementProfile, own: ConfinementProfile) -> bool:
    given, needed = getattr(profile, part), getattr(own, part)
    if part == "hidden":
        return bool(set(needed) - set(given))
    if part == "network":
        return profile.network == "any" and own.network != "any"
    if part == "ports" and own.network == "any":
        return False
    if isinstance(given, tuple):
        return bool(set(given) - set(needed))
    return bool(given) and not needed


def _describe_access(effects: ActionEffects, step: ActionStep, own: ConfinementProfile) -> str:
    """Return what would be lent, and the first program that needs it."""
    for other in (each for each in effects.steps if each is not step):
        for part in _lent_parts(build_profile(replace(effects, steps=(other,))), own):
            return f"would get {_ACCESS_NAMES[part]} that {other.program or 'the rest'} needs"
    return "would get what the program itself needs"


def _find_reason(
    effects: ActionEffects,
    step: ActionStep,
    lent: Sequence[str],
    folders_of: Callable[[ActionStep], Sequence[str]] | None,
    profile: ConfinementProfile,
    own: ConfinementProfile,
) -> str:
    """Return why the program may not have what its neighbours need; empty when it may."""
    name = posixpath.basename(step.program)
    if name == "git":
        folders = folders_of(step) if folders_of and git_verb(step) not in _PLAIN_VERBS else ()
        found = _find_repository_program(step, folders) or _find_new_folder(effects, step, folders)
        return found and f"{found} may run a program, which"
    if _SHOWS_SECRETS.intersection(lent) and _reads_unknown_files(effects, step):
        return f"{name} reads files that are only known at run time, and"
    if _lends_far_reaching(step, lent, profile, own) and _has_run_time_words(step):
        return f"{name} has words that are only known at run time, and"
    if not name or _is_plain(name) or _only_tells_version(name, step):
        return ""
    return name


_FAR_REACHING = word_set("processes attach network-settings audit devices raw-sockets")
"""Special access with which a program reaches other processes, the network or the kernel."""


_CHANGING_ACCESS = word_set("needs beside repository repositories")
_COMMAND_SERVERS = frozenset({"the tmux server", "the container daemon"})
"""Servers that run commands of every program that reaches their socket."""


def _lends_far_reaching(
    step: ActionStep, lent: Sequence[str], profile: ConfinementProfile, own: ConfinementProfile
) -> bool:
    if "own_secrets" in lent:
        return True
    if _CHANGING_ACCESS.intersection(lent) and not _can_only_read(step):
        return True
    if "sockets" in lent and not _can_only_read(step):
        return not _COMMAND_SERVERS.isdisjoint(profile.peers)
    if "special" not in lent:
        return False
    return bool(_FAR_REACHING.intersection(profile.special).difference(own.special))


def _can_only_read(step: ActionStep) -> bool:
    """Return whether no word makes it write, such as `ls` and `tail`."""
    entry = tables.find_program(posixpath.basename(step.program))
    return entry is not None and not entry.spec.special and has_only_reading_words(entry)


def _has_run_time_words(step: ActionStep) -> bool:
    """Return whether words of run time may be options, or files that it opens."""
    entry = tables.find_program(posixpath.basename(step.program))
    if entry is not None and entry.spec.opens == "nothing":
        return False
    return any(word.startswith("…") for word in step.argv[1:]) or any(
        "…" in path for path in step.paths if path != "/dev/fd/…"
    )


def _is_plain(name: str) -> bool:
    """Python is plain where it is not marked: its code was read, and it imports no other file."""
    lists = tables.path_lists()
    plain = name in lists["runs_no_files"] or name in lists["plain_programs"]
    return plain or _is_python(name)


def _only_tells_version(name: str, step: ActionStep) -> bool:
    asks = len(step.argv) == 2 and step.argv[1] in _VERSION_WORDS
    return asks and name not in _CONFIGURED_VERSIONS


def _reads_unknown_files(effects: ActionEffects, step: ActionStep) -> bool:
    """Return whether it may open a file with credentials by a name that is not in the command."""
    if posixpath.basename(step.program) == "file" and "-f" in step.flags:
        return True
    for at, word in enumerate(step.argv):
        option = _FILE_OPTION.match(word)
        if option and (option["list"] or "…" in "".join(step.argv[at : at + 3])):
            return True
    return any(_may_be_credentials(path, effects.home) for path in step.paths)


def _may_be_credentials(path: str, home: str) -> bool:
    credentials = tables.path_lists()["hidden_credentials"]
    if path == "/dev/fd/…":  # a process substitution
        return False
    if "…" in path:  # possibly with `..` in it
        end = path.rpartition("…")[2]
        return "/" not in end or any(each.endswith(end) for each in credentials)
    known = _GLOB_CHARACTERS.split(path, maxsplit=1)[0]
    if known == path:
        return False
    inside = re.sub(rf"(?:{re.escape(home)}|/root|/home/[^/]+)/", "~/", known, count=1)
    if not inside.startswith("~/"):
        return any(each.startswith(known) for each in (f"{home}/", "/root/", "/home/"))
    return any(
        each.startswith(inside) or inside.startswith(each.partition("*")[0]) for each in credentials
    )


def _find_repository_program(step: ActionStep, folders: Sequence[str]) -> str:
    """The first setting of a repository in these folders that makes git run a program; or empty."""
    if _runs_in_unknown_folder(step, folders):
        return "what it finds in a folder that is only known at run time"
    return next(filter(None, map(find_configured_program, folders)), "")


def _find_new_folder(effects: ActionEffects, step: ActionStep, folders: Sequence[str]) -> str:
    """A folder whose content another part of the command puts there; it cannot be read yet."""
    changed = [
        path
        for other in effects.steps
        if other is not step and posixpath.basename(other.program) not in _HARMLESS_MAKERS
        for path in other.changes
    ]
    for folder in map(posixpath.normpath, folders):
        if any(f"{folder}/".startswith(f"{path.rstrip('/')}/") for path in changed):
            return f"{folder}, whose content this command puts there,"
    return ""


def runs_git_in_unknown_folder(step: ActionStep, folders: Sequence[str]) -> bool:
    return _runs_git(step) and _runs_in_unknown_folder(step, folders)


def _runs_in_unknown_folder(step: ActionStep, folders: Sequence[str]) -> bool:
    options = {word.partition("=")[0] for word in step.argv}
    named = {*step.paths, *map(posixpath.dirname, step.paths)}
    entered = (
        folders
        if options.intersection(_FOLDER_OPTIONS)
        else [folder for folder in folders if folder not in named]
    )
    return bool(_LOOPING_WRAPPERS.intersection(step.via)) or any(
        _UNKNOWN_CHARACTERS.search(folder) for folder in entered
    )


def is_below_changes(own: str, cwd: str, steps: Iterable[ActionStep]) -> bool:
    """Return whether the path is below one that is changed, or may be in a repository that is.

    Policies of the project come and go with its repository.
    """
    in_project = own.startswith(f"{cwd}/.hermes/")
    return any(
        any(own.startswith(f"{path.rstrip('/')}/") for path in step.changes)
        or (bool(step.repositories) and not in_project)
        for step in steps
    )
