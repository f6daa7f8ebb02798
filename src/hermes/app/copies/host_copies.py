"""Copies of this machine as people and incidents use them: services, and what was changed."""

import difflib
import shlex
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from hermes.core.messages import Value
from hermes.environments.copies import CopyLimits, CopyService
from hermes.environments.copies.box_copy import BoxCopy
from hermes.environments.copies.machine_copy import copy_machine
from hermes.environments.local import OWN_SECRETS

MAX_COMPARED_BYTES = 1 << 18


class PathChange(Value, kw_only=True, frozen=True):
    """A path that differs between a copy and its host."""

    path: str
    kind: str
    """added, changed or removed."""
    diff: str = ""
    """Empty for folders, binary and large files."""


async def open_machine_copy(
    home: Path, limits: CopyLimits, *, units: Sequence[str] = (), cwd: str = "/"
) -> BoxCopy:
    """`units` are started as their files in the copy say. Raises `CannotCopyError`."""
    services = [CopyService(name=name, running=True) for name in units]
    hidden = tuple(str(home / name) for name in OWN_SECRETS)
    return await copy_machine(limits, units=services, hidden=hidden, cwd=cwd)


async def find_changes(copy: BoxCopy) -> tuple[PathChange, ...]:
    """Return the changes, with differences of text files as `diff -u` prints them."""
    found = []
    for path in copy.changed_paths():
        after = await copy.box.read(path)
        before = await to_thread.run_sync(_read_original, Path(path))
        exists = await to_thread.run_sync(Path(path).exists)
        name = shlex.quote(path)
        gone = (await copy.run(f"test -e {name} || test -L {name}")).code != 0
        kind = "removed" if gone else "changed" if exists else "added"
        found.append(PathChange(path=path, kind=kind, diff=_compare(path, before, after)))
    return tuple(found)


def _read_original(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_COMPARED_BYTES + 1)
    except OSError:
        return None


def _compare(path: str, before: bytes | None, after: bytes | None) -> str:
    pair = (before or b"", after or b"")
    if any(len(each) > MAX_COMPARED_BYTES or b"\0" in each for each in pair):
        return ""
    old, new = (each.decode("utf-8", "replace").splitlines(keepends=True) for each in pair)
    return "".join(difflib.unified_diff(old, new, fromfile=path, tofile=f"{path} (copy)"))
