"""Commands that the launcher of root runs for the user of the service, and confines itself.

A person listed these commands in a file of root. A step that is exactly one of them needs no other
privilege, so it gets the verdict of the same command without `sudo`.
"""

import posixpath
import re

from msgspec.structs import replace

from hermes.core.actions import ConfinementProfile, KernelSupport
from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.commands.effects import READING_EFFECTS
from hermes.policy.programs import resource_access

_LISTED_EFFECTS = READING_EFFECTS | {"service-change", "privilege"}
_EXPANSION = re.compile(r"[$`<(]")
"""With these, a shell outside of the launcher would run or read something."""


def mark_root_commands(effects: ActionEffects) -> ActionEffects:
    """Takes the effect `privilege` from the steps that people listed for the launcher."""
    kernel = effects.kernel
    if kernel is None or not (kernel.root_commands or kernel.unconfined_root_commands):
        return effects
    listed = {*kernel.root_commands, *kernel.unconfined_root_commands}
    steps = tuple(
        _without_privilege(step) if _words_as_root(step) in listed else step
        for step in effects.steps
    )
    return replace(effects, steps=steps)


def root_launcher_profile(effects: ActionEffects) -> ConfinementProfile | None:
    """The profile of a command that only runs the launcher; None for any other."""
    kernel = effects.kernel
    if kernel is None or not effects.steps or _EXPANSION.search(effects.command):
        return None
    if not all(_runs_as_root(step, kernel) for step in effects.steps):
        return None
    changes = not effects.is_read_only
    for step in effects.steps:
        if (words := _words_as_root(step)) in kernel.unconfined_root_commands:
            return ConfinementProfile(
                changes=changes, unrestricted=f"`{words}` is listed to run with all rights of root"
            )
    programs = (posixpath.basename(step.program) for step in effects.steps)
    peers = (resource_access.access_of(each) for each in programs)
    return ConfinementProfile(
        changes=changes,
        root_launcher=True,
        peers=tuple(dict.fromkeys(each.peer for each in peers if each.peer)),
    )


def _runs_as_root(step: ActionStep, kernel: KernelSupport) -> bool:
    if not (words := _words_as_root(step)):
        return False
    reads = step.is_read_only and words.partition(" ")[0] in kernel.root_readers
    return reads or words in (*kernel.root_commands, *kernel.unconfined_root_commands)


def _words_as_root(step: ActionStep) -> str:
    """Return what follows a plain `sudo`; empty with options of sudo, or for another step."""
    start, _, words = step.node.partition(" ")
    words = words.removeprefix("-n ")
    plain = start == "sudo" and step.via == ("sudo",) and words.partition(" ")[0] == step.program
    return words if plain and not step.changes and step.effects <= _LISTED_EFFECTS else ""


def _without_privilege(step: ActionStep) -> ActionStep:
    why = tuple(line for line in step.why if not line.startswith("privilege:"))
    return replace(step, effects=step.effects - {"privilege"}, why=why)
