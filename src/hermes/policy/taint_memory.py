"""What one run has read, in fixed memory: words, neighbours, orders, things of sentences."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from hermes.policy.taint_disguises import disguised, spelled_in_escapes
from hermes.policy.taint_lines import told
from hermes.policy.taint_orders import Survey
from hermes.policy.taint_words import host_of, joined, parents, plain_of, split, words_of

PAIR, SEEN, ORDERED, TOLD = range(4)
Entry = tuple[int, str, str]
_BITS = 1 << 23
"""A megabyte for a run: after a million entries one lookup in forty is wrong, on the safe side."""
_PRIME = _BITS - 15
_ASIDE = 2_000_000
"""Characters of a run that may wait to be taken apart."""
_TRUSTED = 200_000


class _Known:
    """A Bloom filter: it may take for known what is not, never the other way round."""

    def __init__(self) -> None:
        self._bits = bytearray(_BITS >> 3)

    def add(self, entries: Iterable[Entry]) -> None:
        bits = self._bits
        for entry in entries:
            for place in _places(entry):
                bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, entry: Entry) -> bool:
        bits = self._bits
        return all(bits[place >> 3] & (1 << (place & 7)) for place in _places(entry))


def _places(entry: Entry) -> tuple[int, int, int]:
    number = hash(entry)
    return number & (_BITS - 1), (number >> 24) & (_BITS - 1), number % _PRIME


class Reading:
    def __init__(self) -> None:
        self.read: _Known | None = None
        self.anything = False
        self.alarmed = False
        """A text spoke to the agent; from then on whatever was read is suspect."""
        self.trusted: set[Entry] = set()
        self.aside: list[tuple[str, str]] = []
        """Read, and not taken apart yet: most runs only look, and for those it never matters."""
        self.size = 0
        self.opened: set[str] = set()
        """Files that the agent chose to read, or changed: going on with them needs no text."""
        self.written: set[str] = set()
        """Files made from untrusted words."""

    def set_aside(self, text: str, opened: str = "") -> None:
        """`opened` is the file that the agent chose to read, if it is the text of one."""
        self.anything = True
        self.aside.append((text, opened))
        self.size += len(text)
        if self.size > _ASIDE:
            self.digest()

    def digest(self) -> None:
        for text, opened in self.aside:
            # A file that a text told it to read was not chosen.
            chosen = (word for word in words_of(opened) if not self._asked_for(word))
            self.opened.update(chosen)
            self._read(text)
        self.aside, self.size = [], 0

    def vouch(self, text: str) -> None:
        """A person said it."""
        if len(self.trusted) < _TRUSTED:
            self.trusted.update(_vouched(words_of(text)))

    def _asked_for(self, word: str) -> bool:
        return self.has(ORDERED, word) or self.has(TOLD, word)

    def _read(self, text: str) -> None:
        survey = Survey(plain_of(text))
        self.alarmed = self.alarmed or survey.alarming or spelled_in_escapes(text)
        known = self.read = self.read or _Known()
        known.add(_entries(words_of(text)))
        if (whole := joined(text)) != text:
            known.add(_entries(words_of(whole)))
        for part in survey.parts():
            known.add(_ordered(split(part)))
        known.add((TOLD, word, "") for word in told(survey.plain))
        for hidden in set(disguised(text)):
            words = words_of(hidden)
            known.add(_entries(words))
            known.add(_ordered(words))

    def has(self, kind: int, first: str, second: str = "") -> bool:
        entry = (kind, first, second)
        vouched = (PAIR if kind == PAIR else SEEN, first, second)
        return self.read is not None and vouched not in self.trusted and entry in self.read


def _entries(words: list[str]) -> Iterator[Entry]:
    for first, second in set(pairwise(words)):
        yield PAIR, first, second
    for word in set(words):
        yield SEEN, word, ""
        if "://" in word:
            yield SEEN, host_of(word), ""


def _vouched(words: list[str]) -> Iterator[Entry]:
    """Whoever names a path also names the file at its end."""
    yield from _entries(words)
    for word in words:
        if "/" in word:
            yield SEEN, word.rpartition("/")[2], ""


def _ordered(words: list[str]) -> Iterator[Entry]:
    for word in set(words):
        yield ORDERED, word, ""
        if "://" in word:
            yield ORDERED, host_of(word), ""
        elif "/" in word:
            for folder in parents(word):
                yield ORDERED, folder, ""
            yield ORDERED, word.rpartition("/")[2], ""
