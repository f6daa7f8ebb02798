"""How near a passage's meaning is to the question, smoothed with its neighbours."""

from collections.abc import Mapping

from hermes.memory.recall.pool import Pool

BESIDE = (0.3, 0.1)
"""Weight of neighbours one and two places away: "yes, last summer" means little alone."""


def score_vectors(pool: Pool, similarities: Mapping[int, float]) -> Mapping[int, float]:
    """0 to 1 for every passage that has a vector."""
    scores = {}
    for passage in pool:
        own = similarities.get(passage.seq)
        if own is None:
            continue
        total, weight = own, 1.0
        for seq, distance in pool.beside(passage):
            share = BESIDE[distance - 1]
            total += share * similarities.get(seq, 0.0)
            weight += share
        scores[passage.seq] = max(0.0, total / weight)
    return scores
