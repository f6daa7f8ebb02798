"""Commands that bring an item of a host into a recorded state, for the scripts of a drill."""

import base64
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from hermes.declared.experiments.put_back import item_type
from hermes.declared.state import Item, ItemId
from hermes.gym.incidents.recorded import ReadContent

REPEATABLE_KINDS = ("file", "service")


class UnknownContentError(Exception):
    """Only the digest of a file is known."""


def put_item(id: ItemId, now: Item | None, wanted: Item | None, read: ReadContent) -> str:
    """From its state `now` to the wanted one. Raises `UnknownContentError`."""
    if id.kind == "service":
        active = wanted is not None and wanted.attributes.get("active") == "active"
        name = shlex.quote(id.key)
        return f"systemctl {'start' if active else 'stop'} {name} || true"
    return " && ".join(_file_commands(id.key, now, wanted, read))


def _file_commands(
    path: str, now: Item | None, wanted: Item | None, read: ReadContent
) -> Sequence[str]:
    quoted = shlex.quote(path)
    if wanted is None:
        return [f"rm -rf -- {quoted}"]
    kind = item_type(wanted)
    parent = f"mkdir -p -- {shlex.quote(str(PurePosixPath(path).parent))}"
    if kind == "link":
        return [parent, f"ln -sfn -- {shlex.quote(wanted.attributes['link'])} {quoted}"]
    if kind == "folder":
        return [f"mkdir -p -- {quoted}", *_attribute_commands(quoted, wanted)]
    if now is not None and now.digest == wanted.digest and item_type(now) == "file":
        return _attribute_commands(quoted, wanted)
    content = read(wanted.digest) if wanted.digest else None
    if content is None:
        raise UnknownContentError(f"{path}: only its digest was recorded")
    encoded = base64.b64encode(content).decode()
    write = f"printf %s {encoded} | base64 -d > {quoted}" if encoded else f": > {quoted}"
    replaced = now is not None and item_type(now) != "file"
    first = [parent, f"rm -rf -- {quoted}"] if replaced else [parent]
    return [*first, write, *_attribute_commands(quoted, wanted)]


def _attribute_commands(quoted: str, wanted: Item) -> list[str]:
    attributes = wanted.attributes
    found = []
    if attributes.get("uid", "").isdigit():
        found.append(f"chown {attributes['uid']}:{attributes.get('gid', '0')} {quoted}")
    if attributes.get("mode"):
        found.append(f"chmod {attributes['mode'][-4:]} {quoted}")
    return found or ["true"]
