"""Records which folders sandboxes could write to, and when: files that changed are not trusted.

A command in a sandbox may write a git configuration, a hook or a script into its working folder. It
is harmless there, but runs without limits when a program outside uses it. So the policy of another
environment asks about a file that changed while a sandbox could write to it. A file that was
changed outside later does not count.

The kernel keeps the time of a file's last change (ctime), and no command in a sandbox can set it.
"""

import os
import secrets
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import msgspec

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.environments.processes.process_tree import is_owner_alive, process_birth
from hermes.plumbing.files import write_atomically

RECORDS_FOLDER = "sandboxes"
FILE_TIME_MARGIN_NS = 20_000_000
"""File times come from a coarser clock than `time_ns`."""
MAX_SCANNED_FILES = 50_000
"""Files checked in one granted folder; in a larger one every file counts as written."""
RECORD_RETENTION_S = 90 * 24 * 3600


class SandboxRecord(Value, kw_only=True, frozen=True):
    folders: tuple[str, ...]
    """Real paths that the sandbox could write to and that also exist outside."""
    opened_ns: int
    closed_ns: int = 0
    owner: str = ""
    """The process that opened it, as `pid:birth`."""


class SandboxRecords:
    """Records in the home of Hermes, one file for each sandbox that was granted a folder."""

    def __init__(self, home: Path) -> None:
        self._folder = home / RECORDS_FOLDER
        self._written: dict[tuple[str, str], frozenset[str]] = {}

    def record_opened(self, folders: Iterable[str]) -> Path | None:
        """Records a sandbox that is about to open; None when it is granted no folder.

        Raises `EnvironmentFailed`: without the record, later commands would trust what it writes.
        """
        granted = tuple(folders)
        if not granted:
            return None
        pid = os.getpid()
        record = SandboxRecord(
            folders=granted,
            opened_ns=time.time_ns() - FILE_TIME_MARGIN_NS,
            owner=f"{pid}:{process_birth(pid)}",
        )
        file = self._folder / f"{time.time_ns()}-{secrets.token_hex(4)}.json"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _save_record(file, record)
        except OSError as error:
            raise EnvironmentFailed(
                f"cannot record the folders of the sandbox in {self._folder}: {error.strerror}. "
                "Make room there, or open the sandbox without a folder (terminal.cwd: '')"
            ) from error
        return file

    def record_closed(self, file: Path | None) -> None:
        """Records the end of a sandbox. If that fails, the record stays open."""
        found = _load_record(file) if file is not None else None
        if file is None or found is None:
            return
        try:
            _save_record(
                file, msgspec.structs.replace(found, closed_ns=time.time_ns() + FILE_TIME_MARGIN_NS)
            )
        except OSError:
            return

    def wrote(self, path: str) -> bool:
        """Return whether the file changed while a sandbox could write to it."""
        return any(
            path in (written := self._files(name, record, folder)) or folder in written
            for name, record, folder in self._around(path)
        )

    def matching(self, folder: str, patterns: Iterable[str]) -> list[str]:
        """Files written in a sandbox that match a pattern below `folder` or a folder above it."""
        wanted, found = tuple(patterns), []
        for name, record, granted in self._around(folder):
            written = self._files(name, record, granted)
            above = [folder, *map(str, PurePosixPath(folder).parents)]
            globs = [
                f"{each.rstrip('/')}/{pattern}"
                for each in above
                if _within(each, granted)
                for pattern in wanted
            ]
            found += [
                path
                for path in sorted(written)
                if path == granted or any(fnmatchcase(path, glob) for glob in globs)
            ]
        return found

    def _around(self, path: str) -> Iterator[tuple[str, SandboxRecord, str]]:
        """The granted folders that contain this path, with their records."""
        for name, record in self._records():
            for folder in record.folders:
                if _within(path, folder):
                    yield name, record, folder

    def _records(self) -> Iterator[tuple[str, SandboxRecord]]:
        if not self._folder.is_dir():
            return
        for file in sorted(self._folder.glob("*.json")):
            record = _load_record(file)
            if record is None:
                continue
            if not record.closed_ns and not is_owner_alive(record.owner):
                self.record_closed(file)  # it was killed: changes until now count
                record = _load_record(file) or record
            if record.closed_ns and time.time() - record.closed_ns / 1e9 > RECORD_RETENTION_S:
                file.unlink(missing_ok=True)
                continue
            yield file.name, record

    def _files(self, name: str, record: SandboxRecord, folder: str) -> frozenset[str]:
        """Files that changed while the sandbox was open; the folder itself when it is too large."""
        known = self._written.get((name, folder))
        if known is not None and all(_changed_during(path, record) for path in known):
            return known
        found = _find_changed_files(folder, record)
        if record.closed_ns:  # the result is final
            self._written[name, folder] = found
        return found


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _changed_during(path: str, record: SandboxRecord) -> bool:
    try:
        at = os.lstat(path).st_ctime_ns
    except OSError:
        return False
    return record.opened_ns <= at <= (record.closed_ns or time.time_ns() + FILE_TIME_MARGIN_NS)


def _find_changed_files(folder: str, record: SandboxRecord) -> frozenset[str]:
    found, count = [], 0
    for parent, folders, files in os.walk(folder):
        count += len(folders) + len(files)
        if count > MAX_SCANNED_FILES:
            return frozenset({folder})
        links = [name for name in folders if Path(parent, name).is_symlink()]
        found += [
            path for name in (*files, *links) if _changed_during(path := f"{parent}/{name}", record)
        ]
    return frozenset(found)


def _save_record(file: Path, record: SandboxRecord) -> None:
    write_atomically(file, msgspec.json.encode(record), sync=False)


def _load_record(file: Path) -> SandboxRecord | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=SandboxRecord)
    except (OSError, msgspec.MsgspecError):
        return None
