"""Everything that can be said about a foreign skill without running it."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hermes.core.messages import Value
from hermes.skills.scanner.anywhere import look_anywhere
from hermes.skills.scanner.capabilities import look_at_deeds
from hermes.skills.scanner.closely import look_closely
from hermes.skills.scanner.conditions import look_at_conditions
from hermes.skills.scanner.dependencies import look_at_dependencies
from hermes.skills.scanner.encoded import unpacked
from hermes.skills.scanner.excused import weighed, without_quotations
from hermes.skills.scanner.faint import taken_together
from hermes.skills.scanner.finding import Entry, Finding, Ruling, ruling_of
from hermes.skills.scanner.growing import look_for_growth
from hermes.skills.scanner.hidden_text import look_for_hidden_text, plain
from hermes.skills.scanner.impostors import look_for_impostors
from hermes.skills.scanner.installing import look_at_installing
from hermes.skills.scanner.meanings import look_at_meanings
from hermes.skills.scanner.other_code import look_at_other_code
from hermes.skills.scanner.prose import look_at_prose
from hermes.skills.scanner.purpose import Purpose, purpose_of
from hermes.skills.scanner.python_code import look_at_python
from hermes.skills.scanner.shell_text import Effects, Passage, look_at_shell, passages
from hermes.skills.scanner.strangers import look_at_addresses
from hermes.skills.scanner.structure import look_at_structure

LARGEST = 1 << 20
"""Longer text is refused for its length alone."""
LONGEST_PROSE = 256 << 10
_PYTHON_FENCE = re.compile(r"^```(?:python|py|python3)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_HEREDOC = re.compile(
    r"\bpython[\d.]*\s+-?[^\n]*<<-?\s*[\"']?(\w+)[\"']?[^\n]*\n(.*?)^\s*\1\s*$|"
    r"\bpython[\d.]*\s+-c\s+'([^']+)'",
    re.DOTALL | re.MULTILINE,
)
_WORDS = re.compile(r"#[^\n]*|//[^\n]*|\"\"\"[\s\S]*?\"\"\"")


class _Cell(Value, frozen=True):
    source: str | list[str] = ""


class _Notebook(Value, frozen=True):
    cells: tuple[_Cell, ...] = ()


class Scan(Value, kw_only=True, frozen=True):
    findings: tuple[Finding, ...] = ()

    @property
    def blocked(self) -> bool:
        return any(finding.blocks for finding in self.findings)

    @property
    def ruling(self) -> Ruling:
        return ruling_of(self.findings)

    @property
    def reasons(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.blocks)


def scan(entries: Sequence[Entry], name: str = "", effects: Effects | None = None) -> Scan:
    """`effects` reads shell as the policy does; without it, patterns alone look at shell."""
    found = list(look_at_structure(entries, name))
    if any(each.file == "." for each in found):
        return Scan(findings=tuple(_sorted(found)))
    purpose = purpose_of(entries)
    texts = [
        (entry.path, plain(entry.text))
        for entry in entries
        if not entry.link and _is_text(entry.data) and len(entry.data) <= LARGEST
    ]
    present = frozenset(entry.path for entry in entries)
    for entry in entries:
        if not entry.link and _is_text(entry.data) and len(entry.data) <= LARGEST:
            found += _look(entry.path, entry.text, effects, purpose)
            found += look_at_installing(entry.path, entry.text, present)
    found += look_for_impostors(entries)
    found += look_at_deeds(texts, purpose)
    found += look_at_addresses(texts, purpose)
    judged = taken_together(weighed(found, dict(texts), purpose))
    return Scan(findings=tuple(_sorted(judged)))


def _look(path: str, text: str, effects: Effects | None, purpose: Purpose) -> Iterator[Finding]:
    yield from look_for_hidden_text(path, text)
    yield from look_for_growth(path, text)
    text = plain(text)
    yield from _code(path, text, effects)
    yield from look_at_dependencies(path, text)
    yield from look_at_conditions(path, text, purpose)
    yield from look_anywhere(path, text, purpose)
    yield from look_closely(path, text, purpose)
    said = without_quotations(text, purpose) if _reads_as_prose(path) else _comments(text)
    yield from look_at_prose(path, said)
    if len(said) > LONGEST_PROSE and path.endswith((".md", ".markdown", ".mdx", ".rst", ".txt")):
        yield Finding(kind="structure", file=path, line=1, cause="more text than anybody reads")
    else:
        yield from look_at_meanings(path, said[:LONGEST_PROSE].casefold(), purpose)
    for line, inside in unpacked(text):
        yield from _packed(path, line, inside)


def _code(path: str, text: str, effects: Effects | None) -> Iterator[Finding]:
    def shell(command: str, line: int) -> Iterator[Finding]:
        yield from look_at_shell(path, Passage(command, line, False))

    for passage in passages(path, text):
        yield from look_at_shell(path, passage, effects)
    if path.endswith((".py", ".pyw", ".pyi")) or re.match(r"#!.*\bpython", text):
        yield from look_at_python(path, text, shell)
    for found in _PYTHON_FENCE.finditer(text):
        start = text.count("\n", 0, found.start()) + 1
        for each in look_at_python(path, found[1], shell):
            yield Finding(
                kind=each.kind,
                file=path,
                line=each.line + start,
                cause=each.cause,
                blocks=each.blocks,
            )
    for found in _HEREDOC.finditer(text):
        yield from look_at_python(path, found[2] or found[3], shell)
    if path.endswith(".ipynb"):
        yield from _notebook(path, text, effects)
    yield from look_at_other_code(path, text)


def _notebook(path: str, text: str, effects: Effects | None) -> Iterator[Finding]:
    """Its cells: lines with a `!` are shell, the rest is Python."""
    try:
        cells = msgspec.json.decode(text, type=_Notebook).cells
    except msgspec.DecodeError:
        yield Finding(kind="structure", file=path, line=1, cause="a notebook that cannot be read")
        return
    for cell in cells:
        source = cell.source if isinstance(cell.source, str) else "".join(cell.source)
        commands = "\n".join(line[1:] for line in source.split("\n") if line[:1] in "!%")
        code = "\n".join(line for line in source.split("\n") if line[:1] not in ("!", "%"))
        yield from look_at_shell(path, Passage(commands, 1), effects)
        yield from look_at_python(path, code, lambda command, line: iter(()))


def _packed(path: str, line: int, inside: str) -> Iterator[Finding]:
    """Hidden text is held to the same rules, and may not hold a program at all."""
    found: list[Finding] = [
        *look_at_prose(path, inside),
        *look_at_shell(path, Passage(inside, 1, False)),
    ]
    runs = re.search(
        r"\b(?:curl|wget|bash|/bin/sh|powershell|nc)\b[^\n]*(?:https?://|\||-c)|"
        r"import (?:os|socket|subprocess|urllib)|"
        r"\b(?:os\.system|subprocess\.|exec\(|eval\()|^https?://\d|child_process|\bDownloadString|New-Object",
        inside,
    )
    for each in found[:1]:
        if each.blocks:
            yield Finding(kind="encoded", file=path, line=line, cause=f"packed away: {each.cause}")
    if runs:
        cause = f"packed away: a program, {' '.join(inside.split())[:60]!r}"
        yield Finding(kind="encoded", file=path, line=line, cause=cause)


def _reads_as_prose(path: str) -> bool:
    return path.endswith(
        (".md", ".markdown", ".mdx", ".rst", ".txt", ".yaml", ".yml", ".html", ".json", ".csv")
    )


def _comments(text: str) -> str:
    """What a program says to its reader, each on the line where it stands."""
    kept = ["" for _ in text.split("\n")]
    for found in _WORDS.finditer(text):
        line = text.count("\n", 0, found.start())
        for number, words in enumerate(found[0].split("\n")):
            kept[line + number] += f" {words.lstrip('#/ ')}"
    return "\n".join(kept)


def _is_text(data: bytes) -> bool:
    return b"\0" not in data[:4096] or data.startswith((b"\xff\xfe", b"\xfe\xff"))


def _sorted(found: Iterable[Finding]) -> list[Finding]:
    unique = dict.fromkeys(found)
    return sorted(unique, key=lambda each: (not each.blocks, each.file, each.line))
