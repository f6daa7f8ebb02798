"""Keeps every version of a skill: records, compares and restores them."""

import difflib
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import field

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.skills.format import compute_skill_digest, list_skill_files

HISTORY_FOLDER = ".history"
VERSIONS_FILE = "versions.jsonl"
FOLDER_DIGEST_CHARS = 12


class SkillVersion(Value, kw_only=True, frozen=True):
    number: int
    digest: str
    reason: str = ""
    by: str = ""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class SkillHistory:
    """Versions of the skills under one root: one folder per version, and an index file."""

    def __init__(self, root: Path) -> None:
        self._root = root / HISTORY_FOLDER

    def versions(self, name: str) -> list[SkillVersion]:
        """The oldest first."""
        index = self._root / name / VERSIONS_FILE
        if not index.is_file():
            return []
        lines = index.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=SkillVersion) for line in lines if line.strip()]

    def record(self, folder: Path, *, reason: str = "", by: str = "") -> SkillVersion:
        """Records the folder as it is now, unless it equals the last version."""
        known, digest = self.versions(folder.name), compute_skill_digest(folder)
        if known and known[-1].digest == digest:
            return known[-1]
        version = SkillVersion(number=len(known) + 1, digest=digest, reason=reason, by=by)
        target = self.version_folder(folder.name, version)
        if not target.exists():
            unfinished = target.with_name(f".{target.name}")
            shutil.rmtree(unfinished, ignore_errors=True)
            copy_skill(folder, unfinished)
            unfinished.rename(target)
        with (self._root / folder.name / VERSIONS_FILE).open("ab") as index:
            index.write(msgspec.json.encode(version) + b"\n")
        return version

    def find(self, name: str, number_or_digest: str) -> SkillVersion:
        """By number, or by the beginning of the digest. Raises `SettingsError`."""
        for version in reversed(self.versions(name)):
            if number_or_digest == str(version.number) or (
                len(number_or_digest) >= 4 and version.digest.startswith(number_or_digest)
            ):
                return version
        raise SettingsError(
            f"{name} has no version {number_or_digest!r}; see: hermes skills history {name}"
        )

    def restore(self, folder: Path, version: SkillVersion, *, by: str = "") -> SkillVersion:
        """Restores an old version as a new one; the current content is recorded first."""
        self.record(folder, reason="before a rollback", by=by)
        new = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        copy_skill(self.version_folder(folder.name, version), new)
        swap_in(new, folder)
        return self.record(folder, reason=f"rolled back to version {version.number}", by=by)

    def diff(self, name: str, old: SkillVersion, new: SkillVersion | Path) -> str:
        """A unified diff of all files of two versions, or of a version and a folder."""
        before = self.version_folder(name, old)
        after = self.version_folder(name, new) if isinstance(new, SkillVersion) else new
        return "".join(_diff_folders(before, after))

    def version_folder(self, name: str, version: SkillVersion) -> Path:
        return self._root / name / version.digest[:FOLDER_DIGEST_CHARS]


def copy_skill(source: Path, target: Path) -> None:
    """Copies its files, without hidden ones and links."""
    target.mkdir(parents=True)
    for path in list_skill_files(source):
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copied)


def swap_in(new: Path, folder: Path) -> None:
    """Puts the new folder in the place of the old one, if there is one."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _diff_folders(before: Path, after: Path) -> Sequence[str]:
    names = sorted(
        {p.relative_to(f).as_posix() for f in (before, after) for p in list_skill_files(f)}
    )
    found: list[str] = []
    for name in names:
        old, new = _read_lines(before / name), _read_lines(after / name)
        found += difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return found


def _read_lines(file: Path) -> list[str]:
    if not file.is_file():
        return []
    text = file.read_text(encoding="utf-8", errors="replace")
    return [f"{line}\n" for line in text.splitlines()]
