"""Backs up and restores the home folder: one archive, consistent while a watch runs.

Databases are copied by SQLite itself, so that a copy holds one committed state. Links are left out.
The last member of an archive lists the others with their digests; a restore checks all of them in a
new folder beside the home before it takes the place of the home.
"""

import gzip
import hashlib
import io
import os
import secrets
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

import msgspec

from hermes import __version__
from hermes.core.errors import HermesError, SettingsError, StoreCorrupt
from hermes.core.messages import Value
from hermes.memory.journal.sqlite_file import copy_database
from hermes.memory.journal.verification import verify
from hermes.plumbing.files import PRIVATE_MODE, is_locked

MANIFEST_NAME = "hermes-backup.json"
BACKUP_FORMAT = 1
LEFT_OUT_FOLDERS = ("locks", "processes")
"""They belong to running processes."""
DATABASE_SIDE_FILES = ("-wal", "-shm", "-journal")
SQLITE_HEADER = b"SQLite format 3\0"
ALLOWED_MODE_BITS = 0o755
FOLDER_MODE = 0o700


class BackupEntry(Value, frozen=True):
    size: int
    sha256: str
    mode: int


class BackupManifest(Value, kw_only=True, frozen=True):
    format: int
    version: str
    made_at: datetime
    files: dict[str, BackupEntry]


class BackupResult(Value, kw_only=True, frozen=True):
    file: str
    files: int
    size: int
    left_out: tuple[str, ...] = ()
    """Links, sockets and the like, and files that could not be read."""


class RestoreResult(Value, kw_only=True, frozen=True):
    home: str
    files: int
    version: str
    """The version of Hermes that made the backup."""
    made_at: datetime
    previous: str = ""
    """Where the home was moved that was there before."""


def back_up(home: Path, target: Path) -> BackupResult:
    """Write the archive; it holds keys, so only its owner may read it. Raises `HermesError`."""
    home, target = home.resolve(), target.absolute()
    if not home.is_dir():
        raise SettingsError(f"there is no home folder {home}")
    if target.parent.resolve().is_relative_to(home):
        raise SettingsError("the backup cannot be in the home folder; name a file elsewhere")
    if os.path.lexists(target):
        raise SettingsError(f"{target} exists and is not overwritten")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            found, left_out = _write_archive(home, file)
            file.flush()
            os.fsync(descriptor)
        os.link(partial, target)
    except OSError as error:
        raise HermesError(f"cannot write {target}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    size = target.stat().st_size
    return BackupResult(file=str(target), files=len(found), size=size, left_out=tuple(left_out))


def _write_archive(home: Path, file: BinaryIO) -> tuple[dict[str, BackupEntry], list[str]]:
    found: dict[str, BackupEntry] = {}
    left_out: list[str] = []
    with (
        gzip.GzipFile(fileobj=file, mode="wb", filename="") as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, name in _walk_files(home, left_out):
            try:
                entry = _add_file(archive, path, name)
            except FileNotFoundError:  # removed meanwhile by a running watch
                continue
            except OSError as error:
                left_out.append(f"{name} ({error.strerror})")
                continue
            found[name] = entry
        manifest = BackupManifest(
            format=BACKUP_FORMAT, version=__version__, made_at=datetime.now(UTC), files=found
        )
        listed = msgspec.json.encode(manifest)
        _add_data(archive, MANIFEST_NAME, io.BytesIO(listed), len(listed), PRIVATE_MODE)
    return found, left_out


def _walk_files(home: Path, left_out: list[str]) -> Iterator[tuple[Path, str]]:
    for folder, folders, names in os.walk(home):  # does not follow links
        here = Path(folder)
        if here == home:
            folders[:] = [each for each in folders if each not in LEFT_OUT_FOLDERS]
        for name in sorted([*folders, *names]):
            path = here / name
            relative = path.relative_to(home).as_posix()
            mode = path.lstat().st_mode if os.path.lexists(path) else 0
            if stat.S_ISREG(mode):
                if not name.endswith(DATABASE_SIDE_FILES) or not _is_side_file(path):
                    yield path, relative
            elif mode and not stat.S_ISDIR(mode):
                left_out.append(f"{relative} (not a plain file)")


def _is_side_file(path: Path) -> bool:
    """Return whether it belongs to a database beside it, whose copy contains it."""
    return any(
        _is_database(path.with_name(path.name.removesuffix(end)))
        for end in DATABASE_SIDE_FILES
        if path.name.endswith(end)
    )


def _is_database(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER


def _add_file(archive: tarfile.TarFile, path: Path, name: str) -> BackupEntry:
    mode = stat.S_IMODE(path.lstat().st_mode)
    if _is_database(path):
        with tempfile.TemporaryDirectory(prefix="hermes-backup-") as folder:
            copy = Path(folder) / "copy.db"
            copy_database(path, copy)
            return _add_open_file(archive, copy, name, mode)
    return _add_open_file(archive, path, name, mode)


def _add_open_file(archive: tarfile.TarFile, path: Path, name: str, mode: int) -> BackupEntry:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        # A file that grows meanwhile (a log) is saved as long as it was.
        return _add_data(archive, name, file, os.fstat(descriptor).st_size, mode)


def _add_data(
    archive: tarfile.TarFile, name: str, file: BinaryIO, size: int, mode: int
) -> BackupEntry:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, mode & ALLOWED_MODE_BITS
    reader = _DigestReader(file)
    archive.addfile(member, reader)
    return BackupEntry(size, reader.digest.hexdigest(), member.mode)


class _DigestReader(io.RawIOBase):
    """Computes the digest of what is read from a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


def restore(source: Path, home: Path, *, force: bool = False) -> RestoreResult:
    """Check the archive, then make it the home. Raises `HermesError`; nothing was changed then.

    With `force`, a home that is there is moved aside and kept.
    """
    occupied = home.is_dir() and any(home.iterdir())
    if occupied and not force:
        raise SettingsError(f"{home} is not empty; --force moves it aside and restores the backup")
    if any(is_locked(each) for each in (home / "locks").glob("*.lock")):
        raise SettingsError(f"a Hermes process uses {home}: stop it first (hermes service status)")
    home.parent.mkdir(parents=True, exist_ok=True)
    staging = home.with_name(f".{home.name}.restore-{secrets.token_hex(4)}")
    staging.mkdir(mode=FOLDER_MODE)
    try:
        manifest = _unpack(source, staging)
        _check_journal(staging)
        _take_owner(staging, home if home.is_dir() else home.parent)
        previous = _exchange(staging, home, keep=occupied)
    except OSError as error:
        raise HermesError(f"cannot restore {home}: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return RestoreResult(
        home=str(home),
        files=len(manifest.files),
        version=manifest.version,
        made_at=manifest.made_at,
        previous=previous,
    )


def _unpack(source: Path, folder: Path) -> BackupManifest:
    found: dict[str, BackupEntry] = {}
    manifest: BackupManifest | None = None
    try:
        with tarfile.open(source, mode="r:gz") as archive:
            for member in archive:
                data = _member_data(archive, member, found)
                if member.name == MANIFEST_NAME:
                    manifest = msgspec.json.decode(data.read(), type=BackupManifest)
                    continue
                mode = member.mode & ALLOWED_MODE_BITS
                digest = _write_new_file(folder / member.name, data, mode)
                found[member.name] = BackupEntry(member.size, digest, mode)
    except FileNotFoundError as error:
        raise SettingsError(f"there is no file {source}") from error
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, msgspec.DecodeError) as error:
        raise StoreCorrupt(f"{source} is not a complete backup: {error}") from error
    if manifest is None:
        raise StoreCorrupt(f"{source} is not a complete backup: its list of files is missing")
    if manifest.format > BACKUP_FORMAT:
        raise SettingsError(f"{source} was made by Hermes {manifest.version}; update this one")
    if manifest.files != found:
        wrong = sorted(
            name
            for name in {*manifest.files, *found}
            if manifest.files.get(name) != found.get(name)
        )
        raise StoreCorrupt(f"{source} is damaged: {', '.join(wrong[:5])} differ from its list")
    return manifest


def _member_data(
    archive: tarfile.TarFile, member: tarfile.TarInfo, found: dict[str, BackupEntry]
) -> IO[bytes]:
    """Raises `StoreCorrupt` for everything that a backup does not contain."""
    path = PurePosixPath(member.name)
    plain = member.isreg() and not path.is_absolute() and ".." not in path.parts
    if not plain or not path.parts or member.name != str(path) or member.name in found:
        raise StoreCorrupt(f"the archive contains {member.name!r}, which no backup does")
    file = archive.extractfile(member)
    assert file is not None
    return file


def _write_new_file(path: Path, data: IO[bytes], mode: int) -> str:
    """Returns the digest of what was written."""
    reader = _DigestReader(data)
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, PRIVATE_MODE), "wb") as file:
        shutil.copyfileobj(reader, file)
        os.fchmod(file.fileno(), mode)
    return reader.digest.hexdigest()


def _check_journal(folder: Path) -> None:
    journal = folder / "journal.db"
    if journal.exists() and (problems := verify(journal).problems):
        raise StoreCorrupt(f"the journal in the backup is damaged: {problems[0]}")


def _take_owner(folder: Path, example: Path) -> None:
    """Root may restore the home of another user."""
    if os.geteuid() != 0:
        return
    owner = example.stat()
    for here, folders, names in os.walk(folder):
        for each in (here, *(os.path.join(here, name) for name in (*folders, *names))):  # noqa: PTH118
            os.chown(each, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _exchange(staging: Path, home: Path, *, keep: bool) -> str:
    """Returns where the former home is."""
    previous = ""
    if keep:
        aside = home.with_name(f"{home.name}.before-restore-{datetime.now(UTC):%Y%m%d-%H%M%S}")
        home.rename(aside)
        previous = str(aside)
    elif home.is_dir():
        home.rmdir()
    staging.rename(home)
    return previous
