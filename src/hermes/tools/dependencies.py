"""What each run last saw of each file, so that no tool overwrites what somebody else changed."""

import hashlib
import posixpath
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import anyio

from hermes.core.errors import ToolError
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.settings import ToolSettings

_MAX_REMEMBERED_FILES = 10_000


class SeenFiles:
    """Kept by name as the run knows it: a file reached by two names is two files here."""

    def __init__(self) -> None:
        self._digests: OrderedDict[tuple[str, ...], str] = OrderedDict()
        self._locks: WeakValueDictionary[tuple[str, ...], anyio.Lock] = WeakValueDictionary()

    def note(self, context: ToolContext, path: str, digest: str) -> None:
        key = (context.run, *_file_key(context, path))
        self._digests[key] = digest
        self._digests.move_to_end(key)
        while len(self._digests) > _MAX_REMEMBERED_FILES:
            self._digests.popitem(last=False)

    def check(self, context: ToolContext, path: str, digest: str | None) -> None:
        """Raises `ToolError` when the file is not as this run last saw it. None: it is gone."""
        key = (context.run, *_file_key(context, path))
        if self._digests.get(key, digest) == digest:
            return
        if digest is None:
            del self._digests[key]  # cannot be read again: writing it anew is then a decision
            raise ToolError(
                f"{path} was deleted since you last read it; nothing was written. "
                "Find out why before you write it again."
            )
        raise ToolError(
            f"{path} was changed by somebody else since you last read it; nothing was written. "
            "Read it again, then decide what to write."
        )

    def lock(self, context: ToolContext, path: str) -> anyio.Lock:
        """Held from reading to writing: two calls side by side must not undo each other."""
        key = _file_key(context, path)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = anyio.Lock()
        return lock


def content_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _file_key(context: ToolContext, path: str) -> tuple[str, str, str]:
    return context.environment.name, context.environment.target, posixpath.normpath(path)


@dataclass(frozen=True)
class ToolDependencies:
    settings: ToolSettings = field(default_factory=ToolSettings)
    seen_files: SeenFiles = field(default_factory=SeenFiles)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Every tool of the catalogue, complete once it is built: read it when called, not before."""
