"""Sentences judged by the ideas that meet in them, so that other words are seen too."""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from hermes.core.messages import Value
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.signs import signs

LONGEST = 400
"""A longer sentence is cut: ideas far apart do not belong together."""
FURTHEST = 4
"""Lines between two sentences that still belong together."""
_FENCE = re.compile(
    r"^([ \t]*)(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*\2", re.DOTALL | re.M
)
_TEXT_FENCES = ("", "text", "txt", "md", "markdown")
_NEW = re.compile(r"\s*(?:[-*+>|#]|\d+[.)]|\w[\w-]*\s*:\s|<)")
_MARK = re.compile(r"^(?:\d+[.)]|[a-z][.)]|[-*+>])\s+")
_ENDS = re.compile(r"(?<=[.!?;。！？；])[\"')\]*_]*(?:\s+|(?<=[。！？；]))")
_FORBIDS = re.compile(
    r"\b(?:never|not|don'?t|cannot|can'?t|avoid|refuse to|without|instead of|rather than|stop|"
    r"nicht|niemals|jamais|nunca|mai|не|никогда)\b(?!\s+(?:hesitate|forget|fail|stop|wait|worry|mind|ask))[^,;:\n]{0,40}$"
)
_DESCRIBES = re.compile(
    r"\b(?:allows? you to|lets? you|supports?|returns?:?|used for|fix(?:ed|es)|this error|"
    r"let's (?:pretend|say|assume|suppose))\b[^,;:.]{0,40}$"
)
"""What a program does or did is no order to whoever reads it."""
_HOST = re.compile(r"(?<![\w-])[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.IGNORECASE)
_FLAGS = re.IGNORECASE | re.MULTILINE
_QUOTES = "\"'`“”‘’«»"


class Rule(Value, kw_only=True, frozen=True):
    cause: str
    meet: tuple[str, ...]
    unless: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    gaps: tuple[int, ...] = (90,)
    """How many letters may stand between one and the next."""
    near: int = LONGEST
    wide: bool = False
    """Two sentences may share it: what the first names, the second sends."""
    afar: str = ""
    """An idea that has to be anywhere in the text."""
    act: str = ""
    purpose: str = ""
    stranger: str = ""
    """An idea that ends in a host: only where the description does not speak of whose it is."""


class Sentence(Value, frozen=True):
    text: str
    line: int
    pair: bool = False


@cache
def _known() -> tuple[dict[str, re.Pattern[str]], tuple[Rule, ...]]:
    ideas: dict[str, re.Pattern[str]] = {}
    rules: list[Rule] = []
    for name in ("meanings.toml", "giveaways.toml"):
        text = (Path(__file__).parent / "signs" / name).read_text(encoding="utf-8")
        data = tomllib.loads(text)
        for idea, pattern in data["ideas"].items():
            joined = pattern.replace("\n", "").replace("[^.]", r"[^\n]")
            ideas[idea] = re.compile(joined, _FLAGS)
        rules += msgspec.convert(data["rules"], list[Rule])
    return ideas, tuple(rules)


def look_at_meanings(file: str, text: str, purpose: Purpose) -> Iterator[Finding]:
    """`text` is plain already; each cause is told once a file."""
    read = list(sentences(text))
    single = _Where([each for each in read if not each.pair])
    paired = _Where(read)
    told: set[str] = set()
    for rule in _known()[1]:
        if rule.cause in told or (rule.purpose and purpose.owns_up_to(rule.purpose, shortly=True)):
            continue
        where = paired if rule.wide else single
        for number in where.meeting(rule):
            if _holds(rule, number, where) and _strange(rule, number, where, purpose):
                told.add(rule.cause)
                said = where.read[number]
                cause = f"{rule.cause}: {_short(said.text)}"
                yield Finding(kind="prose", file=file, line=said.line, cause=cause)
                break


Spans = dict[int, list[tuple[int, int]]]


class _Where:
    """In which sentence each idea stands; looked for when a rule first asks."""

    def __init__(self, read: list[Sentence]) -> None:
        self.read = read
        self.text = "\n".join(each.text for each in read)
        self._starts = [0]
        for each in read:
            self._starts.append(self._starts[-1] + len(each.text) + 1)
        self._found: dict[str, Spans] = {}

    def of(self, idea: str) -> Spans:
        if idea not in self._found:
            self._found[idea] = self._look(_known()[0][idea])
        return self._found[idea]

    def meeting(self, rule: Rule) -> list[int]:
        """Sentences in which all ideas of the rule stand; the dearest are looked for last."""
        both: set[int] | None = None
        for idea in rule.meet:
            here = set(self.of(idea))
            both = here if both is None else both & here
            if not both:
                return []
        return sorted(both or ()) if not rule.afar or self.of(rule.afar) else []

    def _look(self, pattern: re.Pattern[str]) -> Spans:
        found: Spans = {}
        for each in pattern.finditer(self.text):
            found.setdefault(bisect_right(self._starts, each.start()) - 1, []).append(each.span())
        return found


def _holds(rule: Rule, number: int, where: _Where) -> bool:
    if any(number in where.of(idea) for idea in rule.unless):
        return False
    if rule.order and not _in_order(rule, number, where):
        return False
    if rule.near < LONGEST and not _close(rule, number, where):
        return False
    places = where.of(rule.act or rule.meet[0])[number]
    return any(not _only_said(where.text, span, forbidden=bool(rule.act)) for span in places)


def _strange(rule: Rule, number: int, where: _Where, purpose: Purpose) -> bool:
    if not rule.stranger:
        return True
    hosts = [
        host[0]
        for begin, end in where.of(rule.stranger)[number]
        for host in _HOST.finditer(where.text, begin, end)
    ]
    return any(
        not purpose.speaks_of(host) and not signs("places", "public")[0].pattern.fullmatch(host)
        for host in hosts
    )


def _in_order(rule: Rule, number: int, where: _Where) -> bool:
    """Each idea follows the one before, not too far behind, and is another word."""
    ends = [span[1] for span in where.of(rule.order[0])[number]]
    for at, idea in enumerate(rule.order[1:]):
        gap = rule.gaps[min(at, len(rule.gaps) - 1)]
        spans = where.of(idea)[number]
        ends = [b[1] for b in spans if any(0 <= b[0] - end <= gap for end in ends)]
    return bool(ends)


def _close(rule: Rule, number: int, where: _Where) -> bool:
    first, *others = (where.of(idea)[number] for idea in rule.meet)
    return any(
        all(any(abs(b[0] - a[0]) <= rule.near and b != a for b in spans) for spans in others)
        for a in first
    )


def _only_said(text: str, span: tuple[int, int], *, forbidden: bool) -> bool:
    """Forbidden, or quoted as something that others say."""
    begin = text.rfind("\n", 0, span[0]) + 1
    before = text[max(begin, span[0] - 70) : span[0]]
    if forbidden and (_FORBIDS.search(before) or _DESCRIBES.search(before)):
        return True
    opened = [mark for mark in '"“«`' if before.count(mark) % 2 or mark == before[-1:]]
    return bool(opened) and any(mark in text[span[1] : span[1] + 120] for mark in _QUOTES)


def sentences(text: str) -> Iterator[Sentence]:
    """Single ones, and each with those before it, also where it is the next step of a list."""
    before: list[Sentence] = []
    for each in _alone(text):
        yield each
        if each.text.startswith("|"):
            continue  # rows of a table stand side by side, and are no steps
        before = [last for last in before if each.line - last.line <= FURTHEST][-2:]
        for many in range(1, len(before) + 1):
            joined = " ".join(last.text for last in (*before[-many:], each))
            if len(joined) < LONGEST:
                yield Sentence(joined, before[-many].line, pair=True)
        before.append(each)


def _alone(text: str) -> Iterator[Sentence]:
    """Lines that go on are joined, and code is left out."""
    held, begun = "", 0
    for number, line in enumerate([*_without_code(text).split("\n"), ""], 1):
        if held and (not line.strip() or _NEW.match(line)):
            yield from _split(held, begun)
            held = ""
        if line.lstrip().startswith("#"):
            yield from _split(line.strip("# "), number)
        elif line.strip():
            begun = begun if held else number
            held = f"{held} {line.strip()}" if held else line.strip()


def _split(paragraph: str, line: int) -> Iterator[Sentence]:
    for part in _ENDS.split(_MARK.sub("", " ".join(paragraph.split()))):
        if part:
            yield Sentence(part[:LONGEST], line)


def _without_code(text: str) -> str:
    def kept(found: re.Match[str]) -> str:
        return found[0] if found[3] in _TEXT_FENCES else "\n" * found[0].count("\n")

    return _FENCE.sub(kept, text)


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:99]}…")
