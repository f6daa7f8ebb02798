"""Every version that a skill has had: kept whole, compared, brought back."""

import difflib
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import field

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.skills.format.digest import digest_of, files_of

FOLDER = ".history"
INDEX = "versions.jsonl"
SHORT = 12


class Version(Value, kw_only=True, frozen=True):
    number: int
    digest: str
    reason: str = ""
    by: str = ""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class History:
    """Versions of the skills under one root; a version is a folder beside an index of lines."""

    def __init__(self, root: Path) -> None:
        self._root = root / FOLDER

    def versions(self, name: str) -> list[Version]:
        """The oldest first."""
        index = self._root / name / INDEX
        if not index.is_file():
            return []
        lines = index.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Version) for line in lines if line.strip()]

    def record(self, folder: Path, *, reason: str = "", by: str = "") -> Version:
        """Keep the folder as it is now; the same content twice in a row is one version."""
        known, digest = self.versions(folder.name), digest_of(folder)
        if known and known[-1].digest == digest:
            return known[-1]
        version = Version(number=len(known) + 1, digest=digest, reason=reason, by=by)
        kept = self._kept(folder.name, version)
        if not kept.exists():
            unfinished = kept.with_name(f".{kept.name}")
            shutil.rmtree(unfinished, ignore_errors=True)
            copy_skill(folder, unfinished)
            unfinished.rename(kept)
        with (self._root / folder.name / INDEX).open("ab") as index:
            index.write(msgspec.json.encode(version) + b"\n")
        return version

    def find(self, name: str, wanted: str) -> Version:
        """By number, or the beginning of its digest. Raises `SettingsError`."""
        for version in reversed(self.versions(name)):
            if wanted == str(version.number) or (
                len(wanted) >= 4 and version.digest.startswith(wanted)
            ):
                return version
        raise SettingsError(f"{name} has no version {wanted!r}; see: hermes skills history {name}")

    def restore(self, folder: Path, version: Version, *, by: str = "") -> Version:
        """The folder as it was then, as a new version; what it was until now is kept first."""
        self.record(folder, reason="before a rollback", by=by)
        old, fresh = (
            folder.with_name(f".{folder.name}.old"),
            folder.with_name(f".{folder.name}.new"),
        )
        for each in (old, fresh):
            shutil.rmtree(each, ignore_errors=True)
        copy_skill(self._kept(folder.name, version), fresh)
        folder.rename(old)
        fresh.rename(folder)
        shutil.rmtree(old)
        return self.record(folder, reason=f"rolled back to version {version.number}", by=by)

    def diff(self, name: str, old: Version, new: Version | Path) -> str:
        """A unified diff of all files of two versions, or of one and a folder."""
        before = self._kept(name, old)
        after = self._kept(name, new) if isinstance(new, Version) else new
        return "".join(_compared(before, after))

    def _kept(self, name: str, version: Version) -> Path:
        return self._root / name / version.digest[:SHORT]


def copy_skill(source: Path, target: Path) -> None:
    """Its files, without hidden ones and links."""
    target.mkdir(parents=True)
    for path in files_of(source):
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copied)


def _compared(before: Path, after: Path) -> Sequence[str]:
    names = sorted({p.relative_to(f).as_posix() for f in (before, after) for p in files_of(f)})
    found: list[str] = []
    for name in names:
        old, new = _lines(before / name), _lines(after / name)
        found += difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return found


def _lines(file: Path) -> list[str]:
    if not file.is_file():
        return []
    text = file.read_text(encoding="utf-8", errors="replace")
    return [f"{line}\n" for line in text.splitlines()]
