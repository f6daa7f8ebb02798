"""Words as PostgreSQL keeps and asks for them; cut and stemmed by us, so that both stores agree."""

import re
from collections.abc import Iterator, Sequence

from hermes.core.recall import Line
from hermes.memory.recall.words import Stemmer
from hermes.memory.search.analysis import grown_together, plain_words, shortened, signatures
from hermes.memory.search.query import Query, Term

TEXTS = "AB"
"""The weights of what was said, without dates and errors."""
_WORD = re.compile(r"[^\W_]+")
_LONGEST = 200
"""Letters of a word; PostgreSQL refuses one of two thousand."""
_PLACES = 16_000
"""Places that a tsvector can tell apart: phrases further behind are not found."""


class Wording:
    def __init__(self) -> None:
        self._stemmer = Stemmer()

    def vector(self, line: Line) -> str:
        """The literal of a tsvector: A the text, B identifiers and speaker, D dates and errors."""
        text = shortened(line.text)
        said = [plain_words(line.speaker), *grown_together(text)]
        places: dict[str, list[str]] = {}
        last = self._put(places, self._stems(plain_words(text)), "A", 1)
        last = self._put(places, self._stems("\n".join(said)), "B", last + 2)
        about = [*self._stems(f"{line.at:%Y-%m-%d %B}"), *map(error_word, signatures(text))]
        self._put(places, about, "D", last + 2)
        return " ".join(f"'{word}':{','.join(at[:250])}" for word, at in places.items())

    def term(self, term: Term, weights: str = "") -> str:
        """The text of a tsquery for one term."""
        own = self._phrase(term.words, weights, begins=term.begins)
        return f"({own} | {self._phrase(term.also, weights)})" if term.also else own

    def query(self, query: Query, *also: Term) -> str:
        """All that is needed, nothing that is unwanted; empty when nothing is asked for."""
        groups = [
            "(" + " | ".join(self.term(term, TEXTS) for term in group) + ")"
            for group in query.needed
        ]
        groups += [self.term(term) for term in also]
        return " & ".join([*groups, *self.without(query)])

    def without(self, query: Query) -> list[str]:
        return [f"!({self.term(term)})" for term in query.unwanted]

    def _phrase(self, words: Sequence[str], weights: str, *, begins: bool = False) -> str:
        stems = [self._stem(word) for word in words]
        marks = [weights] * len(stems)
        if begins:
            marks[-1] = "*" + weights
        parts = (
            f"'{stem}'" + (f":{mark}" if mark else "")
            for stem, mark in zip(stems, marks, strict=True)
        )
        return "(" + " <-> ".join(parts) + ")"

    def _stems(self, text: str) -> Iterator[str]:
        return (self._stem(word) for word in _WORD.findall(text))

    def _stem(self, word: str) -> str:
        return self._stemmer.stem(word.lower()[:_LONGEST])

    def _put(
        self,
        places: dict[str, list[str]],
        words: Iterator[str] | list[str],
        weight: str,
        first: int,
    ) -> int:
        at = first
        for at, word in enumerate(words, start=first):
            places.setdefault(word, []).append(f"{min(at, _PLACES)}{weight}")
        return at


def error_word(signature: str) -> str:
    """A word that no text holds."""
    return f"error={signature}"
