"""What a run did before that changes what its next action means.

A script written a moment ago is only words until it is run, and half a line typed into a shell is
harmless until the other half arrives. Both are remembered here, within bounds; what falls out of
memory makes a script unknown, which asks.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

_RUNS = 500
_PATHS = 5_000
_TYPED = 20_000
FORGOTTEN = "forgotten"


class _Run:
    def __init__(self) -> None:
        self.written: OrderedDict[str, str] = OrderedDict()
        self.typed: dict[str, str] = {}
        self.overflowed = False


class Remembered:
    def __init__(self) -> None:
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def wrote(self, run: str, path: str, digest: str) -> None:
        """A file or folder was changed; `digest` says to what, or at least by what."""
        known = self._of(run)
        known.written[path] = digest
        known.written.move_to_end(path)
        if len(known.written) > _PATHS:
            known.written.popitem(last=False)
            known.overflowed = True

    def digest(self, run: str, path: str) -> str:
        """What this run last made of the file, empty if it never touched it."""
        known = self._runs.get(_family(run))
        if known is None:
            return ""
        for place in _up(path):
            if found := known.written.get(place):
                return found
        return FORGOTTEN if known.overflowed else ""

    def matching(self, run: str, folder: str, patterns: Iterable[str]) -> list[str]:
        """Files below a folder that this run wrote, by patterns relative to the folder."""
        known = self._runs.get(_family(run))
        if known is None or not known.written:
            return []
        wanted = [f"{folder.rstrip('/')}/{pattern}" for pattern in patterns]
        return [p for p in known.written if any(fnmatchcase(p, glob) for glob in wanted)]

    def typed(self, run: str, session: str, text: str) -> None:
        """Text went into a process; what follows its last line end is still to be completed."""
        open_line = (self.pending(run, session) + text).rpartition("\n")[2]
        self._of(run).typed[session] = open_line[-_TYPED:]

    def pending(self, run: str, session: str) -> str:
        known = self._runs.get(_family(run))
        return "" if known is None else known.typed.get(session, "")

    def forget(self, run: str) -> None:
        self._runs.pop(_family(run), None)

    def _of(self, run: str) -> _Run:
        known = self._runs.setdefault(_family(run), _Run())
        self._runs.move_to_end(_family(run))
        if len(self._runs) > _RUNS:
            self._runs.popitem(last=False)
        return known


def _family(run: str) -> str:
    """What a subagent writes, another of its family may run."""
    return run.partition("/")[0]


def _up(path: str) -> Iterator[str]:
    """The path and the folders it is in, but not the root."""
    yield path
    for parent in PurePosixPath(path).parents:
        if len(parent.parts) > 1:
            yield str(parent)
