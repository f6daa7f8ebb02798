"""Picks what is shown: spread when the answer lies in several places, nothing when it is noise."""

from collections.abc import Sequence

from hermes.memory.recall.fusion import Weighed
from hermes.memory.recall.pool import Pool

CROWDED = 0.05
"""Taken, on the scale of the words found, from the neighbours of a pick."""


def rank(weighed: Sequence[Weighed]) -> list[Weighed]:
    """Best first; of equals the newer one, then the lower number: the order never wavers."""
    return sorted(
        weighed, key=lambda one: (-one.score, -one.passage.at.timestamp(), one.passage.seq)
    )


def pick(ranked: Sequence[Weighed], pool: Pool, limit: int, *, spread: bool) -> list[Weighed]:
    if not spread:
        return list(ranked[:limit])
    # A neighbour loses a little for each pick beside it, so only the head can still rise.
    waiting = list(ranked[: limit * 5])
    picked: list[Weighed] = []
    while waiting and len(picked) < limit:
        best = max(waiting, key=lambda one: one.score)
        waiting.remove(best)
        picked.append(best)
        beside = {seq for seq, distance in pool.beside(best.passage) if distance == 1}
        waiting = [
            one._replace(score=one.score - CROWDED) if one.passage.seq in beside else one
            for one in waiting
        ]
    return picked
