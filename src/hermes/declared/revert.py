"""The commands that put an item back to its recorded state, each with its undo.

Content never stands in a command, because commands are recorded and shown: it is written to a
private folder on the host first, and the commands copy it from there.
"""

import shlex
from collections.abc import Iterator, Sequence
from itertools import starmap
from pathlib import PurePosixPath

from hermes.core.messages import Value
from hermes.declared import packet_filter
from hermes.declared.state import LENGTH, Item, StateChange, change_id
from hermes.declared.store import StateStore

RELOAD_UNITS = "systemctl daemon-reload"
UNIT_FOLDERS = ("/etc/systemd/", "/usr/lib/systemd/", "/lib/systemd/", "/run/systemd/")
_MANUAL_KINDS = {
    "unit": "the settings of a unit come from its files: revert those",
    "port": "a port is opened by a service: revert the change of that service",
    "schedule": "a schedule comes from its files: revert those",
    "user": "accounts are not changed automatically; use usermod, useradd or userdel",
    "group": "groups are not changed automatically; use groupmod, groupadd or groupdel",
}


class RevertStep(Value, frozen=True):
    command: str
    undo: str


class RevertPlan(Value, frozen=True, kw_only=True):
    """A plan to revert one change; either `steps` or `impossible` is empty."""

    change: StateChange
    steps: tuple[RevertStep, ...] = ()
    staged: dict[str, str] = {}
    """Files that must exist before: path and digest of the content."""
    impossible: str = ""
    """Why it cannot be reverted, and what a person can do."""


def plan_revert(
    change: StateChange, store: StateStore, folder: str, *, is_live: bool = False
) -> RevertPlan:
    """`folder`: where content is staged on the host, a private folder. `is_live`: the change was
    found just now, so that its content now, where it is kept, need not be read for the undo. A
    command that reads a file with secrets would need an approval."""
    if change.item.kind == "file":
        return _FileRevert(change, store, folder, is_live=is_live).plan()
    steps = tuple(_steps_of_kind(change, store))
    if steps:
        return RevertPlan(change=change, steps=steps)
    return RevertPlan(change=change, impossible=_manual_advice(change))


def order_changes(changes: Sequence[StateChange]) -> list[StateChange]:
    """In an order in which they can be reverted: folders are created before and removed after
    what is in them."""
    created = sorted((each for each in changes if each.before is not None), key=lambda c: c.item)
    removed = sorted((each for each in changes if each.before is None), key=lambda c: c.item)
    return [*removed[::-1], *created]


def join_undos(undos: Sequence[str]) -> str:
    """The undos of steps, the last first, as one command; units are read after their files."""
    wanted = [each for each in reversed(undos) if each not in ("", "true")]
    return "; ".join(sorted(wanted, key=lambda each: each == RELOAD_UNITS)) or "true"


class _FileRevert:
    def __init__(
        self, change: StateChange, store: StateStore, folder: str, *, is_live: bool
    ) -> None:
        self._change, self._store, self._is_live = change, store, is_live
        self._path = change.item.key
        self._quoted = shlex.quote(self._path)
        self._folder = folder
        self._staged: dict[str, str] = {}

    def plan(self) -> RevertPlan:
        if missing := self._missing_content():
            return RevertPlan(change=self._change, impossible=missing)
        before, after = self._change.before, self._change.after
        steps = list(self._steps(before, after))
        if self._path.startswith(UNIT_FOLDERS):
            steps.append(RevertStep(RELOAD_UNITS, RELOAD_UNITS))
        return RevertPlan(change=self._change, steps=tuple(steps), staged=self._staged)

    def _missing_content(self) -> str:
        before, after = self._change.before, self._change.after
        if before is None or before.attributes.get("type") != "file":
            return ""
        if after is not None and after.digest == before.digest and _type(after) == "file":
            return ""
        if not before.digest or self._store.content(before.digest) is None:
            return (
                f"the content of {self._path} was not kept (secret, data, or over 256 KB), only "
                "its digest: restore it from a backup or from where it is managed"
            )
        return ""

    def _steps(self, before: Item | None, after: Item | None) -> Iterator[RevertStep]:
        if before is None and after is not None:
            yield self._remove(after)
        elif before is not None and (after is None or _type(after) != _type(before)):
            if after is not None:
                yield self._remove(after)
            yield from self._create(before)
        elif before is not None and after is not None:
            yield from self._alter(before, after)

    def _remove(self, after: Item) -> RevertStep:
        """Moved away rather than deleted, so that it can be put back whatever it contains."""
        if _type(after) == "folder":
            back = f"mkdir -m {after.attributes['mode']} -- {self._quoted}"
            return RevertStep(f"rmdir -- {self._quoted}", f"{back} && {self._chown(after)}")
        aside = shlex.quote(self._stage_path("removed"))
        return RevertStep(f"mv -- {self._quoted} {aside}", f"mv -- {aside} {self._quoted}")

    def _create(self, before: Item) -> Iterator[RevertStep]:
        parent = shlex.quote(str(PurePosixPath(self._path).parent))
        kind, mode = _type(before), before.attributes.get("mode", "644")
        undo = f"rm -- {self._quoted}"
        if kind == "folder":
            yield RevertStep(f"mkdir -p -- {self._quoted}", f"rmdir -- {self._quoted}")
        elif kind == "link":
            target = shlex.quote(before.attributes.get("link", ""))
            yield RevertStep(f"mkdir -p -- {parent} && ln -s -- {target} {self._quoted}", undo)
        else:
            content = shlex.quote(self._stage(before.digest))
            yield RevertStep(f"mkdir -p -- {parent} && cp -- {content} {self._quoted}", undo)
        if kind != "link":
            yield RevertStep(f"chmod {mode} -- {self._quoted}", "true")
        yield RevertStep(self._chown(before), "true")

    def _alter(self, before: Item, after: Item) -> Iterator[RevertStep]:
        differing = self._change.differing
        if LENGTH in differing:
            yield from self._shorten(before.attributes[LENGTH])
        if "link" in differing:
            old, new = before.attributes.get("link", ""), after.attributes.get("link", "")
            yield RevertStep(
                f"ln -sfn -- {shlex.quote(old)} {self._quoted}",
                f"ln -sfn -- {shlex.quote(new)} {self._quoted}",
            )
        if "content" in differing:
            content = shlex.quote(self._stage(before.digest))
            if self._is_live and after.digest and self._store.content(after.digest) is not None:
                now = shlex.quote(self._stage(after.digest))
            else:
                now = shlex.quote(self._stage_path("replaced"))
                yield RevertStep(f"cp -p -- {self._quoted} {now}", "true")
            yield RevertStep(
                self._unless_link(f"cp -- {content} {self._quoted}"),
                self._unless_link(f"cp -- {now} {self._quoted}"),
            )
        if "uid" in differing or "gid" in differing:
            yield RevertStep(self._chown(before), self._chown(after))
        if "mode" in differing or "uid" in differing:  # a new owner removes the setuid bit
            yield RevertStep(
                self._unless_link(f"chmod {before.attributes['mode']} -- {self._quoted}"),
                self._unless_link(f"chmod {after.attributes['mode']} -- {self._quoted}"),
            )

    def _shorten(self, length: str) -> Iterator[RevertStep]:
        """A log: what was added since is kept elsewhere."""
        aside = shlex.quote(f"{self._stage_path('shortened')}.gz")
        yield RevertStep(f"gzip -c -- {self._quoted} > {aside}", "true")
        back = f"gzip -dc -- {aside} > {self._quoted}"
        shorten = f"truncate -s {length} -- {self._quoted}"
        yield RevertStep(self._unless_link(shorten), self._unless_link(back))

    def _unless_link(self, command: str) -> str:
        """These commands follow a link. One that was put there since, as when people mask a unit
        while they are asked about its revert, leads to a file of others."""
        return f"test ! -L {self._quoted} && {command}"

    def _chown(self, item: Item) -> str:
        owner = f"{item.attributes.get('uid', '0')}:{item.attributes.get('gid', '0')}"
        return f"chown -h {owner} -- {self._quoted}"

    def _stage(self, digest: str) -> str:
        path = f"{self._folder}/{digest[:16]}"
        self._staged[path] = digest
        return path

    def _stage_path(self, word: str) -> str:
        return f"{self._folder}/{word}-{change_id(self._change)}"


def _type(item: Item) -> str:
    return item.attributes.get("type", "file")


def _steps_of_kind(change: StateChange, store: StateStore) -> Iterator[RevertStep]:
    before, after, key = change.before, change.after, change.item.key
    if change.item.kind == "packet-filter":
        yield from starmap(RevertStep, packet_filter.revert_steps(change))
    if before is None or after is None:
        return
    if change.item.kind == "kernel-setting":
        old, new = before.attributes["value"], after.attributes["value"]
        yield RevertStep(_sysctl(key, old), _sysctl(key, new))
    elif change.item.kind == "service":
        yield from _service_steps(key, before, after)
    elif change.item.kind == "setting" and key.startswith("redis/"):
        contents = [store.content(each.digest) for each in (before, after)]
        if contents[0] is not None and contents[1] is not None:
            yield RevertStep(_redis(key, contents[0]), _redis(key, contents[1]))
    elif change.item.kind == "mount" and change.differing == ("options",):
        yield RevertStep(_remount(key, before), _remount(key, after))


def _sysctl(name: str, value: str) -> str:
    return f"sysctl -q -w {shlex.quote(f'{name}={value}')}"


def _service_steps(name: str, before: Item, after: Item) -> Iterator[RevertStep]:
    unit = shlex.quote(name)
    enabled = before.attributes.get("enabled", ""), after.attributes.get("enabled", "")
    if enabled in (("enabled", "disabled"), ("disabled", "enabled")):
        verbs = {"enabled": "enable", "disabled": "disable"}
        yield RevertStep(
            f"systemctl {verbs[enabled[0]]} {unit}", f"systemctl {verbs[enabled[1]]} {unit}"
        )
    if before.attributes.get("active") == "active" != after.attributes.get("active"):
        yield RevertStep(f"systemctl start {unit}", f"systemctl stop {unit}")


def _redis(key: str, value: bytes) -> str:
    _, port, name = key.split("/", 2)
    text = shlex.quote(value.decode("utf-8", "replace"))
    return f"redis-cli -p {shlex.quote(port)} CONFIG SET {shlex.quote(name)} {text}"


def _remount(point: str, item: Item) -> str:
    options = shlex.quote(f"remount,{item.attributes['options']}")
    return f"mount -o {options} {shlex.quote(point)}"


def _manual_advice(change: StateChange) -> str:
    kind, name = change.item.kind, change.item.key
    if kind == "package":
        version = change.before.attributes.get("version", "") if change.before else ""
        if not version:
            return f"packages are not removed automatically; by hand: apt-get remove {name}"
        return (
            "packages are not changed automatically, because others depend on them; "
            f"by hand: apt-get install {name}={version}"
        )
    if kind == "packet-filter":
        return packet_filter.manual_advice(change)
    if kind == "setting":
        return "the value was not kept or cannot be set while the server runs; see its settings"
    if kind == "mount":
        return f"mounts are not added or removed automatically; see /etc/fstab for {name}"
    return _MANUAL_KINDS.get(kind, f"there is no command that reverts this change of a {kind}")
