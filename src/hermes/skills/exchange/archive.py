"""Packs a bundle into deterministic bytes, and unpacks only plain files inside the bundle."""

import hashlib
import io
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from hermes.core.errors import HermesError
from hermes.skills.scanner.finding import SkillFile

MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES = 24 << 20, 1_200


class ExchangeError(HermesError):
    """A bundle, key or list is refused; the text gives the reason."""


def compute_files_digest(entries: Iterable[SkillFile]) -> str:
    """SHA-256 over sorted `mode path sha256(content)` lines."""
    lines = [
        f"{'755' if entry.executable else '644'} {entry.path} "
        f"{hashlib.sha256(entry.data).hexdigest()}\n"
        for entry in entries
    ]
    return hashlib.sha256("".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()


def pack_files(entries: Iterable[SkillFile]) -> bytes:
    """The same entries always give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in sorted(entries, key=lambda each: each.path):
            member = tarfile.TarInfo(entry.path)
            member.size = len(entry.data)
            member.mode = 0o755 if entry.executable else 0o644
            archive.addfile(member, io.BytesIO(entry.data))
    return buffer.getvalue()


def unpack_files(data: bytes) -> list[SkillFile]:
    """Raises `ExchangeError` for data that `pack_files` would not have written."""
    if len(data) > MAX_BUNDLE_BYTES:
        raise ExchangeError(
            f"a bundle of {len(data):,} bytes is refused; at most {MAX_BUNDLE_BYTES:,}"
        )
    try:
        entries = _read_archive(data)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise ExchangeError(f"this is not a bundle: {error}") from error
    if pack_files(entries) != data:
        raise ExchangeError("the bundle is not in the standard form: something may be hidden in it")
    return entries


def _read_archive(data: bytes) -> list[SkillFile]:
    entries: list[SkillFile] = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if len(entries) >= MAX_BUNDLE_FILES:
                raise ExchangeError(f"a bundle has at most {MAX_BUNDLE_FILES} files")
            entries.append(_read_member(archive, member))
    names = {entry.path.casefold() for entry in entries}
    if len(names) != len(entries):
        raise ExchangeError("two files of the bundle have the same name")
    return entries


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> SkillFile:
    path = PurePosixPath(member.name)
    if not member.isreg():
        raise ExchangeError(f"{member.name!r} is not a plain file: links and devices are refused")
    odd = path.is_absolute() or ".." in path.parts or "\\" in member.name
    if odd or path.as_posix() != member.name:
        raise ExchangeError(f"{member.name!r} leads out of the bundle")
    stream = archive.extractfile(member)
    content = stream.read() if stream is not None else b""
    return SkillFile(path=member.name, data=content, executable=bool(member.mode & 0o100))


def select_folder_files(entries: Sequence[SkillFile], folder: str) -> list[SkillFile]:
    """The files of one folder of the bundle, with paths relative to it."""
    prefix = f"{folder}/"
    return [
        SkillFile(path=each.path[len(prefix) :], data=each.data, executable=each.executable)
        for each in entries
        if each.path.startswith(prefix)
    ]
