"""Follows rare names from the best passages to others that hold them: a question's second hop.

"Who is called when notifications fail?" finds who owns them; the owner's name finds the rest.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from hermes.memory.recall.fusion import Weighed
from hermes.memory.recall.question import Question, is_identifier
from hermes.memory.recall.store import Passage
from hermes.memory.recall.text_score import TextScore
from hermes.memory.recall.words import STOP_WORDS, words

FROM_BEST = 3
"""Passages whose names are followed."""
NAMES = 3
HOP = 0.5
"""What a passage is worth against the one that led to it: direct answers stay ahead."""
RARE = 0.002
"""A name in a greater share of the passages than this leads nowhere in particular."""
RARE_AT_LEAST = 5
_NAME = re.compile(r"[A-Z][\w-]{2,}|#?\w[\w./:@-]*\w")


def names_to_follow(
    question: Question, ranked: Sequence[Weighed], speakers: Collection[str]
) -> dict[str, Weighed]:
    """Identifiers and proper names of the best passages, each with the passage that has it."""
    known = {part for text in (question.text, *speakers) for part in words(text)}
    found: dict[str, Weighed] = {}
    for one in ranked[:FROM_BEST]:
        text = one.passage.text[:2_000]
        for name in _NAME.finditer(text):
            if _is_name(name, text) and not all(
                part in known or part in STOP_WORDS for part in words(name.group())
            ):
                found.setdefault(name.group(), one)
    return dict(list(found.items())[:NAMES])


def rare_ones(names: Mapping[str, Weighed], counts: Sequence[int], size: int) -> dict[str, Weighed]:
    """Those that somebody else holds too, but few."""
    most = max(RARE_AT_LEAST, RARE * size)
    pairs = zip(names.items(), counts, strict=True)
    return {name: source for (name, source), count in pairs if 1 < count <= most}


def follow(
    ranked: Sequence[Weighed], led_to: Iterable[Passage], names: Mapping[str, Weighed]
) -> list[Weighed]:
    """Every passage that a name leads to is worth half of where the name stands."""
    scored = {one.passage.seq: one for one in ranked}
    for passage in led_to:
        for name, source in names.items():
            own = scored.get(passage.seq)
            worth = HOP * source.score
            if _holds(passage, name) and (own is None or own.score < worth):
                text = TextScore(0.0, 0.0, (name,))
                scored[passage.seq] = Weighed(passage, worth, text, None, False)
    return list(scored.values())


def _is_name(found: re.Match[str], text: str) -> bool:
    """A capital in the middle of a sentence, or a string that nobody would paraphrase."""
    name = found.group()
    if is_identifier(name):
        return True
    before = text[: found.start()].rstrip()
    return name[0].isupper() and bool(before) and before[-1] not in ".!?:…\n\"'([-"


def _holds(passage: Passage, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", passage.text[:8_000], re.I) is not None
