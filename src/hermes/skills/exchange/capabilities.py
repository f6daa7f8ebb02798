"""What a skill would be able to do, read from its files, so that a person sees the difference."""

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hermes.core.messages import Value
from hermes.skills.format.places import Mistake
from hermes.skills.format.skill_text import read_skill
from hermes.skills.scanner.finding import Entry
from hermes.skills.scanner.shell_text import passages

_HOST = re.compile(r"https?://([A-Za-z0-9.-]+\.[A-Za-z]{2,}|\d+\.\d+\.\d+\.\d+)")
_PROGRAM = re.compile(
    r"(?:^|[|;&]\s*|\bsudo\s+|\$\(\s*)([a-z][\w.+-]{1,24})(?=\s+[-\w./\"'$~])", re.MULTILINE
)
_WORDS = re.compile(
    r"if|then|else|fi|for|do|done|while|case|esac|function|in|set|export|local|echo|return"
)


class Difference(Value, kw_only=True, frozen=True):
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    """Found in the files, and not among what the manifest says."""


def capabilities_of(entries: Sequence[Entry]) -> tuple[str, ...]:
    found: set[str] = set()
    for entry in entries:
        if entry.link or b"\0" in entry.data[:2048]:
            continue
        found |= set(_of(entry))
    return tuple(sorted(found))


def difference(before: Sequence[str], found: Sequence[str], declared: Sequence[str]) -> Difference:
    return Difference(
        gained=tuple(sorted({*found} - {*before})),
        lost=tuple(sorted({*before} - {*found})),
        undeclared=tuple(sorted({*found} - {*declared})),
    )


def _of(entry: Entry) -> Iterator[str]:
    text = entry.text
    if entry.path == "SKILL.md":
        with suppress(Mistake):
            yield from (f"tool {tool}" for tool in read_skill(text).allowed_tools)
    yield from (f"host {host.casefold()}" for host in _HOST.findall(text))
    for passage in passages(entry.path, text):
        if passage.whole:
            yield from (
                f"runs {name}"
                for name in _PROGRAM.findall(passage.text)
                if not _WORDS.fullmatch(name)
            )
            if re.search(r"\bsudo\b", passage.text):
                yield "runs sudo"
    if entry.path.endswith(".py"):
        yield from (f"imports {name}" for name in _imports(text))
    if entry.path == "playbook.yaml":
        yield "playbook"
        for command in re.findall(r"^\s*(?:-\s*)?(?:command|undo):\s*(.+)$", text, re.MULTILINE):
            first = command.strip("'\" >|").split(" ")[0]
            if re.fullmatch(r"[a-z][\w.+-]+", first):
                yield f"runs {first}"


def _imports(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield "code that cannot be read"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.split(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]
