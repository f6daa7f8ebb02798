"""Code that a repository names, beside commands that may do more than look.

All pieces of a command run under one profile: what `tmux ls` needs, a program that `git status`
runs for the configuration of a repository could use as well.
"""

import posixpath
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from hermes.core.actions import ConfinementProfile
from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.actions.confinement_profile import build_profile, git_verb
from hermes.policy.commands.effects import word_set
from hermes.policy.programs.resource_access import REMOTE_WRAPPERS

_PLAIN_VERBS = word_set(
    "rev-parse config ls-tree rev-list symbolic-ref for-each-ref show-ref version help"
    " count-objects var check-ignore"
)
"""Verbs that run no program of the configuration."""


def mark_lent_access(
    effects: ActionEffects,
    folders_of: Callable[[ActionStep], Sequence[str]],
    find_program: Callable[[str], str],
) -> ActionEffects:
    """Marks each git command whose repository could use what other commands are granted."""
    if not any(_may_run_configured(step) for step in effects.steps):
        return effects
    profile = build_profile(effects)
    if profile.unrestricted or not _grants_more_than_reading(profile):
        return effects
    steps = []
    for step in effects.steps:
        found = ""
        if _may_run_configured(step):
            found = next(filter(None, map(find_program, folders_of(step))), "")
        if found:
            why = f"exec-dynamic: {found} may run a program, which could do what the rest may"
            step = replace(step, effects=step.effects | {"exec-dynamic"}, why=(*step.why, why))
        steps.append(step)
    return replace(effects, steps=tuple(steps))


def _may_run_configured(step: ActionStep) -> bool:
    return (
        posixpath.basename(step.program) == "git"
        and git_verb(step) not in _PLAIN_VERBS
        and not REMOTE_WRAPPERS.intersection(step.via)
    )


def _grants_more_than_reading(profile: ConfinementProfile) -> bool:
    return bool(
        profile.writable
        or profile.templates
        or profile.beside
        or profile.repository
        or profile.network != "none"
        or profile.sockets
        or profile.special
        or profile.needs
        or profile.may_signal
    )


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
