"""How much of a skill is scanned: a scan must end in seconds, also that of an 8 MiB skill."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes.skills.scanner.finding import (
    DOCUMENT_SUFFIXES,
    TABLE_SUFFIXES,
    ScanFinding,
    SkillFile,
    is_large_data,
)

MAX_DOCUMENT_BYTES = 768 << 10
"""Of all documents and tables together."""
MAX_PROGRAM_BYTES = 2 << 20
"""Of everything else together."""
MAX_PROSE_CHARS = 256 << 10
"""Of one document."""
_DATA_SUFFIXES = (*DOCUMENT_SUFFIXES, *TABLE_SUFFIXES, ".xsd")
_SHOWN_NAMES = 3


def is_document(path: str) -> bool:
    return path.casefold().endswith(DOCUMENT_SUFFIXES)


def is_reference(path: str) -> bool:
    """Whether it is a document beside SKILL.md."""
    return path != "SKILL.md" and is_document(path)


def select_readable(entries: Sequence[SkillFile]) -> tuple[list[SkillFile], list[ScanFinding]]:
    """The files that are scanned, and findings about those that are not.

    SKILL.md comes first, then the files that it names, then the others by path.
    """
    head = next((each.text for each in entries if each.path == "SKILL.md"), "")
    ranked = sorted(
        entries,
        key=lambda each: (each.path != "SKILL.md", _base_name(each) not in head, each.path),
    )
    chosen: set[str] = set()
    left_out: list[SkillFile] = []
    left = {True: MAX_DOCUMENT_BYTES, False: MAX_PROGRAM_BYTES}
    for each in ranked:
        if is_large_data(each.path, len(each.data)):
            chosen.add(each.path)
            continue
        data = _is_data(each)
        if len(each.data) > left[data]:
            left_out.append(each)
            continue
        left[data] -= len(each.data)
        chosen.add(each.path)
    scanned = [each for each in entries if each.path in chosen]
    return scanned, list(_describe_left_out(left_out, scanned))


def _base_name(entry: SkillFile) -> str:
    return PurePosixPath(entry.path).name


def _is_data(entry: SkillFile) -> bool:
    return entry.path != "SKILL.md" and entry.path.casefold().endswith(_DATA_SUFFIXES)


def _describe_left_out(
    left_out: Sequence[SkillFile], scanned: Sequence[SkillFile]
) -> Iterator[ScanFinding]:
    """A document that nothing refers to asks for a look; everything else stops the skill.

    Otherwise padding could keep the text that the agent is sent to out of the scan.
    """
    if not left_out:
        return
    said = "\n".join(each.text for each in scanned)
    groups: dict[tuple[str, bool], list[SkillFile]] = {}
    for each in left_out:
        data = _is_data(each)
        blocks = not data or len(each.text) > MAX_PROSE_CHARS or _base_name(each) in said
        groups.setdefault(("documents" if data else "programs", blocks), []).append(each)
    for (kind, blocks), files in groups.items():
        size = sum(len(each.data) for each in files) >> 10
        names = ", ".join(each.path for each in files[:_SHOWN_NAMES])
        more = f" and {len(files) - _SHOWN_NAMES} more" if len(files) > _SHOWN_NAMES else ""
        cause = f"too much to read: {size:,} KiB of {kind} were not scanned, {names}{more}"
        yield ScanFinding("structure", files[0].path, 1, cause, blocks)
