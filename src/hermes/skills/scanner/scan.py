"""Scans a foreign skill without running it; declared and weak findings are downgraded."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import PurePosixPath

import msgspec
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.scanner.deobfuscation import (
    check_hidden_text,
    decode_hidden_texts,
    normalize_text,
)
from hermes.skills.scanner.finding import (
    DATA_SUFFIXES,
    DOCUMENT_SUFFIXES,
    TABLE_SUFFIXES,
    ScanFinding,
    ScanVerdict,
    SkillFile,
    decide_scan_verdict,
    find_fenced_programs,
    is_large_data,
)
from hermes.skills.scanner.other_languages import check_other_code, check_string_tricks
from hermes.skills.scanner.patterns import load_pattern, load_patterns, read_pattern_file
from hermes.skills.scanner.purpose import DeclaredPurpose, read_purpose
from hermes.skills.scanner.python.code_checks import check_python
from hermes.skills.scanner.reading_limits import (
    AGENT_ADDRESS,
    MAX_PROSE_CHARS,
    keep_passages,
    keep_risky_paragraphs,
    select_readable,
)
from hermes.skills.scanner.rules.backdoors import (
    check_always_blocked,
    check_backdoors,
    check_weak_secrets,
)
from hermes.skills.scanner.rules.capabilities import (
    check_actions,
    check_hosts,
    find_embedded_programs,
)
from hermes.skills.scanner.rules.file_structure import (
    check_disguised_files,
    check_expansion,
    check_structure,
    unpack_nested_archives,
)
from hermes.skills.scanner.rules.instruction import keep_addressed
from hermes.skills.scanner.rules.logic_bombs import check_logic_bombs
from hermes.skills.scanner.rules.packages import (
    check_dependencies,
    check_install_hooks,
    check_package_sources,
)
from hermes.skills.scanner.rules.prose import (
    SECRET_CAUSES,
    check_prose,
    check_sentences,
    extract_comments,
)
from hermes.skills.scanner.shell_text import (
    CONCRETE_TARGET,
    ReadEffects,
    ShellPassage,
    check_shell,
    extract_shell_passages,
)

MAX_SCANNED_FILE_BYTES = 1 << 20
"""Longer files are reported by the structure check."""
_ONLY_DATA_SUFFIXES = tuple(set(DATA_SUFFIXES) - {".json", ".lock"})
"""Programs take neither commands nor packages from them."""
_PROSE_SUFFIXES = (*DOCUMENT_SUFFIXES, ".yaml", ".yml", ".html", ".json", ".csv")
WEAK_SIGNAL_LINES = 15
_DESCRIPTION_LINES = 5
"""The first lines of SKILL.md, with name and description."""
_INSTRUCTION_FILE = re.compile(r"(?:^|/)(?:agents|claude|gemini|skill)\.md$", re.IGNORECASE)
"""An agent that works in their folder takes them for its instructions."""
_COMMAND_KINDS = ("shell", "python", "capability")
_RUNS_FILE = (
    r"(?:\b(?:(?:ba|z|da|k|fi)?sh|python[\d.]*|node|perl|ruby|source|exec|eval|xargs)\b|(?<!\S)\.)"
    r"[^\n|;]{{0,80}}{name}|"
    r"{name}[^\n|]{{0,80}}\|[ \t]*(?:sudo |xargs )?(?:ba|z)?sh\b|"
    r"\b(?:follow|execute|carry out|work through)\b[^.\n]{{0,30}}{name}"
)
_HTTPS_HOST = re.compile(r"https://([a-z0-9-]+(?:\.[a-z0-9-]+)+)", re.IGNORECASE)
_ANY_ADDRESS = re.compile(r"\w+://|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w)")
_OWN_FILE = re.compile(r"(?<![\w/])(?:assets|scripts|resources)/[\w.-]")
_AGENT_FOLDER = re.compile(r"\.(?:hermes|claude|cursor|codex|gemini)/(?:skills/)?([\w.-]*)")
_AGENT_SETTINGS_CAUSES = (
    "it changes the settings of the agent",
    "the agent's own safeguards are changed",
)
_GITHUB_REPOSITORY = re.compile(
    r"https://(?:github|raw\.githubusercontent)\.com/([\w.-]+)/([\w.-]+)/", re.IGNORECASE
)
_TABLE_ROW = re.compile(r"\s*\|")
_LIST_LINE = re.compile(r"^[ \t]*(?:\||[-*+] |\d+[.)] )[^\n]*$", re.MULTILINE)
_BLOCK_QUOTE = re.compile(r"^[ \t]*>[^\n]*$", re.MULTILINE)
_QUOTATION = re.compile(r"[\"“«][^\"”»\n]{4,200}[\"”»]|`[^`\n]{4,200}`")


class _NotebookCell(Value, frozen=True):
    source: str | list[str] = ""


class _Notebook(Value, frozen=True):
    cells: tuple[_NotebookCell, ...] = ()


class ScanResult(Value, kw_only=True, frozen=True):
    findings: tuple[ScanFinding, ...] = ()

    @property
    def blocked(self) -> bool:
        return any(finding.blocks for finding in self.findings)

    @property
    def verdict(self) -> ScanVerdict:
        return decide_scan_verdict(self.findings)

    @property
    def blocking_findings(self) -> tuple[ScanFinding, ...]:
        return tuple(finding for finding in self.findings if finding.blocks)


def scan_skill(
    entries: Sequence[SkillFile], name: str = "", read_effects: ReadEffects | None = None
) -> ScanResult:
    """`read_effects` analyses shell as the policy does; without it only patterns are used."""
    found = list(check_structure(entries, name))
    if any(each.file == "." for each in found):
        return ScanResult(findings=tuple(_sort_findings(found)))
    purpose = read_purpose(entries)
    if packed := unpack_nested_archives(entries):
        found += (each for each in check_structure([*entries, *packed], name) if each not in found)
        entries = [*entries, *packed]
    texts_of_skill = [each for each in entries if not each.link and _is_text(each.data)]
    data = [each for each in texts_of_skill if is_large_data(each.path, len(each.data))]
    for entry in data:
        found += _check_data(entry, purpose)
    readable = [
        entry
        for entry in texts_of_skill
        if len(entry.data) <= MAX_SCANNED_FILE_BYTES
        and not (entry in data and entry.path.endswith(_ONLY_DATA_SUFFIXES))
    ]
    for entry in readable:
        found += check_hidden_text(entry.path, entry.text)
    readable, searched, left_out = select_readable(readable)
    found += left_out
    texts = [(entry.path, normalize_text(entry.text)) for entry in readable]
    present = frozenset(entry.path for entry in entries)
    own_modules = frozenset(PurePosixPath(path).stem for path in present if path.endswith(".py"))
    for entry, (_, text) in zip(readable, texts, strict=True):
        found += check_expansion(entry.path, entry.text)
        found += _check_file(entry.path, text, read_effects, purpose, own_modules)
        prose = keep_risky_paragraphs(text) if entry.path in searched else text
        found += _check_text(entry.path, prose, purpose)
        found += check_install_hooks(entry.path, entry.text, present)
    found += check_disguised_files(entries)
    found += check_actions(texts, purpose)
    found += check_hosts(texts, purpose)
    judged = downgrade_declared(found, dict(texts), purpose, name)
    judged = downgrade_weak_signals(downgrade_examples(judged, texts))
    return ScanResult(findings=tuple(_sort_findings(judged)))


def _check_file(
    path: str,
    text: str,
    read_effects: ReadEffects | None,
    purpose: DeclaredPurpose,
    own_modules: frozenset[str],
) -> Iterator[ScanFinding]:
    """`text` is normalized already."""
    if not is_large_data(path, len(text)):
        yield from _check_code(path, text, read_effects)
    yield from check_dependencies(path, text, own_modules)
    yield from check_logic_bombs(path, text, purpose)
    yield from check_always_blocked(path, text, purpose)
    yield from check_package_sources(path, text, purpose)
    yield from check_backdoors(path, text)
    yield from check_string_tricks(path, text)
    yield from check_weak_secrets(path, text, purpose)
    for line, inside in decode_hidden_texts(text):
        yield from _check_decoded_text(path, line, inside)


def _check_text(path: str, text: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    """What the text of a file says, and in a program its comments."""
    if is_large_data(path, len(text)):
        return
    prose = (
        remove_quotations(text, purpose)
        if path.endswith(_PROSE_SUFFIXES)
        else extract_comments(text)
    )
    found = _check_prose(path, prose, purpose)
    read_by_agent = path.endswith(DOCUMENT_SUFFIXES + TABLE_SUFFIXES)
    yield from found if read_by_agent else keep_addressed(found, prose)


def _check_data(entry: SkillFile, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    """Only what speaks to an agent, which may find it by a search, is read as a text."""
    passages = keep_passages(entry.text, AGENT_ADDRESS)
    yield from _check_prose(entry.path, normalize_text(passages), purpose)


def _check_prose(path: str, prose: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    yield from check_prose(path, prose, purpose)
    if len(prose) > MAX_PROSE_CHARS and path.endswith(DOCUMENT_SUFFIXES):
        cause = f"too much text to read: what follows {MAX_PROSE_CHARS:,} characters was not"
        yield ScanFinding("structure", path, 1, cause)
    yield from check_sentences(path, prose[:MAX_PROSE_CHARS].casefold(), purpose)


def _check_code(path: str, text: str, read_effects: ReadEffects | None) -> Iterator[ScanFinding]:
    def shell(command: str, line: int) -> Iterator[ScanFinding]:
        yield from check_shell(path, ShellPassage(command, line, False))

    for passage in extract_shell_passages(path, text):
        yield from check_shell(path, passage, read_effects)
    if path.endswith((".py", ".pyw", ".pyi")) or re.match(r"#!.*\bpython", text):
        yield from check_python(path, text, shell)
    embedded = ((at, code) for at, by, code in find_embedded_programs(text) if by == "python")
    fenced = list(find_fenced_programs(text))
    programs = [(start, code) for start, suffix, code in fenced if suffix == ".py"]
    for start, code in (*programs, *embedded):
        for each in check_python(path, code, shell):
            yield replace(each, line=each.line + start - 1)
    for start, suffix, code in fenced:
        for each in check_other_code(f"x{suffix}", code):
            yield replace(each, line=each.line + start - 1, file=path)
    if path.endswith(".ipynb"):
        yield from _check_notebook(path, text, read_effects)
    yield from check_other_code(path, text)


def _check_notebook(
    path: str, text: str, read_effects: ReadEffects | None
) -> Iterator[ScanFinding]:
    """Lines of a cell with `!` or `%` are shell, the rest is Python."""
    try:
        cells = msgspec.json.decode(text, type=_Notebook).cells
    except msgspec.DecodeError:
        yield ScanFinding("structure", path, 1, "a notebook that cannot be read")
        return
    for cell in cells:
        source = cell.source if isinstance(cell.source, str) else "".join(cell.source)
        commands = "\n".join(line[1:] for line in source.split("\n") if line[:1] in "!%")
        code = "\n".join(line for line in source.split("\n") if line[:1] not in ("!", "%"))
        yield from check_shell(path, ShellPassage(commands, 1), read_effects)
        yield from check_python(path, code, lambda command, line: iter(()))


def _check_decoded_text(path: str, line: int, inside: str) -> Iterator[ScanFinding]:
    """Encoded text must follow the same rules, and must not be a program."""
    found: list[ScanFinding] = [
        *check_prose(path, normalize_text(inside), DeclaredPurpose()),
        *check_shell(path, ShellPassage(inside, 1, False)),
    ]
    runs = re.search(
        r"\b(?:curl|wget|bash|/bin/sh|powershell|nc)\b[^\n]*(?:https?://|\||-c)|"
        r"import (?:os|socket|subprocess|urllib)|"
        r"\b(?:os\.system|subprocess\.|exec\(|eval\()|^https?://\d|child_process|\bDownloadString|New-Object",
        inside,
    )
    for each in found[:1]:
        if each.blocks:
            yield ScanFinding("encoded", path, line, f"hidden in encoded text: {each.cause}")
    if runs:
        cause = f"hidden in encoded text: a program, {' '.join(inside.split())[:60]!r}"
        yield ScanFinding("encoded", path, line, cause)


def _is_text(data: bytes) -> bool:
    return b"\0" not in data[:4096] or data.startswith((b"\xff\xfe", b"\xfe\xff"))


def _sort_findings(found: Iterable[ScanFinding]) -> list[ScanFinding]:
    unique = dict.fromkeys(found)
    return sorted(unique, key=lambda each: (not each.blocks, each.file, each.line))


class _DeclaredException(Value, frozen=True):
    cause: str
    said: str
    """Matched against name, description and headings: the declared purpose of the skill."""
    where: str = ""
    """Matched against the path of the file."""
    bare: bool = False
    """Only on a line that names no real host, address or key, and no file of the skill."""


@cache
def _load_exceptions() -> tuple[_DeclaredException, ...]:
    rows = read_pattern_file("declared_exceptions")["excused"]
    return msgspec.convert(rows, tuple[_DeclaredException, ...])


def downgrade_declared(
    found: Sequence[ScanFinding],
    texts: Mapping[str, str],
    purpose: DeclaredPurpose,
    name: str = "",
) -> Iterator[ScanFinding]:
    """The same findings; declared ones, and those about the skill's own folder, do not block."""
    split = {file: texts[file].split("\n") for file in {each.file for each in found} & set(texts)}
    for each in found:
        lines = split.get(each.file, [])
        line = lines[each.line - 1] if 0 < each.line <= len(lines) else ""
        if each.blocks and (
            _matches_exception(each, line, purpose)
            or _is_declared_source(each, line, purpose)
            or _is_teaching_example(each, line, purpose)
            or _is_own_folder(each, texts.get(each.file, ""), name)
        ):
            each = replace(each, blocks=False)
        yield each


def _matches_exception(each: ScanFinding, line: str, purpose: DeclaredPurpose) -> bool:
    described = f"{each.kind}: {each.cause}"
    return any(
        re.search(exception.cause, described)
        and re.search(exception.said, purpose.summary)
        and re.search(exception.where, each.file)
        and not (exception.bare and (CONCRETE_TARGET.search(line) or _OWN_FILE.search(line)))
        for exception in _load_exceptions()
    )


def _is_own_folder(each: ScanFinding, text: str, name: str) -> bool:
    """Whether its file names no other folder of an agent than that of the skill itself."""
    folders = _AGENT_FOLDER.findall(text)
    about = each.cause.startswith(_AGENT_SETTINGS_CAUSES)
    return about and len(name) > 3 and bool(folders) and set(folders) == {name}


def _is_declared_source(each: ScanFinding, line: str, purpose: DeclaredPurpose) -> bool:
    """An installer from a host, or a login file, that the description names."""
    download_and_run = load_patterns("shell", "download_run")[0].cause
    if each.cause == download_and_run and each.file.endswith(DOCUMENT_SUFFIXES):
        hosts = [found.casefold() for found in _HTTPS_HOST.findall(line)]
        sources = _GITHUB_REPOSITORY.findall(line.casefold())
        if sources and len(sources) == len(hosts):
            return all({*source} & set(purpose.summary.split()) for source in sources)
        encrypted = len(hosts) == len(_ANY_ADDRESS.findall(line))
        return bool(hosts) and encrypted and all(map(purpose.names_host_prominently, hosts))
    if each.cause.startswith("it reads ") and each.cause.endswith("talks to the network"):
        secret = load_pattern("python", "secret").search(each.cause)
        return secret is not None and secret[0].casefold() in purpose.summary
    return False


def _is_teaching_example(each: ScanFinding, line: str, purpose: DeclaredPurpose) -> bool:
    """A text about attacks shows them in a table or in a reference file."""
    teaches = purpose.declares("teaches", prominently=True)
    if not teaches or not each.file.endswith(DOCUMENT_SUFFIXES):
        return False
    aside = PurePosixPath(each.file).parts[0] in ("references", "examples", "samples")
    kinds = ("shell", "encoded", "python", "capability")
    return each.kind in kinds and (bool(_TABLE_ROW.match(line)) or aside)


def remove_quotations(text: str, purpose: DeclaredPurpose) -> str:
    """Removes block quotes and quotations in lists and tables from a text about attacks."""
    if not purpose.declares("teaches", prominently=True):
        return text
    return _LIST_LINE.sub(lambda found: _QUOTATION.sub("…", found[0]), _BLOCK_QUOTE.sub("…", text))


def downgrade_examples(
    found: Iterable[ScanFinding], texts: Sequence[tuple[str, str]]
) -> Iterator[ScanFinding]:
    """The same findings; commands that a document beside SKILL.md shows do not block.

    A document that is run, or that the agent shall follow, is no example.
    """
    programs: dict[str, bool] = {}
    for each in found:
        if each.blocks and each.kind in _COMMAND_KINDS and _is_reference(each.file):
            if each.file not in programs:
                programs[each.file] = _is_program(each.file, texts)
            strong = tuple(_load_list("strong", "commands"))
            if not programs[each.file] and not _blocks_everywhere(each.cause, strong):
                each = replace(each, blocks=False)
        yield each


def _blocks_everywhere(cause: str, strong: tuple[str, ...]) -> bool:
    return cause.startswith(strong) or "it is hidden by tricks" in cause


def _is_program(file: str, texts: Sequence[tuple[str, str]]) -> bool:
    runs = re.compile(_RUNS_FILE.format(name=re.escape(PurePosixPath(file).name)), re.IGNORECASE)
    return any(
        text.startswith("#!") if path == file else bool(runs.search(text)) for path, text in texts
    )


def downgrade_weak_signals(found: Iterable[ScanFinding]) -> Iterator[ScanFinding]:
    """The same findings; weak ones of a single kind, or far apart, no longer block."""
    findings = list(found)
    kinds = {_weak_signal_kind(each) for each in findings if each.blocks}
    alone = "plain" not in kinds and bool(kinds) and not _are_weak_kinds_near(findings)
    for each in findings:
        yield replace(each, blocks=False) if alone and each.blocks else each


def _are_weak_kinds_near(findings: list[ScanFinding]) -> bool:
    """Return whether two kinds meet in one passage: far apart they are two common remarks."""
    signals = [(each, _weak_signal_kind(each)) for each in findings if each.blocks]
    return any(
        one.file == other.file
        and kind != other_kind
        and abs(one.line - other.line) <= WEAK_SIGNAL_LINES
        and (_is_instruction_file(one.file) or _confirm_each_other(one, other))
        for (one, kind), (other, other_kind) in combinations(signals, 2)
    )


def _confirm_each_other(one: ScanFinding, other: ScanFinding) -> bool:
    """In a reference, two rules often stumble over the same sentence."""
    strong = _load_list("strong", "causes")
    return one.line != other.line or any(_name_cause(each) in strong for each in (one, other))


def _is_instruction_file(file: str) -> bool:
    return file == "SKILL.md" or bool(_INSTRUCTION_FILE.search(file))


def _is_reference(file: str) -> bool:
    """Whether no agent takes it for its task: a document beside SKILL.md."""
    return file.casefold().endswith(DOCUMENT_SUFFIXES) and not _is_instruction_file(file)


def _weak_signal_kind(finding: ScanFinding) -> str:
    """`plain` for what blocks by itself.

    The description is read with every task, so its orders are never weak. A skill within the skill
    has no say of its own: there nothing is weak.
    """
    cause, kinds = _name_cause(finding), _load_kinds()
    described = finding.file == "SKILL.md" and finding.line <= _DESCRIPTION_LINES
    if finding.kind != "prose" or described or finding.file.endswith("/SKILL.md"):
        return "plain"
    if cause in _load_list("strong", "hidden"):
        return "plain"
    if _is_reference(finding.file):
        cause = SECRET_CAUSES[0] if cause in SECRET_CAUSES else cause
        return kinds.get(cause, cause)
    if _is_instruction_file(finding.file) or cause in _load_list("strong", "causes"):
        return kinds.get(cause, "plain")
    return kinds.get(cause, cause)


def _name_cause(finding: ScanFinding) -> str:
    return finding.cause.partition(":")[0]


@cache
def _load_kinds() -> dict[str, str]:
    table = read_pattern_file("weak_signals")["kinds"]
    return {cause: kind for kind, causes in table.items() for cause in causes}


@cache
def _load_list(table: str, key: str) -> frozenset[str]:
    return frozenset(read_pattern_file("weak_signals")[table][key])
