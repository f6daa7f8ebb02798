"""Decides where an imported skill goes, and merges it with a local version."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.exchange.bundle import SkillBundle, compute_files_digest
from hermes.skills.format import compute_skill_digest, is_hidden_path
from hermes.skills.history import SkillHistory
from hermes.skills.scanner.finding import SkillFile, read_skill_files

T = TypeVar("T")
PlacementKind = Literal["new", "same", "updated", "merged", "kept beside"]
_MARKDOWN_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)


class MergeResult(Value, kw_only=True, frozen=True):
    entries: tuple[SkillFile, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Sections or files that both sides changed differently."""


class SkillPlacement(Value, kw_only=True, frozen=True):
    folder: str
    """Its name under the root; `name@key` when both versions are kept."""
    how: PlacementKind
    entries: tuple[SkillFile, ...] = ()
    parents: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return compute_files_digest(self.entries)


def plan_placement(root: Path, bundle: SkillBundle, existing: Path | None) -> SkillPlacement:
    """`existing`: the folder of the skill of that name that is in use."""
    manifest = bundle.manifest
    new = SkillPlacement(folder=manifest.name, how="new", entries=bundle.skill)
    if existing is None:
        return new
    own = compute_skill_digest(existing)
    if own == manifest.digest:
        return replace(new, how="same")
    if existing != root / manifest.name:
        return _place_beside(bundle, own, ())
    if own in manifest.parents:
        return replace(new, how="updated", parents=(own,))
    base = _find_common_ancestor(root, bundle)
    if base is None:
        return _place_beside(bundle, own, ())
    merged = merge_skill_files(read_visible_files(base), read_visible_files(existing), bundle.skill)
    if merged.conflicts:
        return _place_beside(bundle, own, merged.conflicts)
    return replace(new, how="merged", entries=merged.entries, parents=(own, manifest.digest))


def _place_beside(bundle: SkillBundle, own: str, conflicts: tuple[str, ...]) -> SkillPlacement:
    return SkillPlacement(
        folder=f"{bundle.manifest.name}@{bundle.key[:8] or _publisher_label(bundle)}",
        how="kept beside",
        entries=bundle.skill,
        parents=(own,),
        conflicts=conflicts,
    )


def _publisher_label(bundle: SkillBundle) -> str:
    """`owner` of `github:owner`: a skill of a repository has no key."""
    return re.sub(r"[^a-z0-9-]", "-", bundle.manifest.publisher.casefold().rpartition(":")[2])


def _find_common_ancestor(root: Path, bundle: SkillBundle) -> Path | None:
    """The newest of our versions from which theirs was derived."""
    history, name = SkillHistory(root), bundle.manifest.name
    for version in reversed(history.versions(name)):
        if version.digest in bundle.manifest.parents:
            folder = history.version_folder(name, version)
            return folder if folder.is_dir() else None
    return None


def read_visible_files(folder: Path) -> list[SkillFile]:
    """The files that belong to the skill, without links and hidden ones."""
    entries = read_skill_files(folder)
    return [each for each in entries if not each.link and not is_hidden_path(each.path)]


def merge_skill_files(
    base: Sequence[SkillFile], ours: Sequence[SkillFile], theirs: Sequence[SkillFile]
) -> MergeResult:
    """Merges SKILL.md by section, other files as a whole; a change of only one side is taken."""
    olds, mines, news = ({each.path: each for each in side} for side in (base, ours, theirs))
    entries: list[SkillFile] = []
    conflicts: list[str] = []
    for path in sorted({*olds, *mines, *news}):
        old, mine, new = olds.get(path), mines.get(path), news.get(path)
        chosen, conflict = _choose_side(old, mine, new)
        if conflict and path == "SKILL.md" and mine is not None and new is not None:
            text, headings = merge_skill_texts(old.text if old else "", mine.text, new.text)
            conflicts += [f"SKILL.md, {title or 'its beginning'}" for title in headings]
            chosen = SkillFile(path=path, data=text.encode(), executable=mine.executable)
        elif conflict:
            conflicts.append(path)
        if chosen is not None:
            entries.append(chosen)
    return MergeResult(entries=tuple(entries), conflicts=tuple(conflicts))


def _choose_side(old: T | None, mine: T | None, new: T | None) -> tuple[T | None, bool]:
    """The side that changed; ours, and True, when both did."""
    if mine == new or new == old:
        return mine, False
    return (new, False) if mine == old else (mine, True)


def merge_skill_texts(base: str, ours: str, theirs: str) -> tuple[str, list[str]]:
    """The merged text, and the headings of sections that both sides changed differently."""
    old, mine, new = split_sections(base), split_sections(ours), split_sections(theirs)
    merged: dict[str, str] = {}
    conflicts: list[str] = []
    for title in _merge_order(mine, new):
        chosen, conflict = _choose_side(old.get(title), mine.get(title), new.get(title))
        if conflict:
            conflicts.append(title)
        if chosen is not None:
            merged[title] = chosen
    return "".join(merged.values()), conflicts


def split_sections(text: str) -> dict[str, str]:
    """By heading, in order; the text before the first heading has an empty one."""
    found: dict[str, str] = {}
    starts = [0, *(match.start() for match in _MARKDOWN_HEADING.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        part = text[start:end]
        if not part:
            continue
        title = part.split("\n", 1)[0].strip() if start else ""
        while title in found:
            title += "'"
        found[title] = part if part.endswith("\n") else f"{part}\n"
    return found


def _merge_order(mine: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Our order; a section that only they have follows its predecessor there."""
    order = list(mine)
    last = -1
    for title in new:
        if title in mine:
            last = order.index(title)
        else:
            last += 1
            order.insert(last, title)
    return order
