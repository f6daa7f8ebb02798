"""How much of a skill is scanned: a scan must end in seconds, also that of an 8 MiB skill."""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath

from hermes.skills.scanner.finding import (
    DOCUMENT_SUFFIXES,
    TABLE_SUFFIXES,
    ScanFinding,
    SkillFile,
    is_large_data,
)
from hermes.skills.scanner.literal_search import find_matches

MAX_DOCUMENT_BYTES = 768 << 10
"""Of all documents and tables together."""
MAX_SEARCHED_BYTES = 4 << 20
"""Of the documents after them: of these, only risky paragraphs are read as a text."""
MAX_PROGRAM_BYTES = 2 << 20
"""Of everything else together."""
MAX_PROSE_CHARS = 256 << 10
"""Of one document."""
_DATA_SUFFIXES = (*DOCUMENT_SUFFIXES, *TABLE_SUFFIXES, ".xsd")
_SHOWN_NAMES = 3
AGENT_ADDRESS = re.compile(
    r"\b(?:assistants?|agents?|ai|llms?|claude|gpt|hermes|instructions?|system prompt|the user|"
    r"you must|you should|when you (?:see|read)|ignore|disregard)\b",
    re.IGNORECASE,
)
_RISKY_WORD = re.compile(
    rf"{AGENT_ADDRESS.pattern}|\.(?:ssh|aws|env|netrc|npmrc|kube|gnupg|bashrc|zshrc)\b|"
    r"\b(?:secrets?|passwords?|credentials?|api.?keys?|private keys?|tokens?|wallets?|seed phrase|"
    r"environment variables|curl|wget|uploads?|exfiltrat\w*|telemetry|web ?hooks?|approv\w+|"
    r"confirm\w*|consent|permissions?|silently|secretly|quietly|without (?:asking|telling)|"
    r"do not (?:ask|tell|mention|show)|don't (?:ask|tell|mention|show)|never (?:ask|tell|mention)|"
    r"hidden?|conceal\w*|bypass\w*|disabl\w+|base64|crontab|sudo|operators?|reviewers?|nobody|"
    r"anyone|payments?|bitcoin|policy|policies|guardrails?|audit\w*|backdoor\w*)\b|[^\x00-\u024f]",
    re.IGNORECASE,
)
"""What an order needs that harms: whom it is for, what it takes, where to, or how. Text in other
scripts is read whole."""
_FENCE_LINE = re.compile(r"\s*(?:`{3}|~{3})")
MAX_PASSAGE_CHARS = 400
"""Before and after such a word."""


def is_document(path: str) -> bool:
    return path.casefold().endswith(DOCUMENT_SUFFIXES)


def is_reference(path: str) -> bool:
    """Whether it is a document beside SKILL.md."""
    return path != "SKILL.md" and is_document(path)


def keep_passages(text: str, pattern: re.Pattern[str]) -> str:
    """What stands around its matches, on the original lines; nothing else."""
    passages = [""] * (text.count("\n") + 1)
    line = counted = read_to = 0
    for found in find_matches(pattern, text):
        begin = max(text.rfind("\n", 0, found.start()) + 1, found.start() - MAX_PASSAGE_CHARS)
        after = text.find("\n", found.end())
        end = min(len(text) if after < 0 else after, found.end() + MAX_PASSAGE_CHARS)
        if end > read_to:
            line += text.count("\n", counted, found.start())
            counted = found.start()
            passages[line] += text[max(begin, read_to) : end]
            read_to = end
    return "\n".join(passages)


def keep_risky_paragraphs(text: str) -> str:
    """The paragraphs with a risky word, on the original lines, and the marks around code."""
    lines = text.split("\n")
    risky = {text.count("\n", 0, found.start()) for found in find_matches(_RISKY_WORD, text)}
    kept = ["" for _ in lines]
    begin = 0
    for number in range(len(lines) + 1):
        if number == len(lines) or not lines[number].strip():
            if not risky.isdisjoint(range(begin, number)):
                kept[begin:number] = lines[begin:number]
            begin = number
    fences = (number for number, line in enumerate(lines) if _FENCE_LINE.match(line))
    for number in fences:
        kept[number] = lines[number]
    return "\n".join(kept)


def select_readable(
    entries: Sequence[SkillFile],
) -> tuple[list[SkillFile], frozenset[str], list[ScanFinding]]:
    """The files that are scanned, which of them are only searched for risky paragraphs,
    and findings about what was not read.

    SKILL.md comes first, then the files that it names, then the others by path.
    """
    head = next((each.text for each in entries if each.path == "SKILL.md"), "")
    ranked = sorted(
        entries,
        key=lambda each: (each.path != "SKILL.md", _base_name(each) not in head, each.path),
    )
    chosen: set[str] = set()
    left_out: list[SkillFile] = []
    searched: set[str] = set()
    left = {True: MAX_DOCUMENT_BYTES, False: MAX_PROGRAM_BYTES}
    left_to_search = MAX_SEARCHED_BYTES
    for each in ranked:
        if is_large_data(each.path, len(each.data)):
            chosen.add(each.path)
            continue
        data = _is_data(each)
        if len(each.data) <= left[data]:
            left[data] -= len(each.data)
        elif is_document(each.path) and len(each.data) <= left_to_search:
            left_to_search -= len(each.data)
            searched.add(each.path)
        else:
            left_out.append(each)
            continue
        chosen.add(each.path)
    scanned = [each for each in entries if each.path in chosen]
    findings = [*_describe_searched(searched, scanned), *_describe_left_out(left_out, scanned)]
    return scanned, frozenset(searched), findings


def _describe_searched(
    searched: Collection[str], scanned: Sequence[SkillFile]
) -> Iterator[ScanFinding]:
    files = [each for each in scanned if each.path in searched]
    if files:
        size, names = _describe_files(files)
        cause = f"of {size:,} KiB of documents only risky paragraphs were read as a text, {names}"
        yield ScanFinding("structure", files[0].path, 1, cause, blocks=False)


def _describe_files(files: Sequence[SkillFile]) -> tuple[int, str]:
    names = ", ".join(each.path for each in files[:_SHOWN_NAMES])
    more = f" and {len(files) - _SHOWN_NAMES} more" if len(files) > _SHOWN_NAMES else ""
    return sum(len(each.data) for each in files) >> 10, names + more


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
        size, names = _describe_files(files)
        cause = f"too much to read: {size:,} KiB of {kind} were not scanned, {names}"
        yield ScanFinding("structure", files[0].path, 1, cause, blocks)
