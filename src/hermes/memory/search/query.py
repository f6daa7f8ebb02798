"""Parses what a person typed into a query of the index. No input is an error."""

import re

from hermes.core.messages import Value
from hermes.memory.search.text_analysis import (
    SEARCH_STOP_WORDS,
    compound_parts,
    error_signatures,
    is_single_cjk_sign,
    searchable_words,
)

_QUERY_PART = re.compile(r'(-?)"([^"]*)"?|(-?)(\S+)')
_WORD = re.compile(r"[^\W_]+")
_COMMAND_OPTION = re.compile(r"-\S*|\S{1,2}|\d+|\S+=\S*")
"""What follows the dash in `--force`, `-rf`, `-100`, `-n=3`: options of commands, no exclusions."""
_MIN_PREFIX_CHARS = 2
"""Letters that a prefix must have: `a*` would match half of the index."""


class QueryTerm(Value, frozen=True):
    """A word, or several words in this order."""

    words: tuple[str, ...]
    is_prefix: bool = False
    """The last word is a prefix."""
    alternative: tuple[str, ...] = ()
    """Another spelling: the parts of a compound word."""

    @property
    def expression(self) -> str:
        """As FTS5 reads it: only letters and digits inside quotes, so it is always valid."""
        phrase = f'"{" ".join(self.words)}"' + (" *" if self.is_prefix else "")
        return f'({phrase} OR "{" ".join(self.alternative)}")' if self.alternative else phrase


class SearchQuery(Value, frozen=True):
    required: tuple[tuple[QueryTerm, ...], ...] = ()
    """One of each group must occur."""
    excluded: tuple[QueryTerm, ...] = ()
    signatures: tuple[str, ...] = ()
    """Of the errors in the question itself."""

    @property
    def terms(self) -> tuple[QueryTerm, ...]:
        return tuple(term for group in self.required for term in group)


def parse_query(text: str) -> SearchQuery:
    needed: list[tuple[QueryTerm, ...]] = []
    unwanted: list[QueryTerm] = []
    joined = negated = False
    for minus, phrase, minus_word, word in _QUERY_PART.findall(text.replace("\0", " ")):
        if word in ("OR", "AND", "NOT"):
            joined, negated = word == "OR" and bool(needed), word == "NOT"
            continue
        term = parse_term(phrase or word)
        if term is None:
            continue
        if minus or negated or (minus_word and not _COMMAND_OPTION.fullmatch(word)):
            unwanted.append(term)
        elif joined:
            needed[-1] = (*needed[-1], term)
        else:
            needed.append((term,))
        joined = negated = False
    telling = [group for group in needed if not _only_stop_words(group)]
    return SearchQuery(tuple(telling or needed), tuple(unwanted), tuple(error_signatures(text)))


def parse_term(text: str) -> QueryTerm | None:
    """Return None when nothing in it can be searched for."""
    words = tuple(_WORD.findall(searchable_words(text, for_query=True)))
    if not words:
        return None
    begins = (text.endswith("*") and len(words[-1]) >= _MIN_PREFIX_CHARS) or is_single_cjk_sign(
        words[-1]
    )
    parts = tuple(compound_parts(text)) if len(words) == 1 and words[0].isascii() else ()
    return QueryTerm(words, begins, parts if len(parts) > 1 and not begins else ())


def _only_stop_words(group: tuple[QueryTerm, ...]) -> bool:
    return all(
        len(term.words) == 1 and term.words[0].lower() in SEARCH_STOP_WORDS for term in group
    )
