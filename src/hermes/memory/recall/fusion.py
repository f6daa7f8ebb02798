"""Joins what text, vectors and the shape of the talk say about each passage."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from hermes.memory.recall.pool import Pool
from hermes.memory.recall.question import Question
from hermes.memory.recall.store import Passage
from hermes.memory.recall.text_score import TextScore
from hermes.memory.recall.times import speaks_of_time

MEANING = 1.5
"""Weight of the cosine against the share of words found; 1 to 2 measure alike."""
DOUBT = (0.2, 0.4)
"""When no passage holds more than the first share of the question's weight, its words are taken
for another wording of the same thing and count little; from the second share on they count in
full. This is what lets one scoring serve exact and paraphrased questions."""
DOUBTED = 0.2
EXACT = 0.5
"""More for an identifier or error string that stands in the passage itself."""
ASKS = 0.15
"""Less for a passage that ends in a question: the answer stands next to it."""
SAID_BY = 0.15
"""More for what the person named in the question said."""
SAID_BY_SEVERAL = 0.25
"""The same when the answer lies in several places, where each holds few of the words."""
TIME = 0.1
"""More for a passage that speaks of time when the question asks for one."""


class Weighed(NamedTuple):
    passage: Passage
    score: float
    text: TextScore
    meaning: float | None
    named: bool


def fuse(
    pool: Pool,
    question: Question,
    text: Mapping[int, TextScore],
    meaning: Mapping[int, float],
    names: Collection[str],
) -> list[Weighed]:
    """Scores from about 0 to 1, so that one floor serves with and without vectors."""
    scale = 1 + (MEANING if meaning else 0)
    said_by = SAID_BY_SEVERAL if question.wants_several else SAID_BY
    trust = _trust(text) if meaning else 1.0
    weighed = []
    for passage in pool:
        found = text[passage.seq]
        near = meaning.get(passage.seq)
        named = len(names) == 1 and passage.speaker in names
        score = trust * found.covered + EXACT * found.exact + MEANING * (near or 0.0)
        score += said_by * named
        score -= ASKS * passage.text.rstrip().endswith("?")
        if question.wants_time and speaks_of_time(passage.text):
            score += TIME
        weighed.append(Weighed(passage, score / scale, found, near, named))
    return weighed


def _trust(text: Mapping[int, TextScore]) -> float:
    """How much the words found may say, by the best that any passage holds."""
    best = max((one.covered for one in text.values()), default=0.0)
    low, high = DOUBT
    return min(1.0, max(DOUBTED, (best - low) / (high - low)))
