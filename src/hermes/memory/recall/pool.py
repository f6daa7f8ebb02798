"""The candidates of one question, with their neighbours and the words that each holds."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from hermes.memory.recall.store import Passage
from hermes.memory.recall.words import Stemmer, words

ONE_TALK = timedelta(hours=6)
"""Neighbours further apart in time belong to different talks."""
REACH = 2
"""Places before and after a passage that count for it."""
READ_AT_MOST = 4_000
"""Characters of a passage that are scored: a log of megabytes must not stall the question."""


class Pool:
    def __init__(self) -> None:
        self._passages: dict[int, Passage] = {}
        self._places: dict[tuple[str, int], int] = {}

    def add(self, passages: Iterable[Passage]) -> None:
        for passage in passages:
            self._passages[passage.seq] = passage
            self._places[passage.session, passage.position] = passage.seq

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._passages.values())

    def __contains__(self, seq: int) -> bool:
        return seq in self._passages

    def __getitem__(self, seq: int) -> Passage:
        return self._passages[seq]

    def __len__(self) -> int:
        return len(self._passages)

    def beside(self, passage: Passage) -> list[tuple[int, int]]:
        """Passages of the same talk within reach, each with its distance."""
        found = []
        for way in (-1, 1):
            here = passage
            for distance in range(1, REACH + 1):
                seq = self._places.get((passage.session, passage.position + way * distance))
                if seq is None:
                    break
                there = self._passages[seq]
                # Each step must be somebody else's turn: notes of one author stand for themselves.
                if there.speaker == here.speaker or abs(there.at - passage.at) > ONE_TALK:
                    break
                found.append((seq, distance))
                here = there
        return found


def find_stems(
    passages: Iterable[Passage], wanted: frozenset[str], stemmer: Stemmer
) -> Mapping[int, frozenset[str]]:
    """Which of the wanted stems each passage holds.

    This is the hot place of a recall: only words that begin as a wanted stem does are stemmed (the
    stemmer never touches the first two letters), each once, and the rest is set arithmetic.
    """
    heads = {stem[:2] for stem in wanted}
    held = {passage.seq: set(words(passage.text[:READ_AT_MOST])) for passage in passages}
    every = set().union(*held.values()) if held else set()
    stems = {
        word: stem for word in every if word[:2] in heads and (stem := stemmer.stem(word)) in wanted
    }
    telling = frozenset(stems)
    return {seq: frozenset(stems[word] for word in found & telling) for seq, found in held.items()}
