"""Keeps learned checks in one file of the home folder, shared by the watch and commands.

The file is replaced as a whole, so that a kill leaves the old content or the new. What people said
about a check is written by commands; the watch never overwrites it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import msgspec

from hermes.plumbing.files import FileLock, write_atomically
from hermes.sre.probes.learned.state import CheckMark, LearnedState

LEARNED_FILE = "learned-checks.json"
LEARNED_LOCK_FILE = "learned-checks.lock"


class LearnedStore:
    """The learned checks of one host. Without a home folder nothing is stored."""

    def __init__(self, home: Path | None, target: str) -> None:
        self._home, self._target = home, target
        self._stamp = 0

    def load(self) -> LearnedState:
        """Empty when the file is missing or cannot be read."""
        self._stamp = self._current_stamp()
        return self._read_all().get(self._target) or LearnedState()

    def save(self, state: LearnedState) -> None:
        """Replace what is known, with the marks of people as they are in the file. Errors are
        ignored: a full disk must not end the watch."""
        if self._home is None:
            return
        with suppress(OSError), self._lock():
            everything = self._read_all()
            if before := everything.get(self._target):
                state.marks = before.marks
            self._write({**everything, self._target: state})

    def refresh_marks(self, state: LearnedState) -> None:
        """Read what people said since the last time; costs one `stat` where nothing changed."""
        stamp = self._current_stamp()
        if stamp and stamp != self._stamp:
            self._stamp = stamp
            if found := self._read_all().get(self._target):
                state.marks = found.marks

    def mark(self, name: str, change: Callable[[CheckMark], CheckMark]) -> CheckMark:
        """Change what is said about one check. Raises `OSError`."""
        with self._lock():
            everything = self._read_all()
            state = everything.get(self._target) or LearnedState()
            state.marks[name] = change(state.mark(name))
            self._write({**everything, self._target: state})
        return state.marks[name]

    def _read_all(self) -> dict[str, LearnedState]:
        try:
            data = (self._home / LEARNED_FILE).read_bytes() if self._home is not None else b"{}"
            return msgspec.json.decode(data, type=dict[str, LearnedState])
        except (OSError, msgspec.MsgspecError):
            return {}

    def _write(self, everything: dict[str, LearnedState]) -> None:
        if self._home is None:
            return
        path = self._home / LEARNED_FILE
        write_atomically(path, msgspec.json.encode(everything), sync=False)
        self._stamp = self._current_stamp()

    def _current_stamp(self) -> int:
        try:
            return (self._home / LEARNED_FILE).stat().st_mtime_ns if self._home is not None else 0
        except OSError:
            return 0

    def _lock(self) -> AbstractContextManager[object]:
        if self._home is None:
            return nullcontext()
        return FileLock(self._home / LEARNED_LOCK_FILE)
