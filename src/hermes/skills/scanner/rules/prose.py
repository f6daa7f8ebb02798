"""Checks what the text of a skill tells an agent to do, by patterns and by rules over sentences."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec

from hermes.core.foreign_text import one_line
from hermes.core.messages import Value
from hermes.skills.scanner.finding import CODE_FENCE, ScanFinding, line_number
from hermes.skills.scanner.literal_search import find_matches
from hermes.skills.scanner.match_starts import find_match_starts
from hermes.skills.scanner.patterns import (
    LazyPattern,
    find_required_literals,
    load_pattern,
    load_patterns,
    read_pattern_file,
)
from hermes.skills.scanner.purpose import DeclaredPurpose
from hermes.skills.scanner.rules.instruction import (
    COVERT_CAUSE,
    WITHOUT_ASKING_CAUSE,
    is_about_another_program,
    is_act_instructed,
    is_described_fault,
    is_instruction,
    is_no_question,
)
from hermes.skills.scanner.word_search import Vocabulary, find_all

_HTML_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_INVISIBLE_STYLE = re.compile(
    r"display\s*:\s*none|font-size\s*:\s*0|visibility\s*:\s*hidden|opacity\s*:\s*0(?!\.)|"
    r"color\s*:\s*(?:white|#fff(?:fff)?)\b|<details hidden|aria-hidden=.true|hidden>|"
    r"^\[(?://|comment|_|hidden|note)\]:\s*(?:#|<>)",
    re.IGNORECASE | re.MULTILINE,
)
_AGENT = r"(?<![/.~])\b(?:assistants?|agents?|ai|llms?|claude(?! code\b)|gpt|hermes)\b(?!/|\.\w)"
_ORDER = (
    r"\b(?:you must|you should|when you (?:see|read)|run|execute|fetch|curl|send|follow|ignore|"
    r"note to|instruction)\b"
)
_ADDRESSES_AGENT = re.compile(f"{_AGENT}|{_ORDER}", re.IGNORECASE)
_GIVES_ORDER = re.compile(_ORDER, re.IGNORECASE)
_ORDERS_AGENT = re.compile(
    r"\b(?:assistants?|agents?|llms?|ai|models?)\s+"
    r"(?:must|shall|(?<!the agent )should|are to|have to)\b",
    re.IGNORECASE,
)
_LONG_LINE = re.compile(r"[^\n]{2000}")
"""Longer lines are split: patterns would be too slow."""
SECRET_CAUSES = ("it makes the agent send secrets", "it makes the agent leak secrets")


def check_prose(file: str, text: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    """`text` is normalized already."""
    lowered = _LONG_LINE.sub("\\g<0>\n", CODE_FENCE.sub(_keep_comments, text).casefold())
    for rule in (*load_patterns("prose", "orders"), *load_patterns("prose", "foreign_orders")):
        for found in find_matches(rule.pattern, lowered):
            line = line_number(lowered, found.start())
            told = is_instruction(lowered, found, rule.cause)
            told = told and not (
                rule.cause in SECRET_CAUSES and _goes_to_own_service(lowered, found, purpose)
            )
            cause = f"{rule.cause}: {_excerpt(found[0])}"
            yield ScanFinding("prose", file, line, cause, blocks=told)
            if told:
                break
    yield from _check_invisible_text(file, text)


_COMMENT_TEXT = re.compile(r"#[^\n]*|//[^\n]*|\"\"\"[\s\S]*?\"\"\"")
_PROGRAM_LANGUAGES = frozenset({
    "javascript", "js", "jsx", "typescript", "ts", "tsx", "java", "kotlin", "swift", "go", "rust",
    "ruby", "php", "c", "cpp", "csharp", "css", "sql", "graphql", "dart", "scala", "vue", "svelte",
})  # fmt: skip


def extract_comments(text: str) -> str:
    """Comments and docstrings of a program, on their original lines."""
    comments = ["" for _ in text.split("\n")]
    line = counted = 0
    for found in _COMMENT_TEXT.finditer(text):
        line += text.count("\n", counted, found.start())
        counted = found.start()
        for number, words in enumerate(found[0].split("\n")):
            comments[line + number] += f" {words.lstrip('#/ ')}"
    return "\n".join(comments)


def _keep_comments(found: re.Match[str]) -> str:
    """Of a program in a document, only its comments are a text."""
    if found["language"].casefold() not in _PROGRAM_LANGUAGES:
        return found[0]
    return extract_comments(found[0])


def _check_invisible_text(file: str, text: str) -> Iterator[ScanFinding]:
    for found in find_matches(_HTML_COMMENT, text):
        inside = found[1]
        line = line_number(text, found.start())
        addressed = _GIVES_ORDER.search(inside) and len(_ADDRESSES_AGENT.findall(inside)) >= 2
        if addressed or _ORDERS_AGENT.search(inside):
            cause = f"a hidden comment addresses the agent: {_excerpt(inside)}"
            yield ScanFinding("prose", file, line, cause)
    for found in find_matches(_INVISIBLE_STYLE, text):
        around = text[found.start() : found.start() + 400]
        line = line_number(text, found.start())
        if len(_ADDRESSES_AGENT.findall(around)) >= 2:
            yield ScanFinding("prose", file, line, "invisible text addresses the agent")


def _goes_to_own_service(text: str, found: re.Match[str], purpose: DeclaredPurpose) -> bool:
    """Return whether its hosts are of the service that the skill says it is for.

    A key of a service is made to be sent there.
    """
    rest = _WORD_REST.match(text, found.end())
    hosts = _URL_HOST.findall(text, found.start(), rest.end() if rest else found.end())
    return bool(hosts) and all(map(purpose.names_host_prominently, hosts))


def _excerpt(text: str, max_chars: int = 80) -> str:
    return repr(one_line(text, max_chars))


MAX_SENTENCE_CHARS = 400
"""A longer sentence is cut: ideas far apart are not related."""
MAX_SENTENCE_GAP_LINES = 4
"""Lines between two related sentences."""
_TEXT_FENCE_LANGUAGES = ("", "text", "txt", "md", "markdown")
_TREE_LINE = re.compile(r"\s*(?:[│├└┌|]|[\w<>{}.*-]+(?:/|\.\w{1,5})(?:\s{2,}|\s*#|\s*$))")
"""A line of a tree of files: no sentences."""
_PARAGRAPH_START = re.compile(r"\s*(?:[-*+>|#]|\d+[.)]|\w[\w-]*\s*:\s|<)")
_LIST_MARKER = re.compile(r"^(?:\d+[.)]|[a-z][.)]|[-*+>])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？；])[\"')\]*_]*(?:\s+|(?<=[。！？；]))")
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_IDEOGRAPHIC_CLAUSE_END = re.compile(r"[,，、]|[:：](?!//)")
_WORD_REST = re.compile(r"\S*")
_URL_HOST = re.compile(r"(?:https?|wss?|ftp)://([a-z0-9-]+(?:\.[a-z0-9-]+)+)", re.IGNORECASE)
_HOST_NAME = re.compile(r"(?<![\w-])[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.IGNORECASE)
_PATTERN_FLAGS = re.IGNORECASE | re.MULTILINE


class SentenceRule(Value, kw_only=True, frozen=True):
    cause: str
    meet: tuple[str, ...]
    unless: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    gaps: tuple[int, ...] = (90,)
    """Maximum number of characters between one idea and the next."""
    near: int = MAX_SENTENCE_CHARS
    wide: bool = False
    """The ideas may be spread over neighbouring sentences."""
    afar: str = ""
    """An idea that must occur anywhere in the text."""
    act: str = ""
    purpose: str = ""
    stranger: str = ""
    """An idea that contains a host: only when the description does not name its owner."""


class ProseSentence(Value, frozen=True):
    text: str
    line: int
    parts: tuple[int, ...]
    """The single sentences that it is made of, by their number."""

    @property
    def is_single(self) -> bool:
        return len(self.parts) == 1


@cache
def _load_sentence_rules() -> tuple[dict[str, LazyPattern], tuple[SentenceRule, ...]]:
    ideas: dict[str, LazyPattern] = {}
    rules: list[SentenceRule] = []
    for name in ("sentence_rules", "sentence_giveaways"):
        data = read_pattern_file(name)
        for idea, pattern in data["ideas"].items():
            joined = pattern.replace("\n", "").replace("[^.]", r"[^\n]")
            ideas[idea] = LazyPattern(joined, _PATTERN_FLAGS)
        rules += msgspec.convert(data["rules"], list[SentenceRule])
    return ideas, tuple(rules)


def check_sentences(file: str, text: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    """`text` is normalized already; each cause is reported once per file."""
    # `re` also takes the Turkish letter for an i.
    index = _IdeaIndex(list(split_into_sentences(text.replace("ı", "i"))))
    reported: set[str] = set()
    for rule in _load_sentence_rules()[1]:
        if rule.cause in reported or (
            rule.purpose and purpose.declares(rule.purpose, prominently=True)
        ):
            continue
        for number in index.find_sentences(rule):
            if _rule_holds(rule, number, index) and _names_undeclared_host(
                rule, number, index, purpose
            ):
                reported.add(rule.cause)
                sentence = index.sentences[number]
                cause = f"{rule.cause}: {_excerpt(sentence.text, max_chars=100)}"
                yield ScanFinding("prose", file, sentence.line, cause)
                break


@cache
def _load_idea_vocabulary() -> Vocabulary:
    """The words that ideas need, and the texts with which they begin."""
    patterns = _load_sentence_rules()[0].values()
    needed = (group for each in patterns for group in find_required_literals(each))
    starts = (find_match_starts(each) or frozenset() for each in patterns)
    return Vocabulary(frozenset[str]().union(*needed, *starts))


IdeaSpan = tuple[int, int]


class _IdeaIndex:
    """The sentences in which each idea occurs, computed when first needed.

    The ideas are long patterns: they are only tried on sentences that contain the words they need.
    """

    def __init__(self, sentences: list[ProseSentence]) -> None:
        self.sentences = sentences
        self.text = "\n".join(each.text for each in sentences)
        self._starts = [0]
        for each in sentences:
            self._starts.append(self._starts[-1] + len(each.text) + 1)
        self._single = [n for n, each in enumerate(sentences) if each.is_single]
        self._single_text = "\n".join(sentences[number].text for number in self._single)
        self._single_starts = [0]
        for number in self._single:
            self._single_starts.append(self._single_starts[-1] + len(sentences[number].text) + 1)
        self._present = _load_idea_vocabulary().find_present(self._single_text)
        self._with_word: dict[str, frozenset[int]] = {}
        self._containing: list[list[int]] = [[] for _ in self._single]
        for number, each in enumerate(sentences):
            for part in each.parts:
                self._containing[part].append(number)
        self._candidates: dict[str, frozenset[int]] = {}
        self._spans: dict[tuple[str, int], list[IdeaSpan]] = {}
        self._starts_of: dict[str, list[int] | None] = {}

    def spans_of(self, idea: str, number: int) -> list[IdeaSpan]:
        """Where the idea occurs in one sentence, as positions in the text."""
        if number not in self._find_candidates(idea):
            return []
        key = idea, number
        if key not in self._spans:
            begin, end = self._starts[number], self._starts[number + 1] - 1
            self._spans[key] = list(self._search_idea(idea, begin, end))
        return self._spans[key]

    def _search_idea(self, idea: str, begin: int, end: int) -> Iterator[IdeaSpan]:
        """The pattern is only tried where one of the texts stands with which it begins."""
        pattern = _load_sentence_rules()[0][idea]
        positions = self._find_starts(idea)
        if positions is None:
            yield from (each.span() for each in pattern.finditer(self.text, begin, end))
            return
        last_end = begin
        for at in positions[bisect_left(positions, begin) : bisect_left(positions, end)]:
            if at >= last_end and (found := pattern.match(self.text, at, end)):
                last_end = found.end()
                yield found.span()

    def _find_starts(self, idea: str) -> list[int] | None:
        if idea not in self._starts_of:
            starts = find_match_starts(_load_sentence_rules()[0][idea])
            known = None if starts is None else starts & self._present
            self._starts_of[idea] = None if known is None else self._find_positions(known)
        return self._starts_of[idea]

    def _find_positions(self, starts: Iterable[str]) -> list[int]:
        return sorted({at for start in starts for at in find_all(start, self.text)})

    def find_sentences(self, rule: SentenceRule) -> list[int]:
        """Sentences in which all ideas of the rule occur."""
        every = range(len(self.sentences)) if rule.wide else self._single
        numbers = frozenset(every).intersection(*map(self._find_candidates, rule.meet))
        found = [n for n in sorted(numbers) if all(self.spans_of(idea, n) for idea in rule.meet)]
        if found and rule.afar and not any(self.spans_of(rule.afar, n) for n in every):
            return []
        return found

    def _find_candidates(self, idea: str) -> frozenset[int]:
        if idea not in self._candidates:
            numbers = frozenset(range(len(self.sentences)))
            for group in find_required_literals(_load_sentence_rules()[0][idea]):
                numbers &= frozenset[int]().union(*map(self._find_word, group & self._present))
            self._candidates[idea] = numbers
        return self._candidates[idea]

    def _find_word(self, word: str) -> frozenset[int]:
        """Sentences with a word. It has no spaces, so that it lies in a single sentence."""
        if word not in self._with_word:
            self._with_word[word] = frozenset(self._search_word(word))
        return self._with_word[word]

    def _search_word(self, word: str) -> Iterator[int]:
        at = self._single_text.find(word)
        while at >= 0:
            part = bisect_right(self._single_starts, at) - 1
            yield from self._containing[part]
            at = self._single_text.find(word, self._single_starts[part + 1])


def _rule_holds(rule: SentenceRule, number: int, index: _IdeaIndex) -> bool:
    if any(index.spans_of(idea, number) for idea in rule.unless):
        return False
    if rule.order and not _ideas_in_order(rule, number, index):
        return False
    if rule.near < MAX_SENTENCE_CHARS and not _ideas_are_near(rule, number, index):
        return False
    if rule.cause == WITHOUT_ASKING_CAUSE and all(
        is_no_question(index.text, begin) for begin, _ in index.spans_of("leave", number)
    ):
        return False
    spans = index.spans_of(rule.act or rule.meet[0], number)
    # A rule of one idea is a revealing phrase, whatever its subject.
    narrated = bool(rule.act) and len(rule.meet) > 1
    return any(
        is_act_instructed(index.text, span, act=bool(rule.act))
        and not (narrated and is_about_another_program(index.text, span[0]))
        and not (rule.cause == COVERT_CAUSE and is_described_fault(index.text, *span))
        for span in spans
    )


def _names_undeclared_host(
    rule: SentenceRule, number: int, index: _IdeaIndex, purpose: DeclaredPurpose
) -> bool:
    if not rule.stranger:
        return True
    hosts = [
        host[0]
        for begin, end in index.spans_of(rule.stranger, number)
        for host in _HOST_NAME.finditer(index.text, begin, _end_of_host(index.text, end))
    ]
    return not hosts or any(
        not purpose.names_host_prominently(host)
        and not load_pattern("paths_and_hosts", "public").fullmatch(host)
        for host in hosts
    )


def _end_of_host(text: str, end: int) -> int:
    """An idea may end with `://`: the host follows."""
    host = _HOST_NAME.match(text, end) if text[end - 3 : end] == "://" else None
    return host.end() if host else end


def _ideas_in_order(rule: SentenceRule, number: int, index: _IdeaIndex) -> bool:
    """Each idea follows the one before within its gap."""
    ends = [span[1] for span in index.spans_of(rule.order[0], number)]
    for at, idea in enumerate(rule.order[1:]):
        gap = rule.gaps[min(at, len(rule.gaps) - 1)]
        spans = index.spans_of(idea, number)
        ends = [b[1] for b in spans if any(0 <= b[0] - end <= gap for end in ends)]
    return bool(ends)


def _ideas_are_near(rule: SentenceRule, number: int, index: _IdeaIndex) -> bool:
    first, *others = (index.spans_of(idea, number) for idea in rule.meet)
    return any(
        all(any(abs(b[0] - a[0]) <= rule.near and b != a for b in spans) for spans in others)
        for a in first
    )


def split_into_sentences(text: str) -> Iterator[ProseSentence]:
    """Single sentences, and each one joined with those before it, also across list items."""
    before: list[ProseSentence] = []
    for number, (words, line) in enumerate(_split_single_sentences(text)):
        each = ProseSentence(words, line, (number,))
        yield each
        if each.text.startswith("|") or _is_ideographic(each.text):
            continue  # rows of a table are independent, and so are clauses
        before = [last for last in before if each.line - last.line <= MAX_SENTENCE_GAP_LINES][-2:]
        for count in range(1, len(before) + 1):
            chain = (*before[-count:], each)
            joined = " ".join(last.text for last in chain)
            parts = tuple(last.parts[0] for last in chain)
            if len(joined) < MAX_SENTENCE_CHARS:
                yield ProseSentence(joined, before[-count].line, parts)
        before.append(each)


def _split_single_sentences(text: str) -> Iterator[tuple[str, int]]:
    """Joins continued lines and leaves out code."""
    paragraph, first_line = "", 0
    for number, line in enumerate([*CODE_FENCE.sub(_keep_text_fence, text).split("\n"), ""], 1):
        if paragraph and (not line.strip() or _PARAGRAPH_START.match(line)):
            yield from _split_paragraph(paragraph, first_line)
            paragraph = ""
        if line.lstrip().startswith("#"):
            yield from _split_paragraph(line.strip("# "), number)
        elif line.strip():
            first_line = first_line if paragraph else number
            paragraph = f"{paragraph} {line.strip()}" if paragraph else line.strip()


def _split_paragraph(paragraph: str, line: int) -> Iterator[tuple[str, int]]:
    for part in _SENTENCE_END.split(_LIST_MARKER.sub("", " ".join(paragraph.split()))):
        clauses = _IDEOGRAPHIC_CLAUSE_END.split(part) if _is_ideographic(part) else [part]
        yield from ((each[:MAX_SENTENCE_CHARS], line) for each in clauses if each)


def _is_ideographic(text: str) -> bool:
    """Return whether it is Chinese or Japanese: one clause says as much as a sentence."""
    return 4 * len(_IDEOGRAPHS.findall(text)) > len(text)


def _keep_text_fence(found: re.Match[str]) -> str:
    is_text = found["language"] in _TEXT_FENCE_LANGUAGES
    lines = found["code"].split("\n")
    is_text = is_text and 2 * sum(bool(_TREE_LINE.match(each)) for each in lines) < len(lines)
    return found[0] if is_text else "\n" * found[0].count("\n")
