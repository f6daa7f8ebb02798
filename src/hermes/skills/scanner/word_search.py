"""Which of many short texts occur in a long one, and where."""

from collections.abc import Iterable, Iterator

from hermes.skills.scanner.patterns import collect_trigrams

_START_CHARS = 3


class Vocabulary:
    """Texts without regard to case; of one with spaces, its longest word stands for it."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts_of: dict[str, list[str]] = {}
        for text in texts:
            self._texts_of.setdefault(max(text.split(), key=len), []).append(text)
        self._short = [word for word in self._texts_of if len(word) < _START_CHARS]
        self._by_start: dict[str, list[str]] = {}
        for word in self._texts_of:
            if len(word) >= _START_CHARS:
                self._by_start.setdefault(word[:_START_CHARS], []).append(word)

    def find_present(self, text: str) -> frozenset[str]:
        """Every text that occurs in it, and perhaps some with spaces that do not."""
        trigrams = collect_trigrams(text)
        likely = (
            word
            for start in self._by_start.keys() & trigrams
            for word in self._by_start[start]
            if word[-_START_CHARS:] in trigrams
        )
        words = (word for each in (likely, self._short) for word in each if word in text)
        return frozenset(each for word in words for each in self._texts_of[word])


def find_all(part: str, text: str) -> Iterator[int]:
    """Each position of the part in the text."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)
