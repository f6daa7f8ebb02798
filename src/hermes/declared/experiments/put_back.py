"""What a reverted change looks like on a host: the file, link, folder or setting from before."""

import io
import shlex
import stat
import tarfile
from collections.abc import Callable, Sequence

from hermes.core.messages import Value
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.text_parts import TextPart, revert_parts, split_change
from hermes.declared.experiments.trial import Revert
from hermes.declared.packet_filter import revert_steps
from hermes.declared.state import LENGTH, Item, StateChange
from hermes.declared.store import StateStore

ReadContent = Callable[[str], bytes | None]
"""By digest; None where only the digest is known."""


_WHOLE_MARK = b"-----BEGIN "
"""Of certificates and keys: their lines mean nothing by themselves."""


class Target(Value, frozen=True, kw_only=True):
    """The wanted state of one path; `kind` says which fields count."""

    path: str
    kind: str
    """file, link, folder, absent, shortened, or attributes (of a file whose content stays)."""
    content: bytes = b""
    link: str = ""
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    length: int = 0
    """Of a shortened file, in bytes."""


class CannotRevertError(Exception):
    """The content from before is not known, or the host does not let it be put back."""

    def __init__(self, why: str, paths: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.paths = tuple(paths)
        """Those that cannot be changed, where that is why."""


def text_parts_of(change: StateChange, read: ReadContent) -> tuple[TextPart, ...]:
    """The parts of a changed text file; none for anything else."""
    before, after = change.before, change.after
    if change.item.kind != "file" or before is None or after is None:
        return ()
    if before.digest == after.digest or not before.digest or not after.digest:
        return ()
    old, new = read(before.digest), read(after.digest)
    if old is None or new is None or _WHOLE_MARK in old + new:
        return ()
    return split_change(old, new)


def reverted_changes(revert: Revert, store: StateStore) -> list[StateChange]:
    """Return what to revert, where only some parts of a text are reverted: the content in between
    is kept in the store."""
    if revert.parts is None:
        return list(revert.suspect.changes)
    change = revert.suspect.change
    target = _find_target(change, revert.parts, store.content)
    assert change.after is not None
    digest = store.keep(target.content)
    store.flush()
    before = Item(digest, {**change.after.attributes, "size": str(len(target.content))})
    return [StateChange(change.item, before, change.after, change.at)]


def find_targets(revert: Revert, read: ReadContent) -> list[Target]:
    """One for the change, and one for each change below it. Raises `CannotRevertError`."""
    return [_find_target(change, revert.parts, read) for change in revert.suspect.changes]


def _find_target(
    change: StateChange, wanted_parts: tuple[int, ...] | None, read: ReadContent
) -> Target:
    path, before, after = change.item.key, change.before, change.after
    if before is None:
        return Target(path=path, kind="absent")
    if LENGTH in before.attributes:
        return Target(path=path, kind="shortened", length=int(before.attributes[LENGTH]))
    mode, uid, gid = _owner_and_mode(before)
    kind = item_type(before)
    if kind == "link":
        return Target(path=path, kind="link", link=before.attributes.get("link", ""))
    if kind == "folder":
        there = after is not None and item_type(after) == "folder"
        kind = "attributes" if there else "folder"
        return Target(path=path, kind=kind, mode=mode, uid=uid, gid=gid)
    if kind != "file":
        raise CannotRevertError(f"{path} is neither a file nor a link nor a folder")
    if after is not None and item_type(after) == "file" and before.digest == after.digest:
        return Target(path=path, kind="attributes", mode=mode, uid=uid, gid=gid)
    content = read(before.digest) if before.digest else None
    if content is None:
        raise CannotRevertError(f"only the digest of {path} is known, not its content")
    if wanted_parts is not None and after is not None:
        new, parts = read(after.digest), text_parts_of(change, read)
        if new is None:
            raise CannotRevertError(f"the content of {path} is not known")
        content = revert_parts(content, new, parts, wanted_parts)
    return Target(path=path, kind="file", content=content, mode=mode, uid=uid, gid=gid)


def split_revertible(
    suspects: Sequence[Suspect], read: ReadContent
) -> tuple[tuple[Suspect, ...], tuple[Suspect, ...]]:
    """Those that can be put back, and those that cannot: what was in them is not known, or it is a
    certificate beside such a file, which may be its key."""
    unknown = [each for each in suspects if not _is_revertible(each, read)]
    folders = {_folder(path) for each in unknown for path in each.paths}
    lost = [
        each
        for each in suspects
        if each in unknown or (_is_certificate(each, read) and _folder(each.paths[0]) in folders)
    ]
    return tuple(each for each in suspects if each not in lost), tuple(lost)


def _is_revertible(suspect: Suspect, read: ReadContent) -> bool:
    if suspect.change.item.kind == "packet-filter":
        return bool(revert_steps(suspect.change))
    if suspect.change.item.kind != "file":
        return True
    try:
        find_targets(Revert(suspect=suspect), read)
    except CannotRevertError:
        return False
    return True


def _is_certificate(suspect: Suspect, read: ReadContent) -> bool:
    before = suspect.change.before
    content = read(before.digest) if before is not None and before.digest else None
    return bool(suspect.paths) and _WHOLE_MARK in (content or b"")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def item_type(item: Item) -> str:
    """file, link, folder, or another word for something else."""
    attributes = item.attributes
    if attributes.get("link"):
        return "link"
    named = {"dir": "folder", "directory": "folder", "symlink": "link", "": "file"}
    kind = attributes.get("type", "")
    return named.get(kind, kind)


def _owner_and_mode(item: Item) -> tuple[int | None, int | None, int | None]:
    mode, uid, gid = (item.attributes.get(name, "") for name in ("mode", "uid", "gid"))
    permissions = stat.S_IMODE(int(mode, 8)) if mode else None
    return (
        permissions,
        int(uid) if uid.isdigit() else None,
        int(gid) if gid.isdigit() else None,
    )


def archive_script(targets: Sequence[Target]) -> tuple[str, bytes]:
    """A script that puts all of them back, and the archive for its standard input."""
    files = [each for each in targets if each.kind in ("file", "link", "folder")]
    gone = [each for each in targets if each.kind == "absent"]
    replaced = [each for each in files if each.kind != "folder"]
    lines = ["set -e"]
    lines += [f"rm -rf -- {shlex.quote(each.path)}" for each in _outermost(gone)]
    lines += [
        f"[ -L {path} ] || [ ! -d {path} ] || rm -rf -- {path}"
        for path in (shlex.quote(each.path) for each in replaced)
    ]
    if files:
        lines.append("tar -x -p --numeric-owner --unlink-first -f - -C /")
    for each in targets:
        if each.kind == "attributes":
            lines += attribute_commands(each)
        elif each.kind == "shortened":
            path = shlex.quote(each.path)
            lines.append(f"[ -L {path} ] || truncate -s {each.length} -- {path}")
    return "\n".join(lines), _archive(sorted(files, key=lambda each: each.path))


def unwritable_script(targets: Sequence[Target]) -> str:
    """A script that prints which of them cannot be replaced: on a read-only file system, or mounted
    one by one as containers do with some files of /etc."""
    paths = " ".join(shlex.quote(each.path) for each in targets)
    return (
        f"for path in {paths}; do folder=${{path%/*}}; folder=${{folder:-/}};"
        ' if { [ -d "$folder" ] && [ ! -w "$folder" ]; }'
        ' || grep -qF " $path " /proc/self/mountinfo; then echo "$path"; fi; done'
    )


def attribute_commands(target: Target) -> list[str]:
    path, commands = shlex.quote(target.path), []
    if target.uid is not None and target.gid is not None:
        commands.append(f"chown -h {target.uid}:{target.gid} {path}")
    if target.mode is not None:
        commands.append(f"[ -L {path} ] || chmod {target.mode:o} {path}")
    return commands


def _outermost(targets: Sequence[Target]) -> list[Target]:
    paths = {each.path for each in targets}
    return [each for each in targets if not any(each.path.startswith(f"{path}/") for path in paths)]


def _archive(targets: Sequence[Target]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for each in targets:
            entry = tarfile.TarInfo(each.path.lstrip("/"))
            entry.uid, entry.gid = each.uid or 0, each.gid or 0
            entry.mode = each.mode if each.mode is not None else 0o644
            if each.kind == "link":
                entry.type, entry.linkname = tarfile.SYMTYPE, each.link
            elif each.kind == "folder":
                entry.type = tarfile.DIRTYPE
                entry.mode = each.mode if each.mode is not None else 0o755
            else:
                entry.size = len(each.content)
            archive.addfile(entry, io.BytesIO(each.content))
    return packed.getvalue()
