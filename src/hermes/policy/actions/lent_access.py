"""Code that was not read, beside commands that may do more than read.

All pieces of a command run under one profile: what `tmux ls` needs, a program that `git status`
runs for the configuration of a repository could use as well. Code in the words of the command is
read, code in files of a working folder is not; what the user's own home and the system configure
counts as theirs.
"""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes.core.actions import ConfinementProfile
from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.actions.confinement_profile import build_profile, git_verb
from hermes.policy.actions.repository_programs import find_configured_program
from hermes.policy.actions.written_files import IMPLICIT_FILES, loads_file
from hermes.policy.commands.effects import word_set
from hermes.policy.programs.resource_access import REMOTE_WRAPPERS

_PLAIN_VERBS = word_set(
    "rev-parse config ls-tree rev-list symbolic-ref for-each-ref show-ref version help"
    " count-objects var check-ignore"
)
"""Verbs of git that run no program of the configuration."""
_HARMLESS_MAKERS = word_set("git mkdir rmdir rm touch chmod chown chgrp")
"""Programs that change a folder and bring no code of others into it."""
_FOLDER_OPTIONS = ("-C", "--git-dir", "--work-tree", "-chdir", "--chdir", "--cwd", "--project")
_UNKNOWN_CHARACTERS = frozenset("…*?[")
_LOOPING_WRAPPERS = frozenset({"find", "fd", "parallel", "xargs"})
_ANSIBLE_FILES = ("ansible.cfg", "*_plugins", "library", "hosts", "inventory*")
_WORKING_FOLDER_PROGRAMS = ("python", "pypy", "ansible", "ansible-inventory", "ansible-playbook")
_CODE_OF_READS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("python", "pypy"), IMPLICIT_FILES["python"]),
    **dict.fromkeys(("terraform", "tofu", "terragrunt", "packer"), IMPLICIT_FILES["terraform"]),
    **dict.fromkeys(("ansible", "ansible-inventory", "ansible-playbook"), _ANSIBLE_FILES),
    "cargo": (".cargo/config*", "rust-toolchain*"),
    "composer": ("composer.json",),
    "hg": (".hg/hgrc",),
    "mvn": (".mvn/*",),
    "vagrant": ("Vagrantfile",),
}
"""Files by which a program runs code although it only looks; those of most projects are found in
the folders above as well. Other programs that run code from files have the effect exec-dynamic."""
_VERSION_WORDS = frozenset({"--version", "-V", "-v", "version", "--help", "-h", "help"})


def mark_lent_access(
    effects: ActionEffects, folders_of: Callable[[ActionStep], Sequence[str]]
) -> ActionEffects:
    """Marks each command with code that was not read and that could use what others are granted."""
    if not any(_may_run_unread_code(step) for step in effects.steps):
        return effects
    if build_profile(effects).unrestricted:
        return effects
    steps = []
    for step in effects.steps:
        found = ""
        if _may_run_unread_code(step) and _is_lent_access(step, effects):
            folders = folders_of(step)
            found = _find_unread_code(step, folders) or _find_new_folder(effects, step, folders)
        if found:
            why = f"exec-dynamic: {found} may run a program, which could do what the rest may"
            step = replace(step, effects=step.effects | {"exec-dynamic"}, why=(*step.why, why))
        steps.append(step)
    return replace(effects, steps=tuple(steps))


def name_unread_code(effects: ActionEffects) -> ActionEffects:
    """For another host, whose files cannot be looked into: the decision says what it rests on."""
    if build_profile(effects).unrestricted:
        return effects
    for step in effects.steps:
        if _may_run_unread_code(step) and _is_lent_access(step, effects):
            found = f"the configuration that {step.program} finds there, which was not read,"
            return replace(effects, unread=found)
    return effects


def _program_name(step: ActionStep) -> str:
    name = posixpath.basename(step.program)
    return name if name in _CODE_OF_READS else name.rstrip("0123456789.")


def _may_run_unread_code(step: ActionStep) -> bool:
    if REMOTE_WRAPPERS.intersection(step.via):
        return False
    name = _program_name(step)
    if name == "git":
        return git_verb(step) not in _PLAIN_VERBS
    if name not in ("mvn", "cargo") and _VERSION_WORDS.intersection(step.argv[1:2]):
        return False  # the two others read files of the folder for that too
    return name in _CODE_OF_READS


def _is_lent_access(step: ActionStep, effects: ActionEffects) -> bool:
    """Whether the profile of all steps grants more than this one has for itself.

    What git itself needs counts as well: its verbs do not say that a repository runs programs.
    """
    own = ConfinementProfile()
    if _program_name(step) != "git":
        own = build_profile(replace(effects, steps=(step,)))
    return _grants_more(build_profile(effects), own)


def _grants_more(profile: ConfinementProfile, own: ConfinementProfile) -> bool:
    listed = ("writable", "templates", "beside", "needs", "repositories", "sockets", "special")
    if any(set(getattr(profile, name)) - set(getattr(own, name)) for name in listed):
        return True
    connects = profile.network == "any" or bool(set(profile.ports) - set(own.ports))
    return (
        (connects and own.network != "any")
        or (profile.may_signal and not own.may_signal)
        or (profile.repository != "" and not own.repository)
    )


def _find_unread_code(step: ActionStep, folders: Sequence[str]) -> str:
    """The first file in these folders that makes the program run code; or empty."""
    if _runs_in_unknown_folder(step, folders):
        return "what it finds in a folder that is only known at run time"
    find = find_configured_program if _program_name(step) == "git" else _code_file_finder(step)
    return next(filter(None, map(find, folders)), "")


def _find_new_folder(effects: ActionEffects, step: ActionStep, folders: Sequence[str]) -> str:
    """A folder whose content another part of the command puts there; it cannot be read yet."""
    changed = [
        path
        for other in effects.steps
        if other is not step and _program_name(other) not in _HARMLESS_MAKERS
        for path in other.changes
    ]
    for folder in map(posixpath.normpath, folders):
        if any(f"{folder}/".startswith(f"{path.rstrip('/')}/") for path in changed):
            return f"{folder}, whose content this command puts there,"
    return ""


def _runs_in_unknown_folder(step: ActionStep, folders: Sequence[str]) -> bool:
    options = {word.partition("=")[0] for word in step.argv}
    named = {*step.paths, *map(posixpath.dirname, step.paths)}
    entered = (
        folders
        if options.intersection(_FOLDER_OPTIONS)
        else [folder for folder in folders if folder not in named]
    )
    return bool(_LOOPING_WRAPPERS.intersection(step.via)) or any(
        _UNKNOWN_CHARACTERS.intersection(folder) for folder in entered
    )


def _code_file_finder(step: ActionStep) -> Callable[[str], str]:
    name = _program_name(step)

    def find(folder: str) -> str:
        place, above = posixpath.normpath(folder), ""
        while place.startswith("/") and place != above:
            for pattern in _CODE_OF_READS[name]:
                for file in Path(place).glob(pattern):
                    if loads_file(step.program, step.argv, str(file.relative_to(place))):
                        return str(file)
            if name in _WORKING_FOLDER_PROGRAMS:
                return ""
            above, place = place, posixpath.dirname(place)
        return ""

    return find


def is_below_changes(own: str, cwd: str, steps: Iterable[ActionStep]) -> bool:
    """Whether the path is below one that is changed, or may be in a repository that is.

    Policies of the project come and go with its repository.
    """
    in_project = own.startswith(f"{cwd}/.hermes/")
    return any(
        any(own.startswith(f"{path.rstrip('/')}/") for path in step.changes)
        or (bool(step.repositories) and not in_project)
        for step in steps
    )
