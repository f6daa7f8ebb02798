"""Reads and writes a note file that a person may be editing at the same time."""

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.core.messages import Value
from hermes.plumbing.files import FileLock, temporary_copy

MAX_NOTE_BYTES = 256 * 1024
_MAX_WRITE_ATTEMPTS = 20


class NoteText(Value, frozen=True):
    text: str = ""
    problem: str = ""
    """Why there is no text, for a person; empty also when there is no file."""


def read_note(path: Path) -> NoteText:
    """Never raises and never waits: a session starts without a file that cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return NoteText()
    except OSError as error:
        return _unreadable_note(path, f"cannot be read: {error.strerror}")
    try:
        kind = os.fstat(descriptor)
        if not stat.S_ISREG(kind.st_mode):
            return _unreadable_note(path, "is not a plain file")
        if kind.st_size > MAX_NOTE_BYTES:
            return _unreadable_note(path, f"has {kind.st_size:,} bytes, far too many for notes")
        data = os.read(descriptor, MAX_NOTE_BYTES + 1)
    finally:
        os.close(descriptor)
    if b"\0" in data:
        return _unreadable_note(path, "is not text")
    try:
        return NoteText(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError:
        return _unreadable_note(path, "is not UTF-8 text")


def note_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def rewrite_note(path: Path, change: Callable[[str], str]) -> tuple[str, str]:
    """Replace the file by the result of `change`; returns its text before and after.

    No reader sees half of it. When a person saves in between, `change` is called again with what
    they saved. Raises `StoreError`.
    """
    real = path.resolve()  # a link into a folder of dotfiles stays a link
    try:
        with FileLock(path.with_name(f".{path.name}.lock")):
            for _ in range(_MAX_WRITE_ATTEMPTS):
                before = _read_current(real)
                after = change(before)
                if after == before or _replace_if_unchanged(real, before, after):
                    return before, after
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
    raise StoreError(f"{path} is being changed by another program all the time; try again")


def _read_current(path: Path) -> str:
    note = read_note(path)
    if note.problem:
        raise StoreError(f"{note.problem}; nothing was written")
    return note.text


def _replace_if_unchanged(path: Path, before: str, after: str) -> bool:
    """False when the file was written by others since it was read."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    with temporary_copy(path, after.encode(errors="replace"), mode=mode) as partial:
        if read_note(path).text != before:
            return False
        partial.replace(path)
        return True


def _unreadable_note(path: Path, why: str) -> NoteText:
    return NoteText(problem=f"{path} {why}; going on without it")
