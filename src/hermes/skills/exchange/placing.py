"""Where an imported skill goes when there may be one of its name already."""

from pathlib import Path
from typing import Literal

from hermes.core.messages import Value
from hermes.skills.exchange.archive import digest_of_entries
from hermes.skills.exchange.bundle import Bundle
from hermes.skills.exchange.merge import merge
from hermes.skills.format.digest import digest_of, files_of
from hermes.skills.history import FOLDER, SHORT, History
from hermes.skills.scanner.finding import Entry

How = Literal["new", "same", "updated", "merged", "kept beside"]


class Placed(Value, kw_only=True, frozen=True):
    folder: str
    """Its name below the root; `name@key` when both are kept."""
    how: How
    entries: tuple[Entry, ...] = ()
    parents: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return digest_of_entries(self.entries)


def find_place(root: Path, bundle: Bundle, existing: Path | None) -> Placed:
    """`existing` is the skill of that name that is in use, wherever it lies."""
    manifest = bundle.manifest
    if existing is None:
        return Placed(folder=manifest.name, how="new", entries=bundle.skill)
    own = digest_of(existing)
    if own == manifest.digest:
        return Placed(folder=manifest.name, how="same", entries=bundle.skill)
    if existing != root / manifest.name:
        return _beside(bundle, own, ())
    if own in manifest.parents:
        return Placed(folder=manifest.name, how="updated", entries=bundle.skill, parents=(own,))
    base = _ancestor(root, bundle)
    if base is None:
        return _beside(bundle, own, ())
    merged = merge(_entries(base), _entries(existing), bundle.skill)
    if merged.conflicts:
        return _beside(bundle, own, merged.conflicts)
    parents = (own, manifest.digest)
    return Placed(folder=manifest.name, how="merged", entries=merged.entries, parents=parents)


def _beside(bundle: Bundle, own: str, conflicts: tuple[str, ...]) -> Placed:
    folder = f"{bundle.manifest.name}@{bundle.key[:8]}"
    return Placed(
        folder=folder,
        how="kept beside",
        entries=bundle.skill,
        parents=(own,),
        conflicts=conflicts,
    )


def _ancestor(root: Path, bundle: Bundle) -> Path | None:
    """The newest of our versions that theirs also came from."""
    for version in reversed(History(root).versions(bundle.manifest.name)):
        if version.digest in bundle.manifest.parents:
            kept = root / FOLDER / bundle.manifest.name / version.digest[:SHORT]
            return kept if kept.is_dir() else None
    return None


def _entries(folder: Path) -> list[Entry]:
    return [
        Entry(
            path=path.relative_to(folder).as_posix(),
            data=path.read_bytes(),
            executable=bool(path.stat().st_mode & 0o100),
        )
        for path in files_of(folder)
    ]
