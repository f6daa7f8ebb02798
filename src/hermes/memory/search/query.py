"""What a person typed, as a question to the index. Nothing they type is an error."""

import re

from hermes.core.messages import Value
from hermes.memory.search.analysis import lone_sign, parts_of, plain_words, signatures

STOP_WORDS = frozenset(
    {
        *(
            "a",
            "an",
            "the",
            "of",
            "to",
            "in",
            "on",
            "at",
            "for",
        ),
        *(
            "and",
            "or",
            "but",
            "if",
            "is",
            "was",
            "were",
            "are",
            "be",
        ),
        *(
            "been",
            "do",
            "does",
            "did",
            "what",
            "when",
            "where",
            "who",
            "which",
        ),
        *(
            "how",
            "why",
            "that",
            "this",
            "these",
            "those",
            "it",
            "its",
            "i",
        ),
        *(
            "me",
            "my",
            "we",
            "us",
            "our",
            "you",
            "your",
            "with",
            "by",
        ),
        *(
            "as",
            "from",
            "has",
            "have",
            "had",
            "there",
            "here",
        ),
    }
)
_PIECE = re.compile(r'(-?)"([^"]*)"?|(-?)(\S+)')
_WORD = re.compile(r"[^\W_]+")
_OPTION = re.compile(r"-\S*|\S{1,2}|\d+|\S+=\S*")
"""What follows the dash in `--force`, `-rf`, `-100`, `-n=3`: options of commands, no exclusions."""
_SHORTEST = 2
"""Letters that a beginning must have: `a*` would be half of the index."""


class Term(Value, frozen=True):
    """One word, or several that stand in this order."""

    words: tuple[str, ...]
    begins: bool = False
    """The last word may go on."""
    also: tuple[str, ...] = ()
    """Another way to write it: the parts of a word that is grown together."""

    @property
    def expression(self) -> str:
        """As FTS5 reads it: only letters and digits inside quotes, so nothing can go wrong."""
        phrase = f'"{" ".join(self.words)}"' + (" *" if self.begins else "")
        return f'({phrase} OR "{" ".join(self.also)}")' if self.also else phrase


class Query(Value, frozen=True):
    needed: tuple[tuple[Term, ...], ...] = ()
    """One of each group must occur."""
    unwanted: tuple[Term, ...] = ()
    signatures: tuple[str, ...] = ()
    """Of the errors that the question itself tells of."""

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(term for group in self.needed for term in group)

    def expression(self, *also: str) -> str:
        """All of it, and `also`."""
        groups = [
            group[0].expression
            if len(group) == 1
            else "(" + " OR ".join(term.expression for term in group) + ")"
            for group in self.needed
        ]
        return self.without(" AND ".join([*groups, *also]))

    def without(self, expression: str) -> str:
        for term in self.unwanted:
            expression = f"({expression}) NOT {term.expression}"
        return expression


def read_query(text: str) -> Query:
    needed: list[tuple[Term, ...]] = []
    unwanted: list[Term] = []
    joined = negated = False
    for minus, phrase, minus_word, word in _PIECE.findall(text.replace("\0", " ")):
        if word in ("OR", "AND", "NOT"):
            joined, negated = word == "OR" and bool(needed), word == "NOT"
            continue
        term = term_of(phrase or word)
        if term is None:
            continue
        if minus or negated or (minus_word and not _OPTION.fullmatch(word)):
            unwanted.append(term)
        elif joined:
            needed[-1] = (*needed[-1], term)
        else:
            needed.append((term,))
        joined = negated = False
    telling = [group for group in needed if not _empty(group)]
    return Query(tuple(telling or needed), tuple(unwanted), tuple(signatures(text)))


def term_of(text: str) -> Term | None:
    """None when nothing in it can be searched for."""
    words = tuple(_WORD.findall(plain_words(text, asked=True)))
    if not words:
        return None
    begins = (text.endswith("*") and len(words[-1]) >= _SHORTEST) or lone_sign(words[-1])
    parts = tuple(parts_of(text)) if len(words) == 1 and words[0].isascii() else ()
    return Term(words, begins, parts if len(parts) > 1 and not begins else ())


def _empty(group: tuple[Term, ...]) -> bool:
    return all(len(term.words) == 1 and term.words[0].lower() in STOP_WORDS for term in group)
