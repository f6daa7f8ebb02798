"""Shared by tools: the settings, the other tools, and the file versions that each run has seen."""

import hashlib
import posixpath
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import anyio
import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.settings import ToolSettings

if TYPE_CHECKING:
    from hermes.core.speech import SpeechService

_MAX_REMEMBERED_FILES = 10_000


class SeenFiles:
    """Which version of each file a run last saw, so that no tool overwrites changes of others.

    Files are identified by path as the run uses it: a file with two paths counts as two.
    """

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
            # it cannot be read again: after this error the run may decide to write it
            del self._digests[key]
            raise ToolError(
                f"{path} was deleted since you last read it; nothing was written. "
                "Find out why before you write it again."
            )
        raise ToolError(
            f"{path} was changed by somebody else since you last read it; nothing was written. "
            "Read it again, then decide what to write."
        )

    def lock(self, context: ToolContext, path: str) -> anyio.Lock:
        """Held from reading to writing: two parallel calls must not undo each other."""
        key = _file_key(context, path)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = anyio.Lock()
        return lock


class Unavailable:
    """Stands in for a part that is missing: the tool can be listed, and refuses to run."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __getattr__(self, name: str) -> Any:
        def refuse(*arguments: object) -> Any:
            raise ToolError(self._why)

        return refuse


def content_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _file_key(context: ToolContext, path: str) -> tuple[str, str, str]:
    return context.environment.name, context.environment.target, posixpath.normpath(path)


class ToolDependencies(Value, frozen=True):
    settings: ToolSettings = ToolSettings()
    seen_files: SeenFiles = msgspec.field(default_factory=SeenFiles)
    tools: Mapping[str, Tool] = {}
    """Every tool of the catalog, complete once it is built: read it when called, not before."""
    open_speech: "Callable[[], SpeechService] | None" = None
    """Turns recordings into text and back; None: nothing here does."""
