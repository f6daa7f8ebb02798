"""Describes what people changed to end an incident, from the states before and after."""

import re
from collections.abc import Sequence

from hermes.core.incident import IncidentDetails
from hermes.declared.experiments.copy_changes import setting_commands
from hermes.declared.experiments.copy_setup import CopySetup
from hermes.declared.experiments.put_back import (
    CannotRevertError,
    ReadContent,
    Target,
    find_targets,
)
from hermes.declared.experiments.rehearsal import RehearsedRevert
from hermes.declared.experiments.text_parts import render_diff
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import StateChange
from hermes.learning.fix_commands import CannotRepeatError, FixCommand, FixedFile
from hermes.learning.people_fix import PeopleFix
from hermes.sre.probes.probe import Probe

_CLIENT_ERROR = re.compile(r"\bstatus (?:is )?4\d\d\b")


def describe_fix(
    details: IncidentDetails,
    setup: CopySetup,
    causes: Sequence[Revert],
    rehearsed: RehearsedRevert,
    probes: Sequence[Probe],
) -> PeopleFix:
    """Raises `CannotRepeatError`, `CannotRevertError`."""
    store, bad = setup.store, {each.name: each.detail for each in setup.expected.failing}
    failing = [each for each in probes if each.name in bad]
    pairs = [
        (change, target)
        for each in causes
        if each.suspect.change.item.kind == "file"
        for change, target in zip(
            each.suspect.changes, find_targets(each, store.content), strict=True
        )
    ]
    commands = [
        FixCommand(command=command)
        for each in causes
        for command in setting_commands(each.suspect.change, store)
    ]
    return PeopleFix(
        details=details,
        services=tuple(setup.services),
        files=tuple(_fixed_file(change, target, store.content) for change, target in pairs),
        commands=tuple(commands),
        activations=tuple(each.command for each in rehearsed.activations),
        checks=tuple(
            command for each in failing if (command := check_command(each, bad[each.name]))
        ),
        symptoms=tuple(each.what for each in failing if each.kind == "command"),
        recovered=tuple(sorted(bad)),
    )


def _fixed_file(change: StateChange, target: Target, read: ReadContent) -> FixedFile:
    after = change.after.attributes if change.after is not None else {}
    if target.kind == "link" and (change.after is None or after.get("link")):
        return FixedFile(path=target.path, link=target.link, failing_link=after.get("link", ""))
    if target.kind in ("link", "folder"):
        raise CannotRepeatError(f"{target.path} is a {target.kind}")
    differing = change.differing if change.after is not None and change.before else ()
    owner = f"{target.uid}:{target.gid}" if {"uid", "gid"} & {*differing} else ""
    mode = f"{target.mode:o}" if "mode" in differing and target.mode is not None else ""
    failing = fixed = None
    if target.kind == "file":
        fixed = _text(target.content, target.path)
    was_link = target.kind == "file" and bool(after.get("link"))
    if target.kind in ("file", "absent") and change.after is not None and not was_link:
        failing = _text(read(change.after.digest) or b"", target.path)
    return FixedFile(
        path=target.path,
        failing=failing,
        fixed=fixed,
        owner=owner,
        failing_owner=f"{after.get('uid', '0')}:{after.get('gid', '0')}" if owner else "",
        mode=mode,
        failing_mode=after.get("mode", "") if mode else "",
        new_mode=f"{target.mode:o}" if target.mode is not None else "644",
    )


def fix_diff(fixes: Sequence[Revert], read: ReadContent) -> str:
    """Return the difference between the failing state and the fixed one."""
    found = []
    for each in fixes:
        change = each.suspect.change
        before, after = change.before, change.after
        old = read(after.digest) if after is not None and after.digest else None
        try:
            new = find_targets(each, read)[0].content if before is not None else None
        except CannotRevertError:
            new = None
        if change.item.kind == "file" and old is not None and new:
            found.append(render_diff(old, new, change.item.key))
        else:
            found.append(f"{each.label}: {', '.join(change.differing) or change.verb}")
    return "\n".join(found)


def check_command(probe: Probe, failure: str) -> str:
    """`failure`: what it said when it failed."""
    if probe.kind == "http" and _CLIENT_ERROR.search(failure):
        return f"curl -fsS -o /dev/null --max-time 5 {probe.what}"
    if probe.kind == "http":  # the next host may not have this page, but its server answers
        return (
            f"curl -s -o /dev/null --max-time 5 -w '%{{http_code}}' {probe.what} | grep -q '^[1-4]'"
        )
    if probe.kind == "command":
        return probe.what
    if probe.kind == "unit" and not probe.status:
        return f"systemctl is-active {probe.what.removesuffix('.service')}"
    return ""


def _text(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CannotRepeatError(f"{path} is no text") from error
