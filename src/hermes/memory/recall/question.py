"""Reads a question: its words, the exact strings in it, whom it names, what it wants."""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from hermes.memory.recall.jargon import Jargon
from hermes.memory.recall.words import CONTENTLESS_WORDS, STOP_WORDS, Stemmer, words

_QUOTED = re.compile(r"[\"“`]([^\"”`]{2,200})[\"”`]|(?<!\w)'([^']{2,200})'(?!\w)")
_TOKEN = re.compile(r"[^\s,;!?\"“”`()\[\]{}<>]+")
_WANTS_SEVERAL = re.compile(
    r"^(what|which|who|where|how)\b[^?]*\b(has|have)\b"
    r"|\b(what|which) (are|were|kinds?|types?)\b"
    r"|\b(what|which) (?!(does|is|was|has|his)\b)\w+s\b"
    r"|\b(what|which) (?!(does|is|was|has|did|do|will|would|can|could|should|might)\b)\w+ "
    r"(?!(does|is|was|has|his)\b)\w+[^s\W]s\b"
    r"|\b(both|common|every time)\b|\bhow (many|often)\b",
    re.IGNORECASE,
)
"""Plural, perfect tense, counting: the answer lies in several places."""
_WANTS_TIME = re.compile(
    r"^\W*(when|since when|how long|(on |in )?(what|which) (year|month|week|day|date|time))\b", re.I
)


class Term(NamedTuple):
    raw: str
    stems: tuple[str, ...]
    """More than one when the tokenizer splits it."""
    exact: bool
    """An identifier, number, path or quoted text: only the very same string counts in full."""
    alike: frozenset[str] = frozenset()
    """Stems of other words for the same thing."""


class Question(NamedTuple):
    text: str
    terms: Sequence[Term]
    wants_several: bool
    wants_time: bool


def read_question(text: str, stemmer: Stemmer) -> Question:
    jargon = Jargon(stemmer.stem)
    terms: dict[tuple[str, ...], Term] = {}
    for word in dict.fromkeys([*_quoted(text), *_tokens(text)]):
        exact = is_identifier(word) or " " in word
        parts = words(word)
        if parts and (exact or not all(part in STOP_WORDS for part in parts)):
            stems = tuple(stemmer.stem(part) for part in parts)
            # Joined, since `write-ahead` and `key-value` are one word to those who use them.
            others = jargon.alike(stemmer.stem("".join(parts)))
            terms.setdefault(stems, Term(word, stems, exact, others))
    return Question(
        text,
        tuple(terms.values()),
        bool(_WANTS_SEVERAL.search(text)),
        bool(_WANTS_TIME.match(text)),
    )


def is_contentless(text: str) -> bool:
    """True for requests such as "please continue": whatever is recalled for them is unrelated."""
    return all(word in CONTENTLESS_WORDS for word in words(text))


def is_identifier(word: str) -> bool:
    """A name that people do not paraphrase: digits, inner punctuation, or odd capitals."""
    if any(sign.isdigit() for sign in word):
        return True
    inner = word.strip(".:-_/'’")
    if re.search(r"\w[-_./:=@#\\]+\w", inner) and not re.fullmatch(r"[a-z]+-[a-z]+", inner):
        return True
    return bool(re.search(r"[a-z][A-Z]|^[A-Z]{4,}$", inner))


def named_in(question: Question, speakers: Collection[str]) -> Sequence[str]:
    """The speakers whom the question names, by the whole name or its first word."""
    asked = set(words(question.text))
    found = []
    for speaker in speakers:
        parts = words(speaker)
        if parts and (parts[0] in asked) and len(parts[0]) > 1 and parts[0] not in STOP_WORDS:
            found.append(speaker)
    return found


def without_names(question: Question, names: Collection[str]) -> str:
    """The question for the vectors: names pull in greetings instead of what was said."""
    text = question.text
    for name in names:
        first = words(name)[0]
        text = re.sub(rf"\b{re.escape(first)}\b(['’]s\b)?", " ", text, flags=re.I)
    bare = " ".join(text.split())
    return bare if words(bare) else question.text


def _quoted(text: str) -> list[str]:
    return [a or b for a, b in _QUOTED.findall(text)]


def _tokens(text: str) -> list[str]:
    return [
        token
        for found in _TOKEN.findall(text)
        if (token := re.sub(r"['’]s$", "", found.strip(".:'’-*")))
    ]
