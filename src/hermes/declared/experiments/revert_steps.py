"""The revert of a proved cause as commands for the host, each with its undo.

Contents never stand in a command: commands are recorded. The files from before lie in a folder of
Hermes on the host (0700), and the commands copy them from there.
"""

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from hermes.core.messages import Value
from hermes.declared.experiments.copy_trial import setting_command
from hermes.declared.experiments.put_back import (
    ReadContent,
    Target,
    attribute_commands,
    find_targets,
    item_type,
)
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import StateChange


class RevertCommand(Value, frozen=True, kw_only=True):
    command: str
    undo: str
    cause: Revert


class RevertPlan(Value, frozen=True, kw_only=True):
    folder: str
    keep: str = ""
    """A script that copies what is there now, for the undo."""
    staged: dict[str, bytes] = {}
    """Contents from before, by path in the folder."""
    commands: tuple[RevertCommand, ...] = ()


def plan_revert(causes: Sequence[Revert], read: ReadContent, folder: str) -> RevertPlan:
    """Raises `CannotRevertError`."""
    keep = [f"umask 077; mkdir -p {shlex.quote(folder)}"]
    staged: dict[str, bytes] = {}
    commands = []
    number = 0
    for cause in causes:
        if cause.suspect.change.item.kind != "file":
            commands.append(_setting_step(cause))
            continue
        lines, undo_lines = list[str](), list[str]()
        for change, target in _steps_of(cause, read):
            number += 1
            files = _StepFiles(folder, number, target.path)
            if change.after is not None and target.kind != "absent":
                keep.append(f"cp -a {files.path} {files.kept}")
            if target.kind == "file":
                staged[f"{folder}/before-{number}"] = target.content
            lines += _do_lines(change, target, files)
            undo_lines[:0] = _undo_lines(change, target, files)
        commands.append(
            RevertCommand(command=" && ".join(lines), undo=" && ".join(undo_lines), cause=cause)
        )
    return RevertPlan(folder=folder, keep="\n".join(keep), staged=staged, commands=tuple(commands))


class _StepFiles:
    """Quoted paths of one step."""

    def __init__(self, folder: str, number: int, path: str) -> None:
        self.path = shlex.quote(path)
        self.kept = shlex.quote(f"{folder}/after-{number}")
        self.before = shlex.quote(f"{folder}/before-{number}")
        self.parent = shlex.quote(str(PurePosixPath(path).parent))


def _steps_of(cause: Revert, read: ReadContent) -> list[tuple[StateChange, Target]]:
    """A folder that was added is moved away as a whole."""
    targets = find_targets(cause, read)
    pairs = list(zip(cause.suspect.changes, targets, strict=True))
    return pairs[:1] if targets[0].kind == "absent" else pairs


def _do_lines(change: StateChange, target: Target, files: _StepFiles) -> list[str]:
    attributes = attribute_commands(target)
    if target.kind == "absent":
        return [f"mv {files.path} {files.kept}"]
    if target.kind == "link":
        return [f"ln -sfn {shlex.quote(target.link)} {files.path}"]
    if target.kind == "folder":
        return [f"mkdir -p {files.path}", *attributes]
    if target.kind == "attributes":
        return attributes
    if change.after is None:
        return [f"mkdir -p {files.parent}", f"cp {files.before} {files.path}", *attributes]
    if item_type(change.after) != "file":  # `cp` would write through a link
        return [f"rm {files.path}", f"cp {files.before} {files.path}", *attributes]
    return [f"cp {files.before} {files.path}", *(attributes if _attributes_differ(change) else [])]


def _undo_lines(change: StateChange, target: Target, files: _StepFiles) -> list[str]:
    if target.kind == "absent":
        return [f"mv {files.kept} {files.path}"]
    if change.after is None:
        return [f"rmdir {files.path}" if target.kind == "folder" else f"rm {files.path}"]
    if target.kind in ("attributes", "folder"):
        before = change.after.attributes
        return [
            f"chown {before.get('uid', '0')}:{before.get('gid', '0')} {files.path}",
            f"chmod {before.get('mode', '644')} {files.path}",
        ]
    if target.kind == "link" or item_type(change.after) != "file":
        return [f"rm {files.path}", f"cp -a {files.kept} {files.path}"]
    return [f"cp -a {files.kept} {files.path}"]


def _attributes_differ(change: StateChange) -> bool:
    return any(name in change.differing for name in ("mode", "uid", "gid"))


def _setting_step(cause: Revert) -> RevertCommand:
    suspect = cause.suspect
    item, after = suspect.change.item, suspect.change.after
    undo = ""
    if item.kind == "service":
        undo = f"systemctl stop {shlex.quote(item.key)}"
    elif item.kind == "kernel-setting" and after is not None:
        undo = f"sysctl -w {item.key}={shlex.quote(after.attributes.get('value', ''))}"
    return RevertCommand(command=setting_command(suspect), undo=undo, cause=cause)
